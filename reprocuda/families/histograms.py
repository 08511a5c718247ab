"""Counting by value: which bin each point falls into is torch's rule, how much falls into each an exact sum.

Counts are integers until they are rounded, once, to the dtype of the result; torch's stall at 2**24 in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import ops

_aten = torch.ops.aten
COUNTED = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_INT64 = torch.iinfo(torch.int64)


def weighted_counts(index: Tensor, weights: Tensor, minlength: int) -> Tensor | None:
    """torch.bincount with weights; None: torch's own decides about the arguments."""
    if index.dim() != 1 or weights.shape != index.shape or index.dtype not in COUNTED or minlength < 0:
        return None
    if weights.is_complex() or weights.device != index.device:
        return None
    wide = weights.detach() if weights.dtype == torch.float32 else weights.detach().double()
    if index.numel() == 0:
        return None
    lowest, highest = (int(end) for end in torch.aminmax(index))
    if lowest < 0:
        return None
    rows = index if index.dtype in (torch.int32, torch.int64) else index.int()
    return ops.embedding_dense_backward(wide.unsqueeze(1), rows, max(highest + 1, minlength), -1, False).squeeze(1)


def exact_total(values: Tensor) -> float:
    """The exact sum of all, rounded once."""
    column = values.reshape(-1, 1)
    return float(ops.segment_sum(column, None, torch.tensor([0, column.shape[0]], device=column.device)))


