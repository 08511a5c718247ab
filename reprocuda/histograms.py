"""Counting by value: which bin each point falls into is torch's rule, how much falls into each an exact sum.

Counts are integers until they are rounded, once, to the dtype of the result; torch's stall at 2**24 in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import ops

_COUNTED = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def weighted_counts(index: Tensor, weights: Tensor, minlength: int) -> Tensor | None:
    """torch.bincount with weights; None: the arguments are such that torch's own is to judge them."""
    if index.dim() != 1 or weights.shape != index.shape or index.dtype not in _COUNTED or minlength < 0:
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
    return float(ops.segment_sum(column, None, torch.tensor([0, column.shape[0]])))


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
    if not points.is_cpu or points.dtype not in (torch.float32, torch.float64) or points.dim() < 1:
        return False
    for edge in edges:
        if edge.dtype != points.dtype or edge.dim() != 1 or edge.shape[0] < 2 or not edge.is_cpu:
            return False
        if not (edge[1:] >= edge[:-1]).all():  # where torch's search is left to chance, so would ours be
            return False
    return weight is None or (weight.dtype == points.dtype and weight.shape == points.shape[: weight.dim()])


def uniform_edges(points: Tensor, bins: int, lowest: Any, highest: Any) -> Tensor | None:
    """The edges of histc: of the range, or of the data's if its ends are equal; None: torch has an error for them."""
    lowest, highest = float(lowest), float(highest)
    if lowest == highest and points.numel():
        lowest, highest = (float(end) for end in torch.aminmax(points))
    if lowest == highest:
        lowest, highest = lowest - 1, highest + 1
    if bins <= 0 or not (math.isfinite(lowest) and math.isfinite(highest) and lowest < highest):
        return None
    return torch.linspace(lowest, highest, bins + 1, dtype=points.dtype)


def counts_of_integers(points: Tensor, bins: int, lowest: Any, highest: Any) -> Tensor | None:
    """histc of integers, as torch has it on CUDA: in exact integer arithmetic, counts in the dtype of the points."""
    lowest, highest = int(lowest), int(highest)
    if lowest == highest and points.numel():
        lowest, highest = (int(end) for end in torch.aminmax(points))
    if lowest == highest:
        lowest, highest = lowest - 1, highest + 1
    if bins <= 0 or lowest > highest:
        return None
    inside = points[(points >= lowest) & (points <= highest)].long()
    keys = ((inside - lowest) * bins).div(highest - lowest, rounding_mode="floor").clamp_(max=bins - 1)
    return torch.bincount(keys, minlength=bins).to(points.dtype)


def histc_counts(points: Tensor, bins: int, lowest: Any, highest: Any) -> Tensor | None:
    """torch.histc; None: torch's own is to judge the arguments."""
    if not points.is_cpu or points.dtype == torch.bool or points.is_complex():
        return None
    if not points.is_floating_point():
        return counts_of_integers(points, bins, lowest, highest)
    edges = uniform_edges(points, bins, lowest, highest)
    if edges is None or not (edges[0].isfinite() and edges[-1].isfinite()):
        return None
    return fill(points.detach().reshape(-1, 1), [edges], "interpolate")
