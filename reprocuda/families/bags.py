"""Embedding bags: sums, means and maxima of a table's rows, gathered without a copy, and their derivatives.

A sum over bags is linear in the table and in the weights. Every derivative is made of two operations: `Gathered`,
out[to[p]] += weights[p] * table[rows[p]], and `RowProducts`, out[p] = left[left_rows[p]] . right[right_rows[p]]. Sums
are exact and rounded once, products with weights exact; a weight that takes arithmetic (1 / size of a bag) is rounded
to the op-math dtype first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import ops
from ..arguments.checks import checks, raise_if_out_of_range
from ..arguments.transforms import is_legacy_batched, needs_autograd
from ..sparse.entries import coo
from .extrema import spread, taken
from .sums import EachAlone, below_autograd

SUM, MEAN, MAX = range(3)
MODES = {"sum": SUM, "mean": MEAN, "max": MAX}


def op_math(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


@dataclass(frozen=True)
class Bags:
    """Which rows lie in which bag, those of the padding left out.

    Attributes:
        rows: [n] int64 rows of the table, bag by bag.
        bounds: [num_bags + 1] int64, where each bag begins.
        kept: [all] bool, which of the indices are no padding; None: all.
    """

    rows: Tensor
    bounds: Tensor
    kept: Tensor | None

    @property
    def sizes(self) -> Tensor:
        return self.bounds.diff()

    @property
    def numbers(self) -> Tensor:
        """[n] the bag of every row."""
        num_bags = self.bounds.shape[0] - 1
        bags = torch.arange(num_bags, device=self.rows.device)
        return torch.repeat_interleave(bags, self.sizes, output_size=self.rows.shape[0])

    def select(self, values: Tensor) -> Tensor:
        """What belongs to the indices, where they are no padding."""
        return values if self.kept is None else values[self.kept]


def boundaries(indices: Tensor, offsets: Tensor, include_last_offset: bool) -> Tensor:
    """[num_bags + 1] int64. Offsets that are none raise ValueError: torch has the last word on them."""
    bounds = offsets.long()
    if not include_last_offset:
        bounds = torch.cat([bounds, bounds.new_full((1,), indices.shape[0])])
    if bounds.shape[0] == 0 or bounds[0] != 0 or bounds[-1] != indices.shape[0] or (bounds.diff() < 0).any():
        raise ValueError(
            f"offsets must rise from 0 to the number of indices, {indices.shape[0]}, got {offsets[:20].tolist()}"
        )
    return bounds


def require_rows_in_table(indices: Tensor, num_rows: int) -> None:
    """For what is not handed on as it is: the compiled operators look at what they are given."""
    raise_if_out_of_range("embedding_bag", indices, 0, num_rows, RuntimeError, "a table of {} rows")


def unchecked_bags(indices: Tensor, offsets: Tensor, include_last_offset: bool) -> Bags:
    """Bags without padding, for the compiled operators alone, which look at offsets themselves."""
    bounds = offsets.long()
    if not include_last_offset:
        bounds = torch.cat([bounds, bounds.new_full((1,), indices.shape[0])])
    return Bags(indices.long(), bounds, None)


def make_bags(
    indices: Tensor, offsets: Tensor, include_last_offset: bool, padding_idx: int, num_rows: int
) -> Bags:
    if offsets.shape[0] == 0 and not include_last_offset:  # no bag takes them in
        kept = torch.zeros_like(indices, dtype=torch.bool)
        return Bags(indices[:0].long(), offsets.new_zeros(1, dtype=torch.long), kept)
    if indices.is_cuda and checks.on:
        require_rows_in_table(indices, num_rows)
    elif indices.is_cuda and padding_idx < 0:  # where looking would wait for the device
        return unchecked_bags(indices, offsets, include_last_offset)
    bounds = boundaries(indices, offsets, include_last_offset)
    rows = indices.long()
    if padding_idx < 0:
        return Bags(rows, bounds, None)
    require_rows_in_table(indices, num_rows)
    kept = rows != padding_idx
    before = torch.nn.functional.pad(kept.cumsum(0), (1, 0))
    if before[-1] == rows.shape[0]:
        return Bags(rows, bounds, None)
    return Bags(rows[kept], before[bounds], kept)


def gather_sum(
    table: Tensor,
    weights: Tensor | None,
    rows: Tensor,
    to: Tensor | None,
    bounds: Tensor | None,
    num_targets: int,
    mean: bool,
) -> Tensor:
    """[num_targets, features]: the sum or mean of weights[p] * table[rows[p]] over all p with to[p] == target.

    `bounds` says where the targets begin if `to`, which is not read then and may be None, is sorted.
    """
    factors = exact_factors(table, weights)
    if bounds is not None:
        return ops.gather_segment_sum(table, rows, bounds, factors, mean)
    order, bounds = ops.segment_plan(to, num_targets)
    return ops.gather_segment_sum(table, rows[order], bounds, None if factors is None else factors[order], mean)


def exact_factors(table: Tensor, weights: Tensor | None) -> Tensor | None:
    """The weights in a dtype that the compiled operator reads, which holds them: on CUDA float64 alone."""
    is_read = weights is None or (weights.dtype == table.dtype and table.is_cpu)
    return weights if is_read else weights.double()


def divided_by_size(weights: Tensor | None, counts: Tensor, to: Tensor, dtype: torch.dtype) -> Tensor:
    """The weights of a mean: over the number of contributions, each rounded to the op-math dtype."""
    counts = counts[to].double()  # float32 does not hold what is beyond 2**24
    quotients = counts.reciprocal() if weights is None else weights / counts
    return quotients.to(op_math(dtype))


class Gathered(EachAlone):
    """`gather_sum`. With `grad_mean` the table's gradient is divided by how often each row is read."""

    @staticmethod
    def forward(table, weights, rows, to, bounds, num_targets, mean, grad_mean):
        with below_autograd():
            return gather_sum(table, weights, rows, to, bounds, num_targets, mean)

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, weights, rows, to, bounds, ctx.num_targets, ctx.mean, ctx.grad_mean = inputs
        ctx.save_for_backward(table, weights, rows, to, bounds)
        ctx.save_for_forward(table, weights, rows, to, bounds)

    @staticmethod
    def _counts(ctx, to, bounds):
        return torch.bincount(to, minlength=ctx.num_targets) if bounds is None else bounds.diff()

    @staticmethod
    def backward(ctx, grad):
        table, weights, rows, to, bounds = ctx.saved_tensors
        table_grad = weights_grad = None
        if ctx.needs_input_grad[0]:
            factors = weights
            if ctx.mean:
                factors = divided_by_size(weights, Gathered._counts(ctx, to, bounds), to, table.dtype)
            table_grad = gathered(grad, factors, to, rows, None, table.shape[0], grad_mean=False, mean=ctx.grad_mean)
        if ctx.needs_input_grad[1]:
            products = row_products(grad, to, table, rows)
            if ctx.mean:
                products = divided_by_size(products, Gathered._counts(ctx, to, bounds), to, grad.dtype)
            weights_grad = products.to(weights.dtype)
        return table_grad, weights_grad, *[None] * 6

    @staticmethod
    def jvp(ctx, table_tangent, weights_tangent, *_):
        table, weights, rows, to, bounds = ctx.saved_tensors
        tangents = [
            gathered(one, factors, rows, to, bounds, ctx.num_targets, mean=ctx.mean)
            for one, factors in ((table_tangent, weights), (table, weights_tangent))
            if one is not None and (factors is not None or one is table_tangent)
        ]
        return tangents[0] if len(tangents) == 1 else tangents[0] + tangents[1]


