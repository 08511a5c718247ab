"""segment_reduce, by torch's name and arguments: rows that are grouped already, by lengths or offsets, reduced."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..irregular import judge
from ..plan import SegmentPlan, has_data
from .reductions import scatter_reduce
from .sums import index_add, scatter_add

_REDUCTIONS = {name: name for name in ("sum", "mean", "amax", "amin", "prod")} | {"max": "amax", "min": "amin"}
# What an empty segment is, and what the others start from, where the user gives no initial value.
_INITIAL = {"sum": 0.0, "mean": math.nan, "amax": -math.inf, "amin": math.inf, "prod": 1.0}


def segment_reduce(
    data: Tensor,  # [..., num_rows, ...]
    reduce: str,
    *,
    lengths: Tensor | None = None,  # [..., num_segments]
    indices: Tensor | None = None,
    offsets: Tensor | None = None,  # [..., num_segments + 1]
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Each segment of consecutive rows along `axis`, reduced: torch.segment_reduce.

    Args:
        data: float16, bfloat16, float32 or float64.
        reduce: "sum", "mean", "max", "min" or "prod"; "amax" and "amin" are the same as "max" and "min".
        lengths: int32 or int64: how many rows each segment has; the leading dimensions are those of `data`.
        indices: None, as torch has it.
        offsets: int32 or int64, in place of lengths: where each segment starts, and the last ends. Rows outside of all
            segments are passed over.
        axis: the last dimension of lengths or offsets.
        unsafe: lengths need not cover `data`. On the CPU they are kept inside of it all the same.
        initial: one more member of each segment, and what an empty one is; a mean does not count it. Without it, an
            empty segment is 0 (sum), 1 (prod), NaN (mean), -inf (max) or inf (min).

    Returns:
        A tensor like `data`, but for num_segments along `axis`.

    Raises:
        RuntimeError, NotImplementedError: whatever torch.segment_reduce raises; lengths or offsets that fall or leave
            `data`, which torch does not always look at.

    Determinism: exact, on the CPU. A mean with an initial value other than 0 is rounded to float64 first. The members
        of a segment may come in any order.

    Cost: O(data + result); lengths and offsets of one dimension sort and search nothing.

    Example:
        >>> import torch, reprocuda
        >>> data = torch.tensor([1e8, 1.0, -1e8, 5.0])
        >>> reprocuda.segment_reduce(data, "sum", lengths=torch.tensor([3, 0, 1]))
        tensor([1., 0., 5.])
    """
    try:
        return reduce_segments(data, reduce, lengths, indices, offsets, axis, unsafe, initial)
    except ValueError as reason:
        keywords = {"lengths": lengths, "indices": indices, "offsets": offsets, "axis": axis, "unsafe": unsafe}
        return judge("segment_reduce", reason, torch.segment_reduce, data, reduce, **keywords, initial=initial)


def reduce_segments(
    data: Tensor,
    reduce: str,
    lengths: Tensor | None,
    indices: Tensor | None,
    offsets: Tensor | None,
    axis: int,
    unsafe: bool,
    initial: float | None,
) -> Tensor:
    """
    Raises:
        ValueError: torch has to judge these arguments.
    """
    given = lengths if lengths is not None else offsets
    if reduce not in _REDUCTIONS or indices is not None or given is None or not data.is_floating_point():
        raise ValueError("the reduction, its arguments or the dtype are not among those of segment_reduce")
    if given.dtype not in (torch.int32, torch.int64) or given.device != data.device:
        raise ValueError("lengths and offsets must be int32 or int64, on the device of data")
    axis = axis + data.dim() if axis < 0 else axis
    if not 1 <= given.dim() <= data.dim() or axis != given.dim() - 1 or given.shape[:-1] != data.shape[:axis]:
        raise ValueError("axis must be the last dimension of lengths or offsets, and those before as data has them")
    if lengths is None and offsets.shape[-1] == 0:
        raise ValueError("offsets are empty")
    num_rows = data.shape[axis]
    if lengths is not None:
        if has_data(lengths) and not unsafe and bool((lengths.sum(-1) != num_rows).any()):
            raise ValueError("lengths must sum to the number of rows")
        if has_data(lengths) and not unsafe and bool((lengths < 0).any()):
            raise ValueError("lengths must not be negative")
        offsets = torch.nn.functional.pad(lengths.long().cumsum(-1), (1, 0))
    if has_data(offsets):
        _check_offsets(offsets, num_rows)
    reduction = _REDUCTIONS[reduce]
    if offsets.dim() == 1 and has_data(offsets):
        first, last = int(offsets[0]), int(offsets[-1])
        rows = data if (first, last) == (0, num_rows) else data.narrow(0, first, last - first)
        return _of_rows(rows, reduction, SegmentPlan.from_offsets(offsets - first, num_rows=last - first), initial)
    return _of_elements(data, reduction, offsets, axis, initial)