def fill(
    points: Tensor,  # [num_points, num_dims]
    edges: Sequence[Tensor],
    search: str,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    """[bins of each dimension] how many points, or how much weight, falls into each bin; over the total and the bin's
    volume if `density`.
    """
    edges = [edge.contiguous() for edge in edges]
    shape = [edge.shape[0] - 1 for edge in edges]
    if weight is None:
        hist = ops.histogram_counts(points, edges, search).to(points.dtype)
    else:
        keys = ops.histogram_keys(points, edges, search)
        num_bins = math.prod(shape)
        sums = ops.embedding_dense_backward(weight.reshape(-1, 1), keys, num_bins + 1, num_bins, False)
        hist = sums[:num_bins, 0].clone()
    hist = hist.reshape(shape)
    if density:
        hist.div_(exact_total(hist))
        for dim, edge in enumerate(edges):
            hist.div_(edge.diff().reshape([-1 if d == dim else 1 for d in range(len(shape))]))
    return hist


def serves(points: Tensor, weight: Tensor | None, edges: Sequence[Tensor] = ()) -> bool:
    """Whether torch takes such arguments to a histogram; the errors for others are torch's."""
    if not (points.is_cpu or points.is_cuda) or points.dtype not in (torch.float32, torch.float64) or points.dim() < 1:
        return False
    for edge in edges:
        if edge.dtype != points.dtype or edge.dim() != 1 or edge.shape[0] < 2 or edge.device != points.device:
            return False
        if not (edge[1:] >= edge[:-1]).all():  # where torch's search is left to chance, so would ours be
            return False
    return weight is None or (weight.dtype == points.dtype and weight.shape == points.shape[: weight.dim()])


def _flat(points: Tensor, weight: Tensor | None, dims: int) -> tuple[Tensor, Tensor | None] | None:
    """[num_points, dims] and [num_points], or None where they do not fit."""
    if points.dim() < 2 or dims == 0 or points.shape[-1] != dims:
        return None
    if weight is not None and weight.shape != points.shape[:-1]:
        return None
    return points.detach().reshape(-1, dims), None if weight is None else weight.detach().reshape(-1)


def by_counts(
    points: Tensor,
    bins: Sequence[int],
    bounds: Sequence[float] | None,
    weight: Tensor | None,
    density: bool,
    op: str = "histogramdd",
) -> tuple[Tensor, list[Tensor]] | None:
    """torch.histogramdd with numbers of bins, and their edges; None: torch's own decides about the arguments.

    Args:
        points: [..., num_dims].
        bounds: the ends in every dimension, or None: those of the data.
        op: the function that was called, for the message.
    """
    flat = _flat(points, weight, len(bins))
    if flat is None or not serves(*flat):
        return None
    require_bins(op, bins)
    if flat[0].is_cpu:
        edges = list(_aten._histogramdd_bin_edges(flat[0], list(bins), range=bounds))
    else:
        edges = edges_by_ends(flat[0], bins, bounds)
    return fill(flat[0], edges, "nearby", flat[1], density), edges


def require_bins(op: str, bins: Sequence[int]) -> None:
    for dim, count in enumerate(bins):
        if count <= 0:
            raise RuntimeError(f"{op}(): bins must be > 0, but got {count} for dimension {dim}")


def edges_by_ends(points: Tensor, bins: Sequence[int], bounds: Sequence[float] | None) -> list[Tensor]:
    """The edges of equal bins where torch has none: its own on the CPU, of the smallest and largest points alone."""
    ends = torch.stack([points.amin(0), points.amax(0)]) if points.shape[0] else points
    edges = _aten._histogramdd_bin_edges(ends.cpu(), list(bins), range=bounds)
    return [edge.to(points.device) for edge in edges]


def by_edges(points: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor | None:
    """torch.histogramdd with rising edges; None: torch's own decides about the arguments."""
    flat = _flat(points, weight, len(edges))
    if flat is None or not serves(*flat, edges):
        return None
    return fill(flat[0], edges, "bisect", flat[1], density)


def can_take(out: tuple[Tensor, Tensor], points: Tensor) -> bool:
    """Whether torch takes these for the results of a histogram; the errors for others are torch's."""
    return all(
        tensor.dtype == points.dtype and tensor.device == points.device and not tensor.requires_grad for tensor in out
    )


def one_dimension(
    points: Tensor,
    bins: int | Tensor,
    bounds: Sequence[float] | None,
    weight: Tensor | None,
    density: bool,
    counts: Callable = by_counts,
    edges: Callable = by_edges,
) -> tuple[Tensor, Tensor] | None:
    """torch.histogram; None: torch's own decides about the arguments.

    Args:
        points: of any shape.
        bins: how many, or their edges.
        counts, edges: what does the work, of the signatures of `by_counts` and `by_edges`.
    """
    if weight is not None:
        if weight.shape != points.shape:
            return None
        weight = weight.reshape(-1)
    column = points.reshape(-1, 1)
    if isinstance(bins, Tensor):
        hist = edges(column, [bins], weight, density) if bounds is None else None
        return None if hist is None else (hist, bins.clone())
    result = counts(column, [bins], bounds, weight, density, "histogram")
    return None if result is None else (result[0], result[1][0])


def around(value: float, margin: float, dtype: torch.dtype) -> tuple[float, float]:
    """The ends of a range around `value`. A margin that float32 or float64 would round away becomes, as in torch, the
    step to the next number, where there is one.
    """
    low, high = value - margin, value + margin
    if dtype not in (torch.float32, torch.float64) or not math.isfinite(value):
        return low, high
    finite = torch.finfo(dtype)
    ends = torch.tensor([finite.min, finite.max], dtype=dtype, device="cpu")
    below, above = torch.nextafter(torch.full_like(ends, value), ends).tolist()
    return min(low, below), max(high, above)


def uniform_edges(points: Tensor, bins: int, lowest: Any, highest: Any) -> Tensor | None:
    """The edges of histc: of the range, or of the data's if its ends are equal; None: torch has an error for them.

    Waits for a CUDA device where the range is the data's, as torch does.
    """
    lowest, highest = float(lowest), float(highest)
    if lowest == highest and points.numel():
        lowest, highest = (float(end) for end in torch.aminmax(points))
    if lowest == highest:
        lowest, highest = around(lowest, 1, points.dtype)
    if bins <= 0 or not (math.isfinite(lowest) and math.isfinite(highest) and lowest < highest):
        return None
    if not torch.tensor([lowest, highest], dtype=points.dtype, device="cpu").isfinite().all():
        return None
    return torch.linspace(lowest, highest, bins + 1, dtype=points.dtype, device=points.device)


def _keys_of_integers(values: Tensor, bins: int, lowest: int, highest: int) -> Tensor:
    """The bin of every int64, floor((value - lowest) * bins / (highest - lowest)); anything for those out of range."""
    width = highest - lowest
    base = lowest if lowest >= _INT64.min else _INT64.max  # one below the smallest: int64 wraps around, and back below
    if width * bins <= _INT64.max:
        return ((values - base) * bins).div(width, rounding_mode="floor").clamp_(0, bins - 1)
    # The smallest integer of each bin but the first, ceil(lowest + k * width / bins): each is in range, so wrapping
    # around on the way does no harm. The remainder's product needs bins < 2**31.5, whose counts alone are 24 GB.
    whole, remainder = divmod(width, bins)
    k = torch.arange(1, bins, device=values.device)
    above = (k * remainder + (bins - 1)).div(bins, rounding_mode="floor")
    return torch.searchsorted(k * whole + above + base, values, right=True)


def counts_of_integers(points: Tensor, bins: int, lowest: Any, highest: Any) -> Tensor | None:
    """histc of integers, as torch has it on CUDA: in exact integer arithmetic, counts in the dtype of the points."""
    if not all(_INT64.min <= end <= _INT64.max for end in (lowest, highest)):
        return None
    lowest, highest = int(lowest), int(highest)
    wide = points.detach().reshape(-1).long()
    if lowest == highest and points.numel():
        lowest, highest = (int(end) for end in torch.aminmax(wide))
    if lowest == highest:
        lowest, highest = lowest - 1, highest + 1
    if bins <= 0 or lowest > highest:
        return None
    keys = _keys_of_integers(wide, bins, lowest, highest)
    keys.masked_fill_((wide < max(lowest, _INT64.min)) | (wide > min(highest, _INT64.max)), bins)
    counts = wide.new_zeros(bins + 1)
    return ops.scatter_add(counts, 0, keys, wide.new_ones(1).expand(keys.shape))[:bins].to(points.dtype)


def histc_counts(points: Tensor, bins: int, lowest: Any, highest: Any) -> Tensor | None:
    """torch.histc; None: torch's own decides about the arguments."""
    if not (points.is_cpu or points.is_cuda) or points.dtype == torch.bool or points.is_complex():
        return None
    if points.dtype in COUNTED:
        return counts_of_integers(points, bins, lowest, highest)
    edges = uniform_edges(points, bins, lowest, highest) if points.is_floating_point() else None
    return None if edges is None else fill(points.detach().reshape(-1, 1), [edges], "interpolate")


# What compiled code calls: the same, torch's own where torch decides.


def _compiled_bincount(input: Tensor, weights: Tensor, minlength: int) -> Tensor:
    result = weighted_counts(input, weights, minlength)
    return torch.bincount(input, weights, minlength) if result is None else result


def _compiled_histc(input: Tensor, bins: int, min: float, max: float) -> Tensor:
    """Equal ends other than 0 are those that bins lie around."""
    ends = around(min, 0.5, input.dtype) if min == max != 0 else (min, max)
    result = histc_counts(input, bins, *ends)
    return torch.histc(input, bins, min=min, max=max) if result is None else result


def _compiled_by_counts(
    input: Tensor, bins: list[int], bounds: list[float] | None, weight: Tensor | None, density: bool, op: str
) -> tuple[Tensor, list[Tensor]]:
    result = by_counts(input, bins, bounds, weight, density, op)
    if result is None:
        hist, edges = torch.histogramdd(input, bins, range=bounds, weight=weight, density=density)
        return hist, list(edges)
    return result


def _compiled_by_edges(input: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    result = by_edges(input, edges, weight, density)
    return torch.histogramdd(input, edges, weight=weight, density=density).hist if result is None else result


ops.fragment.impl("bincount", _compiled_bincount, "CompositeExplicitAutograd")
ops.fragment.impl("histc", _compiled_histc, "CompositeExplicitAutograd")
ops.fragment.impl("histogramdd_by_counts", _compiled_by_counts, "CompositeExplicitAutograd")
ops.fragment.impl("histogramdd_by_edges", _compiled_by_edges, "CompositeExplicitAutograd")
