"""torch_scatter's segment_* and gather_*: elements that are grouped already, by a sorted index (COO) or pointers (CSR).

The first dimensions of `src` are those of the index or the pointers, the last of which runs along the elements. An
index that is not sorted is served all the same.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .. import functional, reading
from ..plan import SegmentPlan, has_data
from .reductions import _extremum, _sum, scatter_mean
from .support import check_index, check_out, result_shape


def segment_sum_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Tensor:
    """The sum of each segment's elements, named by a sorted index: torch_scatter.segment_sum_coo.

    Args:
        src: [*index.shape, ...], of any dtype that torch can add by index.
        index: int32 or int64, sorted along its last dimension; of size 1 in those before where it is the same for all.
        out: what the sums are added to, in place.
        dim_size: how many segments there are; without it and `out`, the largest index plus 1.

    Returns:
        `out`, or a tensor like `src` but for dim_size in the place of index.shape[-1]; empty segments are 0.

    Raises:
        RuntimeError, IndexError: as `scatter_sum`.

    Determinism: exact, both this and its derivatives.

    Cost: as `scatter_sum`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_sum_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        tensor([3., 0., 4.])
    """
    index, dim = _coo("segment_sum_coo", src, index)
    return _sum("segment_sum_coo", src, index, dim, out, dim_size)


def segment_add_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Tensor:
    """`segment_sum_coo` by its other name: torch_scatter.segment_add_coo.

    Determinism: exact, both this and its derivatives.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_add_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        tensor([3., 0., 4.])
    """
    return segment_sum_coo(src, index, out, dim_size)


def segment_mean_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Tensor:
    """The mean of each segment's elements, named by a sorted index: torch_scatter.segment_mean_coo.

    Arguments are those of `segment_sum_coo`; empty segments are 0, and `out` is treated as by `scatter_mean`.

    Determinism: exact, as `scatter_mean`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_mean_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        tensor([1.5000, 0.0000, 4.0000])
    """
    index, dim = _coo("segment_mean_coo", src, index)
    return scatter_mean(src, index, dim, out, dim_size)


def segment_min_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The smallest of each segment's elements and where it is, by a sorted index: torch_scatter.segment_min_coo.

    Arguments are those of `segment_sum_coo`, results and ties those of `scatter_min`.

    Determinism: exact.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_min_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        (tensor([1., 0., 4.]), tensor([0, 3, 2]))
    """
    index, dim = _coo("segment_min_coo", src, index)
    return _extremum("segment_min_coo", src, index, dim, out, dim_size, largest=False)