def _check_offsets(offsets: Tensor, num_rows: int) -> None:
    """Never left to torch, which reads beyond the tensor."""
    if bool((offsets.diff() < 0).any()) or int(offsets.min()) < 0 or int(offsets.max()) > num_rows:
        raise RuntimeError(
            f"segment_reduce(): lengths must not be negative, and offsets rise within [0, {num_rows}], the number of "
            f"rows; they lie between {int(offsets.min())} and {int(offsets.max())}"
        )


def _of_rows(rows: Tensor, reduction: str, plan: SegmentPlan, initial: float | None) -> Tensor:
    base = _base(rows, (plan.num_segments, *rows.shape[1:]), reduction, initial)
    if reduction == "sum":
        return index_add(base, 0, plan, rows)
    counts = plan.offsets.diff().reshape([-1] + [1] * (rows.dim() - 1))
    if reduction == "mean" and initial:
        return _mean_from(index_add(base.double(), 0, plan, rows.double()), counts, base)
    index = plan.targets.reshape([-1] + [1] * (rows.dim() - 1)).expand(rows.shape)
    return _reduced(rows, 0, index, reduction, base, counts, initial)


def _of_elements(data: Tensor, reduction: str, offsets: Tensor, axis: int, initial: float | None) -> Tensor:
    """Segments that differ from slice to slice: an index for every element, by binary search."""
    size = offsets.shape[-1] - 1
    positions = torch.arange(data.shape[axis], device=data.device).expand(*offsets.shape[:-1], -1).contiguous()
    index = torch.searchsorted(offsets.long().contiguous(), positions, right=True) - 1
    index = torch.where(index < 0, size, index)  # what lies outside of all goes to one segment more
    index = index.reshape(list(index.shape) + [1] * (data.dim() - index.dim())).expand(data.shape)
    base = _base(data, (*data.shape[:axis], size + 1, *data.shape[axis + 1 :]), reduction, initial)
    counts = offsets.diff()
    counts = torch.nn.functional.pad(counts, (0, 1)).reshape(*base.shape[: axis + 1], *[1] * (data.dim() - axis - 1))
    if reduction == "sum":
        result = scatter_add(base, axis, index, data)
    elif reduction == "mean" and initial:
        result = _mean_from(scatter_add(base.double(), axis, index, data.double()), counts, base)
    else:
        result = _reduced(data, axis, index, reduction, base, counts, initial)
    return result.narrow(axis, 0, size).contiguous()


def _base(data: Tensor, shape: tuple[int, ...], reduction: str, initial: float | None) -> Tensor:
    return torch.full(shape, _INITIAL[reduction] if initial is None else initial, dtype=data.dtype, device=data.device)


def _mean_from(total: Tensor, counts: Tensor, base: Tensor) -> Tensor:
    return torch.where(counts == 0, base, (total / counts.clamp(min=1)).to(base.dtype))


def _reduced(
    data: Tensor, axis: int, index: Tensor, reduction: str, base: Tensor, counts: Tensor, initial: float | None
) -> Tensor:
    if reduction == "prod":
        return scatter_reduce(base, axis, index, data, "prod")
    result = scatter_reduce(base, axis, index, data, reduction, include_self=False)
    if reduction == "mean" or initial is None:
        return result
    # Beside an equal initial value torch gives the whole gradient to the members.
    sign = 1 if reduction == "amax" else -1
    of_zeros = (base == 0) & (result == 0) & (base.signbit() != result.signbit()) & (base.signbit() == (sign < 0))
    wins = (sign * base > sign * result) | of_zeros | (base.isnan() & ~result.isnan())
    return torch.where(wins, base, result)
