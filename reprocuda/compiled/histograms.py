"""Shapes of the operators behind histograms, which have no derivatives."""

from __future__ import annotations

import math

import torch

from .support import fake


def _meta_histogram_keys(points, edges, search):
    return points.new_empty(points.shape[0], dtype=torch.int64)


def _meta_histogram_counts(points, edges, search):
    return points.new_empty(math.prod(edge.shape[0] - 1 for edge in edges), dtype=torch.int64)


fake("histogram_keys", _meta_histogram_keys)
fake("histogram_counts", _meta_histogram_counts)