def segment_max_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The largest of each segment's elements and where it is, by a sorted index: torch_scatter.segment_max_coo.

    Arguments are those of `segment_sum_coo`, results and ties those of `scatter_max`.

    Determinism: exact.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_max_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        (tensor([2., 0., 4.]), tensor([1, 3, 2]))
    """
    index, dim = _coo("segment_max_coo", src, index)
    return _extremum("segment_max_coo", src, index, dim, out, dim_size, largest=True)


def segment_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None, reduce: str = "sum"
) -> Tensor:
    """Each segment's elements, named by a sorted index, reduced: torch_scatter.segment_coo.

    Args:
        src, index, out, dim_size: as for `segment_sum_coo`.
        reduce: "sum" or "add", "mean", "min", "max".

    Raises:
        ValueError: `reduce` is something else.

    Determinism: exact, as the function of that name.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]), reduce="max")
        tensor([2., 0., 4.])
    """
    return _named("segment_coo", _COO, reduce)(src, index, out, dim_size)


def gather_coo(src: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """The element of `src` that each entry of a sorted index names: torch_scatter.gather_coo.

    Args:
        src: [..., num_segments, ...].
        index: int32 or int64 [..., num_elements], with the leading dimensions of `src`.
        out: where to write the result.

    Returns:
        `out`, or a tensor like `src` but for num_elements in the place of num_segments.

    Raises:
        RuntimeError, IndexError: shapes do not fit; an index is out of range.

    Determinism: exact: nothing is summed here, and the gradient is an exact sum.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.gather_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        tensor([1., 1., 4.])
    """
    op = "gather_coo"
    check_index(op, "index", index, src)
    dim = _last_dim(op, "index", index, src)
    for d in range(dim):
        if index.shape[d] not in (1, src.shape[d]):
            raise RuntimeError(f"{op}(): index has size {index.shape[d]} in dimension {d}, src has {src.shape[d]}")
    return _gathered(op, src, index, dim, out)


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
    op = "segment_sum_csr"
    dim = _check_csr(op, src, indptr)
    size = indptr.shape[-1] - 1
    if has_data(src) and src.is_cpu and indptr.numel() == size + 1 and _covers(indptr, src.shape[dim]):
        plan = SegmentPlan.from_offsets(indptr.reshape(-1), num_rows=src.shape[dim])
        zeros = src.new_zeros(result_shape(src, dim, size))
        return _deliver(op, functional.index_add_(zeros, dim, plan, src), src, dim, out)
    return _reduced(op, src, indptr, out, lambda *arguments: _sum(op, *arguments))


def segment_add_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """`segment_sum_csr` by its other name: torch_scatter.segment_add_csr.

    Determinism: exact, both this and its derivatives.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_add_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        tensor([3., 0., 4.])
    """
    return segment_sum_csr(src, indptr, out)


def segment_mean_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The mean of each segment's elements, between pointers: torch_scatter.segment_mean_csr.

    Arguments are those of `segment_sum_csr`; empty segments are 0.

    Determinism: exact, as `scatter_mean`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_mean_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        tensor([1.5000, 0.0000, 4.0000])
    """
    _check_csr("segment_mean_csr", src, indptr)
    return _reduced("segment_mean_csr", src, indptr, out, scatter_mean)


def segment_min_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The smallest of each segment's elements and where it is, between pointers: torch_scatter.segment_min_csr.

    Arguments are those of `segment_sum_csr`, results and ties those of `scatter_min`.

    Determinism: exact.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_min_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        (tensor([1., 0., 4.]), tensor([0, 3, 2]))
    """
    op = "segment_min_csr"
    _check_csr(op, src, indptr)
    return _reduced(op, src, indptr, out, lambda *arguments: _extremum(op, *arguments, largest=False))


def segment_max_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The largest of each segment's elements and where it is, between pointers: torch_scatter.segment_max_csr.

    Arguments are those of `segment_sum_csr`, results and ties those of `scatter_max`.

    Determinism: exact.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_max_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]))
        (tensor([2., 0., 4.]), tensor([1, 3, 2]))
    """
    op = "segment_max_csr"
    _check_csr(op, src, indptr)
    return _reduced(op, src, indptr, out, lambda *arguments: _extremum(op, *arguments, largest=True))


def segment_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None, reduce: str = "sum") -> Tensor:
    """Each segment's elements, between pointers, reduced: torch_scatter.segment_csr.

    Args:
        src, indptr, out: as for `segment_sum_csr`.
        reduce: "sum" or "add", "mean", "min", "max".

    Raises:
        ValueError: `reduce` is something else.

    Determinism: exact, as the function of that name.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_csr(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2, 3]), reduce="min")
        tensor([1., 0., 4.])
    """
    result = _named("segment_csr", _CSR, reduce)(src, indptr, out)
    return result[0] if isinstance(result, tuple) else result


def gather_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The element of `src` of each segment, once for every element between its pointers: torch_scatter.gather_csr.

    Args:
        src: [..., num_segments, ...].
        indptr: int32 or int64 [..., num_segments + 1], as for `segment_sum_csr`.
        out: where to write the result, whose size says how many elements there are; without it the last pointer does,
            which is read: on CUDA that waits for the device.

    Returns:
        `out`, or a tensor like `src` but for the last pointer in the place of num_segments; 0 before the first pointer.

    Raises:
        RuntimeError: shapes do not fit.

    Determinism: exact: nothing is summed here, and the gradient is an exact sum.

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
    last = indptr.reshape(-1)[-1]
    count = out.shape[dim] if out is not None else int(last) if src.numel() else 0
    if count == 0 or size == 0:
        return _deliver(op, src.new_zeros(result_shape(src, dim, count)), src, dim, out)
    segments = _segments(indptr, count)
    outside = segments == size
    result = _gathered(op, src, segments.clamp(max=size - 1), dim, None)
    if bool(outside.any()):
        outside = outside.reshape(list(outside.shape) + [1] * (src.dim() - outside.dim()))
        result = torch.where(outside, torch.zeros_like(result) if out is None else out, result)
    return _deliver(op, result, src, dim, out)


