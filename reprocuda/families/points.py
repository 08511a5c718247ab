"""index_put and w[indices]: several index tensors that broadcast together and name points, or slices, of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import ops
from ..arguments.alpha import Alpha
from ..arguments.checks import check_on_device, checks
from ..plan import SegmentPlan
from .overwrites import overwrite
from .routes import PlanRoute, Route, Run
from .sums import IndexTensors, accumulate, gather

_MASKS = (torch.bool, torch.uint8)
_FIRST_DIMS = [list(range(count)) for count in range(65)]  # torch allows 64 dimensions


def has_mask(indices: Sequence[Tensor | None]) -> bool:
    return any(index is not None and index.dtype in _MASKS for index in indices)


def has_duplicates(indices: Sequence[Tensor | None]) -> bool:
    """Whether a place may be named more than once: not by a mask alone, which torch can write through in any order."""
    given = [index for index in indices if index is not None]
    return len(given) != 1 or given[0].dtype not in _MASKS


def normalize_indices(base: Tensor, indices: Sequence[Tensor | None]) -> tuple[list[Tensor], list[int]]:
    """Integer index tensors and the dimension of `base` that each one indexes, as torch reads its argument `indices`.

    A None leaves its dimension alone; a mask stands for the positions where it is true, one index tensor a dimension.

    Raises:
        ValueError: torch has to say what is wrong.
    """
    plain = len(indices) > 0
    for index in indices:
        if index is None or index.dtype in _MASKS:
            plain = False
    tensors, dims = (indices, _FIRST_DIMS[len(indices)]) if plain else _expand_masks(base, indices)
    if checks.on:
        for tensor, dim in zip(tensors, dims, strict=True):
            check_on_device("index_put", tensor, -base.shape[dim], base.shape[dim])
    return tensors, dims


def _expand_masks(base: Tensor, indices: Sequence[Tensor | None]) -> tuple[list[Tensor], list[int]]:
    tensors, dims = [], []
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
        elif index.dtype in _MASKS:
            if index.dim() == 0 or index.shape != base.shape[dim : dim + index.dim()]:
                raise ValueError("a mask has another shape than what it selects from")
            tensors.extend(index.nonzero(as_tuple=True))
            dims.extend(range(dim, dim + index.dim()))
            dim += index.dim()
        else:
            tensors.append(index)
            dims.append(dim)
            dim += 1
    if not tensors:
        raise ValueError("there is no index tensor")
    return tensors, dims


def on_device_of(base: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> tuple[list[Tensor | None], Tensor]:
    """The index tensors, and `values` of one element, brought to the device of `base`, as torch brings them."""
    moved = [index if index is None or index.device == base.device else index.to(base.device) for index in indices]
    return moved, values.to(base.device) if values.dim() == 0 else values


def reduce_to_shape(tensor: Tensor, shape: torch.Size) -> Tensor:
    """The exact sum of `tensor` over the dimensions along which `shape` was broadcast to it."""
    if tensor.shape == shape:
        return tensor
    if tensor.numel() == 0:  # nothing to add
        return tensor.sum_to_size(shape)
    extra = tensor.dim() - len(shape)
    summed = [d for d in range(tensor.dim()) if d < extra or shape[d - extra] != tensor.shape[d]]
    kept = [d for d in range(tensor.dim()) if d not in summed]
    rows = tensor.permute(summed + kept).reshape(-1, *[tensor.shape[d] for d in kept])
    num_rows = rows.shape[0]
    plan = SegmentPlan(None, torch.arange(2, device=tensor.device) * num_rows, num_rows, torch.Size([num_rows]))
    return accumulate(PlanRoute(plan), None, rows, ()).reshape(shape)


@dataclass(frozen=True)
class PointRoute(Route):
    """where = the index tensors, one for each of `dims`."""

    dims: tuple[int, ...]

    def add(self, base: Tensor, src: Tensor, where: IndexTensors, alpha: Alpha) -> Tensor:
        return ops.index_put(base, list(where), list(self.dims), src)

    def add_(self, base: Tensor, src: Tensor, where: IndexTensors, alpha: Alpha) -> None:
        ops.index_put_(base, list(where), list(self.dims), src)

    def write(self, base: Tensor, src: Tensor, where: IndexTensors) -> Tensor:
        return ops.index_put_overwrite(base, list(where), list(self.dims), src)

    def write_(self, base: Tensor, src: Tensor, where: IndexTensors) -> None:
        ops.index_put_overwrite_(base, list(where), list(self.dims), src)

    def last(self, shape: torch.Size, where: IndexTensors) -> Tensor:
        nowhere = torch.full([shape[dim] for dim in self.dims], -1, device=where[0].device)
        return overwrite(self._alone(), nowhere, self._positions(where), where)

    def written(self, last: Tensor, shape: torch.Size) -> Tensor:
        return (last >= 0).reshape([size if dim in self.dims else 1 for dim, size in enumerate(shape)])

    def stands(self, last: Tensor, shape: torch.Size, where: IndexTensors) -> Tensor:
        mine = gather(self._alone(), last, where) == self._positions(where)
        adjacent = self.dims[-1] - self.dims[0] == len(self.dims) - 1
        behind = len(shape) - (self.dims[-1] + 1 if adjacent else len(self.dims))
        return mine.reshape([*mine.shape, *[1] * behind])

    def _alone(self) -> PointRoute:
        """The same points where there are no dimensions but the indexed ones."""
        return PointRoute(tuple(range(len(self.dims))))

    @staticmethod
    def _positions(where: IndexTensors) -> Tensor:
        shape = torch.broadcast_shapes(*[index.shape for index in where])
        return torch.arange(shape.numel(), device=where[0].device).reshape(shape)

    def take(self, values: Tensor, where: IndexTensors) -> Tensor:
        return torch.ops.aten.index(values, ops.by_dim(where, self.dims))

    def fit(self, taken: Tensor, shape: torch.Size) -> Tensor:
        return reduce_to_shape(taken, shape)

    def batched(self, base: Tensor, src: Tensor, where: IndexTensors, where_dims: list, run: Run) -> Tensor:
        batched = _Batched.of(self.dims, base, where, where_dims)
        taken_dims = len(batched.shape) + base.dim() - 1 - len(self.dims)
        src = src.reshape(len(base), *[1] * (taken_dims - (src.dim() - 1)), *src.shape[1:])
        first = batched.first + 1
        block = list(range(first, first + len(batched.shape)))
        src = src.movedim(block, list(range(1, 1 + len(block))))
        base = base.movedim(batched.source, batched.front)
        out = run(PointRoute(tuple(range(len(batched.indices)))), base, src, tuple(batched.indices))
        return out.movedim(batched.front, batched.source)

    def take_batched(self, values: Tensor, where: IndexTensors, where_dims: list) -> Tensor:
        batched = _Batched.of(self.dims, values, where, where_dims)
        values = values.movedim(batched.source, batched.front)
        out = gather(PointRoute(tuple(range(len(batched.indices)))), values, tuple(batched.indices))
        block = list(range(1, 1 + len(batched.shape)))
        return out.movedim(block, list(range(batched.first + 1, batched.first + 1 + len(block))))


@dataclass(frozen=True)
class _Batched:
    """The same points in a batch of targets: the batch becomes one more indexed dimension, all of them in front."""

    indices: list[Tensor]  # the entry of the batch first; each [batch, *shape], or broadcasting to it
    shape: torch.Size  # what the indices of one entry broadcast to
    first: int  # where `shape` stands in what one entry gathers
    source: list[int]  # the indexed dimensions of the batched target
    front: list[int]  # where they are moved to

    @staticmethod
    def of(dims: tuple[int, ...], target: Tensor, where: IndexTensors, where_dims: list) -> _Batched:
        batch = len(target)
        single = [
            index.shape if dim is None else index.select(dim, 0).shape
            for index, dim in zip(where, where_dims, strict=True)
        ]
        shape = torch.broadcast_shapes(*single)
        entry = torch.arange(batch, device=target.device).reshape(batch, *[1] * len(shape))
        indices = [entry]
        for index, dim in zip(where, where_dims, strict=True):
            front = index.movedim(dim, 0) if dim is not None else index.unsqueeze(0)
            indices.append(front.reshape(len(front), *[1] * (len(shape) - front.dim() + 1), *front.shape[1:]))
        adjacent = dims[-1] - dims[0] == len(dims) - 1
        source = [dim + 1 for dim in dims]
        return _Batched(indices, shape, dims[0] if adjacent else 0, source, list(range(1, 1 + len(dims))))


def _legacy_batched(combine: Callable[[Tensor, int, Tensor, Tensor], Tensor]) -> Callable:
    """For torch.autograd.grad(is_grads_batched=True), whose older vmap cannot loop over an operator with a list of
    tensors: one key a point, combined by an operator that it can loop over."""

    def index_put(base: Tensor, indices: list[Tensor], dims: list[int], values: Tensor) -> Tensor:
        elements = torch.arange(base.numel(), device=base.device).reshape(base.shape)
        keys = PointRoute(tuple(dims)).take(elements, tuple(indices))
        values = values.expand(keys.shape).reshape(-1)
        return combine(base.reshape(-1), 0, keys.flatten(), values).reshape(base.shape)

    return index_put


_batched_library = torch.library.Library("reprocuda", "IMPL", "Batched")
_batched_library.impl("index_put", _legacy_batched(ops.index_add))
_batched_library.impl("index_put_overwrite", _legacy_batched(ops.index_copy))


def _index_put_masked(base: Tensor, indices: list[Tensor], places: list[int], values: Tensor) -> Tensor:
    tensors, dims = normalize_indices(base, ops.by_dim(indices, places))
    return ops.index_put(base, tensors, dims, values)


def _index_put_masked_backward(grad: Tensor, indices: list[Tensor], places: list[int], shape: list[int]) -> Tensor:
    return reduce_to_shape(torch.ops.aten.index(grad, ops.by_dim(indices, places)), torch.Size(shape)).clone()


ops.fragment.impl("index_put_masked", _index_put_masked, "CompositeExplicitAutograd")
ops.fragment.impl("index_put_masked_backward", _index_put_masked_backward, "CompositeExplicitAutograd")
