"""Shapes of the operators behind histograms, which have no derivatives."""

from __future__ import annotations

import math

import torch
from torch.library import get_ctx

from ..families.histograms import require_bins
from .support import fake


def _meta_histogram_keys(points, edges, search):
    return points.new_empty(points.shape[0], dtype=torch.int64)


def _meta_histogram_counts(points, edges, search):
    return points.new_empty(math.prod(edge.shape[0] - 1 for edge in edges), dtype=torch.int64)


def _meta_bincount(input, weights, minlength):
    dtype = torch.float32 if weights.dtype == torch.float32 else torch.float64
    size = get_ctx().new_dynamic_size()
    torch._check(size >= minlength)
    return weights.new_empty(size, dtype=dtype)


def _meta_histc(input, bins, min, max):
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}")
    return input.new_empty(bins)


def _meta_by_counts(input, bins, bounds, weight, density, op):
    require_bins(op, bins)
    return input.new_empty(bins), [input.new_empty(count + 1) for count in bins]


def _meta_by_edges(input, edges, weight, density):
    return input.new_empty([edge.shape[0] - 1 for edge in edges])


fake("bincount", _meta_bincount)
fake("histc", _meta_histc)
fake("histogramdd_by_counts", _meta_by_counts)
fake("histogramdd_by_edges", _meta_by_edges)
fake("histogram_keys", _meta_histogram_keys)
fake("histogram_counts", _meta_histogram_counts)