def gathered(
    table: Tensor,
    weights: Tensor | None,
    rows: Tensor,
    to: Tensor,
    bounds: Tensor | None,
    num_targets: int,
    mean: bool = False,
    grad_mean: bool = False,
) -> Tensor:
    """`gather_sum`, differentiable in the table and the weights."""
    if needs_autograd(table, weights):
        return Gathered.apply(table, weights, rows, to, bounds, num_targets, mean, grad_mean)
    return Gathered.forward(table, weights, rows, to, bounds, num_targets, mean, grad_mean)


class RowProducts(EachAlone):
    @staticmethod
    def forward(left, left_rows, right, right_rows):
        with below_autograd():
            return ops.gather_row_products(left, left_rows, right, right_rows)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        left, left_rows, right, right_rows = ctx.saved_tensors
        left_grad = right_grad = None
        if ctx.needs_input_grad[0]:
            left_grad = gathered(right, grad, right_rows, left_rows, None, left.shape[0])
        if ctx.needs_input_grad[2]:
            right_grad = gathered(left, grad, left_rows, right_rows, None, right.shape[0])
        return left_grad, None, right_grad, None

    @staticmethod
    def jvp(ctx, left_tangent, _, right_tangent, __):
        left, left_rows, right, right_rows = ctx.saved_tensors
        tangents = [
            row_products(a, left_rows, b, right_rows)
            for a, b in ((left_tangent, right), (left, right_tangent))
            if a is not None and b is not None
        ]
        return tangents[0] if len(tangents) == 1 else tangents[0] + tangents[1]