def _last_dim(op: str, name: str, index: Tensor, src: Tensor) -> int:
    if not 1 <= index.dim() <= src.dim():
        raise RuntimeError(f"{op}(): {name} must have 1 to {src.dim()} dimensions, as src has, got {index.dim()}")
    return index.dim() - 1


def _coo(op: str, src: Tensor, index: Tensor) -> tuple[Tensor, int]:
    """The index with as many dimensions as src, and the dimension along which it runs."""
    check_index(op, "index", index, src)
    dim = _last_dim(op, "index", index, src)
    return index.reshape(list(index.shape) + [1] * (src.dim() - index.dim())), dim


def _check_csr(op: str, src: Tensor, indptr: Tensor) -> int:
    check_index(op, "indptr", indptr, src)
    dim = _last_dim(op, "indptr", indptr, src)
    if indptr.shape[-1] == 0:
        raise RuntimeError(f"{op}(): indptr must have at least one element along its last dimension")
    for d in range(dim):
        if indptr.shape[d] not in (1, src.shape[d]):
            raise RuntimeError(f"{op}(): indptr has size {indptr.shape[d]} in dimension {d}, src has {src.shape[d]}")
    return dim


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


def _reduced(op: str, src: Tensor, indptr: Tensor, out: Tensor | None, reduce: Callable) -> Tensor:
    dim = indptr.dim() - 1
    size, count = indptr.shape[-1] - 1, src.shape[dim]
    if out is not None:
        check_out(op, out, src, dim, size)
    if has_data(indptr) and indptr.is_cpu:
        falls = bool((indptr.diff() < 0).any())
        if falls or int(indptr.min()) < 0 or int(indptr.max()) > count:
            raise ValueError(f"{op}(): indptr must rise within [0, {count}]")
    index = _segments(indptr, count)
    index = index.reshape(list(index.shape) + [1] * (src.dim() - index.dim())).expand(src.shape)
    result = reduce(src, index, dim, None, size + 1)  # one more segment, for the elements outside of all
    if isinstance(result, tuple):
        values, positions = (part.narrow(dim, 0, size) for part in result)
        return _deliver(op, values, src, dim, out), positions.contiguous()
    return _deliver(op, result.narrow(dim, 0, size), src, dim, out)


def _deliver(op: str, result: Tensor, src: Tensor, dim: int, out: Tensor | None) -> Tensor:
    if out is None:
        return result.contiguous()
    check_out(op, out, src, dim, result.shape[dim])
    return out.copy_(result)


def _gathered(op: str, src: Tensor, index: Tensor, dim: int, out: Tensor | None) -> Tensor:
    if index.numel() == index.shape[-1]:
        return _deliver(op, reading.index_select(src, dim, index.reshape(-1)), src, dim, out)
    shape = [*src.shape[:dim], index.shape[-1], *src.shape[dim + 1 :]]
    index = index.reshape(list(index.shape) + [1] * (src.dim() - index.dim())).expand(shape)
    return _deliver(op, reading.gather(src, dim, index), src, dim, out)


def _named(op: str, functions: dict[str, Callable], reduce: str) -> Callable:
    if reduce not in functions:
        raise ValueError(f"{op}(): reduce must be one of {', '.join(functions)}, got {reduce!r}")
    return functions[reduce]


def _values(function: Callable) -> Callable:
    return lambda *arguments: function(*arguments)[0]


_COO = {
    "sum": segment_sum_coo,
    "add": segment_sum_coo,
    "mean": segment_mean_coo,
    "min": _values(segment_min_coo),
    "max": _values(segment_max_coo),
}
_CSR = {
    "sum": segment_sum_csr,
    "add": segment_sum_csr,
    "mean": segment_mean_csr,
    "min": _values(segment_min_csr),
    "max": _values(segment_max_csr),
}
