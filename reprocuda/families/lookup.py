"""Embedding tables: reading rows, and the exact sum of their gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import ops
from ..arguments.alpha import Alpha
from ..arguments.checks import check_before_writing
from .routes import Route, merge_batch
from .sums import IndexTensors, accumulate, gather


@dataclass(frozen=True)
class LookupRoute(Route):
    """where = (indices,), of any shape; the target is a table [num_rows, features], whose gradient has no `base`.

    The transpose of reading is not quite the gradient that torch defines: it leaves the row `padding_idx` out and may
    divide by how often a row was read. `masked` says whether `take` does so too, as the second derivative needs.
    """

    num_rows: int
    padding_idx: int = -1
    scale_grad_by_freq: bool = False
    masked: bool = False

    def add(self, base: None, src: Tensor, where: IndexTensors, alpha: Alpha) -> Tensor:
        return ops.embedding_dense_backward(src, *where, self.num_rows, self.padding_idx, self.scale_grad_by_freq)

    def take(self, values: Tensor, where: IndexTensors) -> Tensor:
        (indices,) = where
        rows = torch.embedding(values, indices)
        if not self.masked:
            return rows
        if self.padding_idx >= 0:
            rows = rows.masked_fill((indices == self.padding_idx).unsqueeze(-1), 0)
        if self.scale_grad_by_freq:
            counts = torch.bincount(indices.flatten(), minlength=self.num_rows)
            rows = divide_by_counts(rows, counts[indices].unsqueeze(-1))
        return rows

    def spread(self, grad: Tensor, shape: torch.Size, where: IndexTensors) -> Tensor:
        route = LookupRoute(self.num_rows, self.padding_idx, self.scale_grad_by_freq, masked=True)
        return accumulate(route, None, grad, where)

    def add_batched(self, base: None, src: Tensor, where: IndexTensors, where_dims: list, alpha: Alpha) -> Tensor:
        batch, features = src.shape[0], src.shape[-1]
        if where_dims[0] is None:  # the batch joins the features
            flat = accumulate(self, None, src.movedim(0, -2).flatten(-2), where)
            return flat.reshape(self.num_rows, batch, features).movedim(1, 0)
        indices = where[0].movedim(where_dims[0], 0)  # the batch joins the rows, and one more takes the padding
        index = merge_batch(indices, self.num_rows).reshape(indices.shape)
        padding = batch * self.num_rows if self.padding_idx >= 0 else -1
        if self.padding_idx >= 0:
            index = index.masked_fill(indices == self.padding_idx, padding)
        total = batch * self.num_rows + (padding >= 0)
        route = LookupRoute(total, padding, self.scale_grad_by_freq, masked=True)
        return accumulate(route, None, src, (index,))[: batch * self.num_rows].reshape(batch, self.num_rows, features)

    def take_batched(self, values: Tensor, where: IndexTensors, where_dims: list) -> Tensor:
        batch, _, features = values.shape
        if self.masked:
            rows = LookupRoute(self.num_rows).take_batched(values, where, where_dims)
            indices = (
                where[0].movedim(where_dims[0], 0)
                if where_dims[0] is not None
                else where[0].expand(batch, *where[0].shape)
            )
            if self.padding_idx >= 0:
                rows = rows.masked_fill((indices == self.padding_idx).unsqueeze(-1), 0)
            if self.scale_grad_by_freq:
                merged = merge_batch(indices, self.num_rows)
                counts = torch.bincount(merged, minlength=batch * self.num_rows)
                rows = divide_by_counts(rows, counts[merged].reshape(*indices.shape, 1))
            return rows
        if where_dims[0] is None:  # the batch joins the features
            rows = gather(self, values.movedim(0, 1).flatten(1), where)
            return rows.reshape(*where[0].shape, batch, features).movedim(-2, 0)
        indices = where[0].movedim(where_dims[0], 0)  # the batch joins the rows
        table = LookupRoute(batch * self.num_rows, -1, self.scale_grad_by_freq)
        rows = gather(table, values.flatten(0, 1), (merge_batch(indices, self.num_rows).reshape(indices.shape),))
        return without_padding(rows, indices, self.padding_idx)


def renormalise(
    op: str, weight: Tensor, indices: Tensor, max_norm: float, norm_type: float, error: type[Exception]
) -> None:
    """Scales the rows of the table that are read down to `max_norm`, as torch does, once no index is out of range."""
    check_before_writing(op, indices, 0, weight.shape[0], error, "a table of {} rows")
    with torch.no_grad():
        torch.embedding_renorm_(weight.detach(), indices.contiguous(), max_norm, norm_type)


def divide_by_counts(rows: Tensor, counts: Tensor) -> Tensor:
    """A count does not fit float16 beyond 65504, nor exactly beyond 2048."""
    wide = torch.promote_types(rows.dtype, torch.float32)
    return (rows.to(wide) / counts).to(rows.dtype)


def without_padding(rows: Tensor, indices: Tensor, padding_idx: int) -> Tensor:
    """The rows read, [*indices.shape, features], cut off from the table where they are padding."""
    if padding_idx < 0:
        return rows
    return torch.where((indices == padding_idx).unsqueeze(-1), rows.detach(), rows)
