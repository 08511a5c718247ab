"""torch_scatter's segment_*_csr and gather_csr: elements that are grouped already, between pointers.

The first dimensions of `src` are those of the pointers, the last of which runs along the segments.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .. import functional
from ..arguments.signatures import typed
from ..plan import SegmentPlan, has_data
from .reductions import add, extremum_by_index, mean_by_index
from .support import check_index, check_out, gathered, last_dim, named, result_shape, values, write_or_return


@typed
def segment_sum_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum of each segment's elements, between pointers: torch_scatter.segment_sum_csr.

    Args:
        src: [..., num_elements, ...], of any dtype that torch can add by index.
        indptr: int32 or int64 [..., num_segments + 1], never falling: segment s has elements indptr[s] to
            indptr[s + 1] - 1. Leading dimensions are those of `src`, or of size 1 where the pointers are the same for
            all. Elements outside of all segments are passed over.
        out: where to write the result.

    Returns:
        `out`, or a tensor like `src` but for num_segments in the place of num_elements; empty segments are 0.

    Raises:
        ValueError: the pointers fall, or leave [0, num_elements] (checked on the CPU only).
        RuntimeError: shapes, dtypes or devices do not fit.

    Determinism: exact, both this and its derivatives.

    Cost: one read of src where pointers that are the same for all cover it; else as `scatter_sum`, and a binary search
    for every element.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_sum_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        tensor([3., 0., 4.])
    """
    return _sum("segment_sum_csr", src, indptr, out)


@typed
def segment_add_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """`segment_sum_csr` by its other name: torch_scatter.segment_add_csr.

    Arguments, result and errors are those of `segment_sum_csr`.

    Determinism: exact, both this and its derivatives.

    Cost: as `segment_sum_csr`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_add_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        tensor([3., 0., 4.])
    """
    return _sum("segment_add_csr", src, indptr, out)


@typed
def segment_mean_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The mean of each segment's elements, between pointers: torch_scatter.segment_mean_csr.

    Arguments, result and errors are those of `segment_sum_csr`; empty segments are 0.

    Determinism: exact, as `scatter_mean`.

    Cost: as `scatter_mean`, and a binary search for every element.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_mean_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        tensor([1.5000, 0.0000, 4.0000])
    """
    op = "segment_mean_csr"
    _check_csr(op, src, indptr)
    return _reduced(op, src, indptr, out, lambda *arguments: mean_by_index(op, *arguments))


@typed
def segment_min_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The smallest of each segment's elements and where it is, between pointers: torch_scatter.segment_min_csr.

    Arguments and errors are those of `segment_sum_csr`, results and ties those of `scatter_min`.

    Determinism: exact.

    Cost: as `scatter_max`, and a binary search for every element.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_min_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        (tensor([1., 0., 4.]), tensor([0, 3, 2]))
    """
    op = "segment_min_csr"
    _check_csr(op, src, indptr)
    return _reduced(op, src, indptr, out, lambda *arguments: extremum_by_index(op, *arguments, largest=False))


@typed
def segment_max_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The largest of each segment's elements and where it is, between pointers: torch_scatter.segment_max_csr.

    Arguments and errors are those of `segment_sum_csr`, results and ties those of `scatter_max`.

    Determinism: exact.

    Cost: as `scatter_max`, and a binary search for every element.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_max_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        (tensor([2., 0., 4.]), tensor([1, 3, 2]))
    """
    op = "segment_max_csr"
    _check_csr(op, src, indptr)
    return _reduced(op, src, indptr, out, lambda *arguments: extremum_by_index(op, *arguments, largest=True))


@typed
def segment_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None, reduce: str = "sum") -> Tensor:
    """Each segment's elements, between pointers, reduced: torch_scatter.segment_csr.

    Args:
        src, indptr, out: as for `segment_sum_csr`.
        reduce: "sum" or "add", "mean", "min", "max".

    Returns:
        What the function of that name returns, without the positions.

    Raises:
        ValueError: `reduce` is something else; as the function of that name.
        RuntimeError: as the function of that name.

    Determinism: exact, as the function of that name.

    Cost: as the function of that name.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]), reduce="min")
        tensor([1., 0., 4.])
    """
    result = named("segment_csr", _CSR, reduce)(src, indptr, out)
    return result[0] if isinstance(result, tuple) else result


@typed
def gather_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The element of `src` of each segment, once for every element between its pointers: torch_scatter.gather_csr.

    Args:
        src: [..., num_segments, ...].
        indptr: int32 or int64 [..., num_segments + 1], as for `segment_sum_csr`; all of one last pointer without `out`.
        out: where to write the result, whose size says how many elements there are; without it the last pointer does,
            which is read: on CUDA that waits for the device.

    Returns:
        `out`, or a tensor like `src` but for the last pointer in the place of num_segments; 0 before the first pointer.

    Raises:
        ValueError: the pointers fall, or leave [0, num_elements] (checked on the CPU only).
        RuntimeError: shapes do not fit.

    Determinism: exact: nothing is summed here, and the gradient is an exact sum.

    Cost: a binary search for every element of the result, and one read by index.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.gather_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        tensor([1., 1., 4.])
    """
    op = "gather_csr"
    dim = _check_csr(op, src, indptr)
    size = indptr.shape[-1] - 1
    if src.shape[dim] != size:
        raise RuntimeError(f"{op}(): src has size {src.shape[dim]} in dimension {dim}, but there are {size} segments")
    count = out.shape[dim] if out is not None else _last(indptr)
    _check_rising(op, indptr, count)
    if count == 0 or size == 0:  # zeros and nothing of src, whose gradient is not to be missing for that
        zeros = src.new_zeros(result_shape(src, dim, count))
        return write_or_return(op, zeros + src.narrow(dim, 0, 0).sum().to(src.dtype), src, dim, out)
    segments = _segments(indptr, count)
    outside = segments == size
    result = gathered(op, src, segments.clamp(max=size - 1), dim, None)
    if not (has_data(outside) and outside.is_cpu) or bool(outside.any()):
        outside = outside.reshape(list(outside.shape) + [1] * (src.dim() - outside.dim()))
        result = torch.where(outside, torch.zeros_like(result) if out is None else out, result)
    return write_or_return(op, result, src, dim, out)