def row_products(left: Tensor, left_rows: Tensor, right: Tensor, right_rows: Tensor) -> Tensor:
    """[n] the exact sum of left[left_rows[p]] * right[right_rows[p]], rounded once; differentiable in both."""
    if needs_autograd(left, right):
        return RowProducts.apply(left, left_rows, right, right_rows)
    return RowProducts.forward(left, left_rows, right, right_rows)


class Largest(EachAlone):
    """The largest of every bag, and its row. All of the gradient goes there; an empty bag's goes nowhere."""

    @staticmethod
    def forward(table, rows, bounds):
        with below_autograd():
            values, argmax = ops.gather_segment_max(table, rows, bounds)
        return values, argmax.masked_fill_((bounds.diff() == 0).unsqueeze(1), table.shape[0])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.num_rows = inputs[0].shape[0]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
        ctx.save_for_forward(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        (argmax,) = ctx.saved_tensors
        if needs_autograd(grad) or is_legacy_batched(grad):
            return spread(grad, argmax, 0, ctx.num_rows), None, None
        return ops.gather_segment_max_backward(grad, argmax, ctx.num_rows), None, None

    @staticmethod
    def jvp(ctx, tangent, *_):
        return taken(tangent, ctx.saved_tensors[0], 0), None


class SparseRows(torch.autograd.Function):
    """Some rows of a table, each once. Their gradient is a sparse tensor of just these rows, coalesced."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> Tensor:
        ctx.shape = table.shape
        ctx.save_for_backward(rows)
        return table.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return coalesced(rows, grad, ctx.shape), None


class SparseLookup(torch.autograd.Function):
    """The rows of a table that indices name, with a sparse gradient."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, indices: Tensor, padding_idx: int) -> Tensor:
        ctx.num_rows, ctx.padding_idx = table.shape[0], padding_idx
        ctx.save_for_backward(indices)
        return torch.embedding(table, indices)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return sparse_gradient(grad, *ctx.saved_tensors, ctx.num_rows, ctx.padding_idx), None, None


def without_padding(padding_idx: int, rows: Tensor, *others: Tensor | None) -> tuple[Tensor | None, ...]:
    """What is left of rows, and of what belongs to them, once the padding is out."""
    if padding_idx < 0 or (kept := rows != padding_idx).all():
        return rows, *others
    return rows[kept], *(None if other is None else other[kept] for other in others)


def sparse_gradient(grad: Tensor, indices: Tensor, num_rows: int, padding_idx: int) -> Tensor:
    """The gradient of a table by those of the rows read, [*indices.shape, features]: exact sums, coalesced."""
    rows, values = without_padding(padding_idx, indices.reshape(-1), grad.reshape(indices.numel(), grad.shape[-1]))
    used, place = torch.unique(rows, return_inverse=True)
    sums = ops.embedding_dense_backward(values, place, used.shape[0], -1, False)
    return coalesced(used.long(), sums, torch.Size((num_rows, grad.shape[-1])))


def coalesced(rows: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    """A sparse matrix whose rows, sorted and each there once, are given."""
    return coo(rows.unsqueeze(0), values, shape, is_coalesced=True)


def reduce(weight: Tensor, bags: Bags, mode: int, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Every bag's sum, mean or maximum, and of the latter its rows, column by column."""
    if mode == MAX:
        return ops.gather_segment_max(weight, bags.rows, bags.bounds)
    factors = exact_factors(weight, None if weights is None else bags.select(weights))
    return ops.gather_segment_sum(weight, bags.rows, bags.bounds, factors, mode == MEAN), None


def table_gradient(
    grad: Tensor,
    rows: Tensor,
    numbers: Tensor,
    sizes: Tensor,
    mode: int,
    weights: Tensor | None,
    num_rows: int,
    by_count: bool,
) -> Tensor:
    """[num_rows, features]: what sums and means send to the table's rows, each divided by how often it was read if
    `by_count`: that is the mean over the bags which read it.

    Args:
        grad: [num_bags, features].
        rows, numbers: [n] int64, of everything read its row and its bag.
        sizes: [num_bags], how many rows each bag has.
        weights: [n] or None.
    """
    factors = divided_by_size(weights, sizes, numbers, grad.dtype) if mode == MEAN else weights
    return gather_sum(grad, factors, numbers, rows, None, num_rows, mean=by_count)


def spread_maximum(grad: Tensor, argmax: Tensor, sizes: Tensor, num_rows: int) -> Tensor:
    """Every bag's gradient goes to the row that was the largest, column by column; an empty bag's nowhere."""
    nowhere = (sizes == 0).unsqueeze(1)
    return ops.gather_segment_max_backward(grad, argmax.long().masked_fill(nowhere, num_rows), num_rows)
