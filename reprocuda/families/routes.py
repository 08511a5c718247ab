"""Routes: which target each source element belongs to. Rows along a dimension, single elements, or a plan's segments.

A route is immutable and knows how to run both ways (sums.py): `add` and `add_` call the compiled operators that
sum, `write` and `write_` those that overwrite, `take` torch's own reading ones, `fit` brings what was read to the shape
of the source, `spread` is the transpose of `take`, and the two `batched` methods serve vmap, with the batch as first
dimension of all that is batched; `run(route, base, src, where)` is the operation.

For the derivative of an overwrite (overwrites.py): `last` is the largest position aimed at each target, or -1;
`written` says, broadcasting to the base, what has been written over, and `stands`, broadcasting to what `take` gives,
which source elements are still there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import ops
from ..arguments.alpha import Alpha, split_alpha
from ..arguments.checks import check_on_device, checks
from ..arguments.transforms import is_legacy_batched, needs_autograd
from .mean_with_initial import by_elements, by_plan
from .overwrites import overwrite
from .sums import IndexTensors, accumulate, accumulate_, gather

if TYPE_CHECKING:
    from ..plan import SegmentPlan
    from .reductions import Reduction


# Called as run(route, base, src, where), with a route for the whole batch.
Run = Callable[[Any, Tensor, Tensor, IndexTensors], Tensor]


class Route:
    def fit(self, taken: Tensor, shape: torch.Size) -> Tensor:
        return taken

    def read(self, src: Tensor, where: IndexTensors) -> Tensor:
        return src

    def add_batched(self, base: Tensor, src: Tensor, where: IndexTensors, where_dims: list, alpha: Alpha) -> Tensor:
        return self.batched(base, src, where, where_dims, lambda *parts: accumulate(*parts, alpha))

    def spread(self, grad: Tensor, shape: torch.Size, where: IndexTensors) -> Tensor:
        zeros = grad.new_zeros(shape)
        if needs_autograd(grad) or is_legacy_batched(grad):
            return accumulate(self, zeros, grad, where)
        return accumulate_(self, zeros, grad, where)


def read_part(src: Tensor, shape: torch.Size) -> Tensor:
    """The leading part of `src` that an index of this shape covers, in its shape."""
    if src.dim() != len(shape) or 0 in shape:
        return src.flatten()[: shape.numel()].reshape(shape)
    for dim, size in enumerate(shape):
        src = src.narrow(dim, 0, size)
    return src


def merge_batch(index: Tensor, size: int) -> Tensor:
    """Indices [batch, ...] into `size` rows of each batch entry, as a vector of indices into batch * size rows.

    What is out of range stays out of range, and does not become a row of the neighbour.
    """
    batch = index.shape[0]
    first = torch.arange(batch, device=index.device).reshape(-1, *[1] * (index.dim() - 1)) * size
    return torch.where((index >= 0) & (index < size), index + first, batch * size).flatten()


@dataclass(frozen=True)
class RowRoute(Route):
    """index_add and index_select: row i of the source belongs to row index[i] of the target. where = (index,)"""

    dim: int

    def add(self, base: Tensor, src: Tensor, where: IndexTensors, alpha: Alpha) -> Tensor:
        self._check(base, where)
        return ops.index_add(base, self.dim, *where, src, *split_alpha(alpha, base.dtype))

    def add_(self, base: Tensor, src: Tensor, where: IndexTensors, alpha: Alpha) -> None:
        self._check(base, where)
        ops.index_add_(base, self.dim, *where, src, *split_alpha(alpha, base.dtype))

    def write(self, base: Tensor, src: Tensor, where: IndexTensors) -> Tensor:
        self._check(base, where, "index_copy")
        return ops.index_copy(base, self.dim, *where, src)

    def write_(self, base: Tensor, src: Tensor, where: IndexTensors) -> None:
        self._check(base, where, "index_copy")
        ops.index_copy_(base, self.dim, *where, src)

    def last(self, shape: torch.Size, where: IndexTensors) -> Tensor:
        (index,) = where
        size = shape[self.dim] if shape else 1
        positions = torch.arange(index.numel(), device=index.device)
        return overwrite(RowRoute(0), torch.full((size,), -1, device=index.device), positions, (index.reshape(-1),))

    def written(self, last: Tensor, shape: torch.Size) -> Tensor:
        return (last >= 0).reshape([-1] + [1] * (len(shape) - 1 - self.dim) if shape else [])

    def stands(self, last: Tensor, shape: torch.Size, where: IndexTensors) -> Tensor:
        index = where[0].reshape(-1)
        mine = gather(RowRoute(0), last, (index,)) == torch.arange(index.numel(), device=index.device)
        return mine.reshape([-1] + [1] * (len(shape) - 1 - self.dim) if shape else [])

    def _check(self, base: Tensor, where: IndexTensors, op: str = "index_add") -> None:
        if checks.on:
            check_on_device(op, where[0], 0, base.shape[self.dim] if base.dim() else 1)

    def take(self, values: Tensor, where: IndexTensors) -> Tensor:
        return values.index_select(self.dim, *where)  # torch_geometric replaces the function, and refuses numbers in it

    def fit(self, taken: Tensor, shape: torch.Size) -> Tensor:
        return taken.reshape(shape)

    def reduce(self, base: Tensor, src: Tensor, where: IndexTensors, reduction: Reduction) -> Tensor:
        self._check(base, where, "index_reduce")
        return ops.index_reduce(base, self.dim, *where, src, reduction.reduce, reduction.include_self)

    def reduce_(self, base: Tensor, src: Tensor, where: IndexTensors, reduction: Reduction) -> None:
        self._check(base, where, "index_reduce")
        ops.index_reduce_(base, self.dim, *where, src, reduction.reduce, reduction.include_self)

    def batched(self, base: Tensor, src: Tensor, where: IndexTensors, where_dims: list, run: Run) -> Tensor:
        if base.dim() == 1:
            base, src = base.unsqueeze(-1), src.reshape(len(src), -1)  # a 0-dim tensor has a dimension 0 all the same
            return self.batched(base, src, where, where_dims, run).squeeze(-1)
        dim = self.dim + 1
        if where_dims[0] is None:
            return run(RowRoute(dim), base, src, where)
        index = merge_batch(where[0].movedim(where_dims[0], 0), base.shape[dim])
        base, src = base.movedim(dim, 1), src.movedim(dim, 1)
        out = run(RowRoute(0), base.flatten(0, 1), src.flatten(0, 1), (index,))
        return out.reshape(base.shape).movedim(1, dim)

    def take_batched(self, values: Tensor, where: IndexTensors, where_dims: list) -> Tensor:
        if values.dim() == 1:
            return self.take_batched(values.unsqueeze(-1), where, where_dims).squeeze(-1)
        dim = self.dim + 1
        if where_dims[0] is None:
            return gather(RowRoute(dim), values, where)
        index = merge_batch(where[0].movedim(where_dims[0], 0), values.shape[dim])
        values = values.movedim(dim, 1)
        out = gather(RowRoute(0), values.flatten(0, 1), (index,))
        return out.reshape(values.shape[0], -1, *values.shape[2:]).movedim(1, dim)


@dataclass(frozen=True)
class ElementRoute(Route):
    """scatter_add and gather: the index has an entry for every source element. where = (index,)"""

    dim: int

    def add(self, base: Tensor, src: Tensor, where: IndexTensors, alpha: Alpha) -> Tensor:
        self._check(base, where)
        return ops.scatter_add(base, self.dim, *where, src)

    def add_(self, base: Tensor, src: Tensor, where: IndexTensors, alpha: Alpha) -> None:
        self._check(base, where)
        ops.scatter_add_(base, self.dim, *where, src)

    def write(self, base: Tensor, src: Tensor, where: IndexTensors) -> Tensor:
        self._check(base, where, "scatter")
        return ops.scatter(base, self.dim, *where, src)

    def write_(self, base: Tensor, src: Tensor, where: IndexTensors) -> None:
        self._check(base, where, "scatter")
        ops.scatter_(base, self.dim, *where, src)

    def last(self, shape: torch.Size, where: IndexTensors) -> Tensor:
        nowhere = torch.full(tuple(shape), -1, device=where[0].device)
        return overwrite(self, nowhere, self._positions(where[0]), where)

    def written(self, last: Tensor, shape: torch.Size) -> Tensor:
        return last >= 0

    def stands(self, last: Tensor, shape: torch.Size, where: IndexTensors) -> Tensor:
        return gather(self, last, where) == self._positions(where[0])

    def _positions(self, index: Tensor) -> Tensor:
        size = index.shape[self.dim] if index.dim() else 1
        steps = torch.arange(size, device=index.device)
        return steps.reshape([-1] + [1] * (index.dim() - 1 - self.dim) if index.dim() else []).expand(index.shape)

    def _check(self, base: Tensor, where: IndexTensors, op: str = "scatter_add") -> None:
        if checks.on:
            check_on_device(op, where[0], 0, base.shape[self.dim] if base.dim() else 1)

    def take(self, values: Tensor, where: IndexTensors) -> Tensor:
        return torch.gather(values, self.dim, where[0].long())

    def fit(self, taken: Tensor, shape: torch.Size) -> Tensor:
        """The part of the source that the smaller index did not reach has no influence: its gradient is 0."""
        if taken.shape == shape:
            return taken
        if taken.numel() == 0:
            return taken.new_zeros(shape)
        taken = taken.reshape([1] * len(shape)) if taken.dim() != len(shape) else taken
        missing = [
            amount for size, have in zip(shape[::-1], taken.shape[::-1], strict=True) for amount in (0, size - have)
        ]
        return torch.nn.functional.pad(taken, missing).reshape(shape)

    def reduce(self, base: Tensor, src: Tensor, where: IndexTensors, reduction: Reduction) -> Tensor:
        self._check(base, where, "scatter_reduce")
        if not reduction.counts_self:
            return by_elements(base, self.dim, *where, src)
        return ops.scatter_reduce(base, self.dim, *where, src, reduction.reduce, reduction.include_self)

    def reduce_(self, base: Tensor, src: Tensor, where: IndexTensors, reduction: Reduction) -> None:
        self._check(base, where, "scatter_reduce")
        if not reduction.counts_self:
            base.copy_(self.reduce(base, src, where, reduction))
            return
        ops.scatter_reduce_(base, self.dim, *where, src, reduction.reduce, reduction.include_self)

    def read(self, src: Tensor, where: IndexTensors) -> Tensor:
        """The part of the source that a smaller index reaches."""
        return read_part(src, where[0].shape)

    def batched(self, base: Tensor, src: Tensor, where: IndexTensors, where_dims: list, run: Run) -> Tensor:
        index = self._index(where[0], where_dims[0], base.shape[0])
        if base.dim() == 1:
            base, src, index = base.unsqueeze(-1), src.reshape(base.shape[0], -1), index.reshape(base.shape[0], -1)
            return run(ElementRoute(1), base, src, (index,)).squeeze(-1)
        return run(ElementRoute(self.dim + 1), base, src, (index,))

    def take_batched(self, values: Tensor, where: IndexTensors, where_dims: list) -> Tensor:
        index = self._index(where[0], where_dims[0], values.shape[0])
        if values.dim() == 1:
            return gather(ElementRoute(1), values.unsqueeze(-1), (index.reshape(len(index), -1),)).reshape(index.shape)
        return gather(ElementRoute(self.dim + 1), values, (index,))

    @staticmethod
    def _index(index: Tensor, dim: int | None, size: int) -> Tensor:
        return index.movedim(dim, 0) if dim is not None else index.unsqueeze(0).expand(size, *index.shape)


@dataclass(frozen=True, eq=False)
class PlanRoute(Route):
    """Rows grouped by a SegmentPlan, which is never batched and never differentiated. where = ()"""

    plan: SegmentPlan
    dim: int = 0

    def add(self, base: Tensor | None, src: Tensor, where: IndexTensors, alpha: Alpha) -> Tensor:
        plan = self.plan
        if base is None:
            return ops.segment_sum(src, plan.permutation, plan.offsets)
        return ops.index_add_planned(
            base, self.dim, plan.permutation, plan.offsets, src, *split_alpha(alpha, base.dtype)
        )

    def add_(self, base: Tensor, src: Tensor, where: IndexTensors, alpha: Alpha) -> None:
        plan = self.plan
        ops.index_add_planned_(base, self.dim, plan.permutation, plan.offsets, src, *split_alpha(alpha, base.dtype))

    def reduce(self, base: Tensor, src: Tensor, where: IndexTensors, reduction: Reduction) -> Tensor:
        plan = self.plan
        if not reduction.counts_self:
            return by_plan(base, self.dim, plan.permutation, plan.offsets, src)
        if reduction.reduce in ("amax", "amin") and src.device.type != "cpu":  # where the largest is found by an index
            return ops.index_reduce(base, self.dim, plan.targets, src, reduction.reduce, reduction.include_self)
        return ops.index_reduce_planned(
            base, self.dim, plan.permutation, plan.offsets, src, reduction.reduce, reduction.include_self
        )

    def take(self, values: Tensor, where: IndexTensors) -> Tensor:
        return values.index_select(self.dim, self.plan.targets)

    def spread(self, grad: Tensor, shape: torch.Size, where: IndexTensors) -> Tensor:
        if self.dim == 0 and grad.dim():
            return accumulate(self, None, grad, ())
        return super().spread(grad, shape, where)

    def add_batched(
        self, base: Tensor | None, src: Tensor, where: IndexTensors, where_dims: list, alpha: Alpha
    ) -> Tensor:
        if base is None:
            return accumulate(self, None, src.movedim(0, -1), ()).movedim(-1, 0)
        return accumulate(PlanRoute(self.plan, self.dim + 1), base, src, (), alpha)

    def batched(self, base: Tensor, src: Tensor, where: IndexTensors, where_dims: list, run: Run) -> Tensor:
        return run(PlanRoute(self.plan, self.dim + 1), base, src, ())

    def take_batched(self, values: Tensor, where: IndexTensors, where_dims: list) -> Tensor:
        return gather(PlanRoute(self.plan, self.dim + 1), values, ())