def _check_csr(op: str, src: Tensor, indptr: Tensor) -> int:
    check_index(op, "indptr", indptr, src)
    dim = last_dim(op, "indptr", indptr, src)
    if indptr.shape[-1] == 0:
        raise RuntimeError(f"{op}(): indptr must have at least one element along its last dimension")
    for d in range(dim):
        if indptr.shape[d] not in (1, src.shape[d]):
            raise RuntimeError(f"{op}(): indptr has size {indptr.shape[d]} in dimension {d}, src has {src.shape[d]}")
    return dim


def _check_rising(op: str, indptr: Tensor, count: int) -> None:
    """Where looking does not wait for the device."""
    if not has_data(indptr) or not indptr.is_cpu or indptr.numel() == 0:
        return
    falls = bool((indptr.diff() < 0).any())
    if falls or int(indptr.min()) < 0 or int(indptr.max()) > count:
        raise ValueError(
            f"{op}(): indptr must rise within [0, {count}], got "
            + (f"pointers between {int(indptr.min())} and {int(indptr.max())}" if not falls else "pointers that fall")
        )


def _last(indptr: Tensor) -> int:
    return max(int(indptr.reshape(-1)[-1]), 0) if indptr.numel() else 0


def _covers(indptr: Tensor, count: int) -> bool:
    flat = indptr.reshape(-1)
    return int(flat[0]) == 0 and int(flat[-1]) == count


def _segments(indptr: Tensor, count: int) -> Tensor:
    """The segment of each element; the number of segments for those outside of all."""
    size = indptr.shape[-1] - 1
    elements = torch.arange(count, device=indptr.device, dtype=indptr.dtype)
    elements = elements.expand(*indptr.shape[:-1], count).contiguous()
    segments = torch.searchsorted(indptr.contiguous(), elements, right=True) - 1
    return torch.where(segments < 0, size, segments)


def _sum(op: str, src: Tensor, indptr: Tensor, out: Tensor | None) -> Tensor:
    dim = _check_csr(op, src, indptr)
    size = indptr.shape[-1] - 1
    if has_data(src) and src.is_cpu and indptr.numel() == size + 1 and _covers(indptr, src.shape[dim]):
        _check_rising(op, indptr, src.shape[dim])
        plan = SegmentPlan.from_offsets(indptr.reshape(-1), num_rows=src.shape[dim])
        zeros = src.new_zeros(result_shape(src, dim, size))
        return write_or_return(op, functional.index_add_(zeros, dim, plan, src), src, dim, out)
    return _reduced(op, src, indptr, out, lambda *arguments: add(op, *arguments))


def _reduced(op: str, src: Tensor, indptr: Tensor, out: Tensor | None, reduce: Callable) -> Tensor:
    dim = indptr.dim() - 1
    size, count = indptr.shape[-1] - 1, src.shape[dim]
    if out is not None:
        check_out(op, out, src, dim, size)
    _check_rising(op, indptr, count)
    index = _segments(indptr, count)
    index = index.reshape(list(index.shape) + [1] * (src.dim() - index.dim())).expand(src.shape)
    result = reduce(src, index, dim, None, size + 1)  # one more segment, for the elements outside of all
    if isinstance(result, tuple):
        values, positions = (part.narrow(dim, 0, size) for part in result)
        return write_or_return(op, values, src, dim, out), positions.contiguous()
    return write_or_return(op, result.narrow(dim, 0, size), src, dim, out)


_CSR = {
    "sum": segment_sum_csr,
    "add": segment_sum_csr,
    "mean": segment_mean_csr,
    "min": values(segment_min_csr),
    "max": values(segment_max_csr),
}
