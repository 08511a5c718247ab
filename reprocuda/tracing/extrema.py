"""Shapes and derivatives of scatter_max and scatter_min."""

from __future__ import annotations

import torch
from torch.library import register_autograd

from ..ops import fragment
from .support import fake


def _meta(src, dim, index, dim_size, self, largest):
    if index.shape != src.shape:
        raise RuntimeError("scatter_extremum(): index must have the shape of src")
    shape = list(src.shape)
    shape[dim] = dim_size
    return src.new_empty(shape), src.new_empty(shape, dtype=torch.int64)


def _setup(ctx, inputs, output):
    src, dim, _, _, _, _ = inputs
    ctx.dim = dim % src.dim()
    ctx.num_rows = src.shape[ctx.dim]
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _backward(ctx, grad, _):
    from ..families.extrema import spread

    (positions,) = ctx.saved_tensors
    src_grad = spread(grad, positions, ctx.dim, ctx.num_rows) if ctx.needs_input_grad[0] else None
    own_grad = grad.masked_fill(positions != ctx.num_rows, 0) if ctx.needs_input_grad[4] else None
    return src_grad, None, None, None, own_grad, None


fake("scatter_extremum", _meta)
register_autograd("reprocuda::scatter_extremum", _backward, setup_context=_setup, lib=fragment)
