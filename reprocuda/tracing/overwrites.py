"""Shapes and derivatives of plain writes through an index."""

from __future__ import annotations

import torch
from torch.library import register_autograd

from ..families.overwrites import gradients
from ..ops import fragment
from .support import contiguous_like, fake, meta_index_put

_aten = torch.ops.aten


def _meta_scatter(self, dim, index, src, out=None):
    return contiguous_like(_aten.scatter(self, dim, index, src))


def _meta_index_copy(self, dim, index, source, out=None):
    return contiguous_like(_aten.index_copy(self, dim, index, source))


for _name, _meta in {
    "scatter": _meta_scatter,
    "index_copy": _meta_index_copy,
    "index_put_overwrite": meta_index_put,
}.items():
    fake(_name, _meta)
    fake(f"{_name}_", _meta, writes=True)
for _name, _meta in {"scatter_out": _meta_scatter, "index_copy_out": _meta_index_copy}.items():
    fake(_name, _meta, writes=True)


def _along_setup(ctx, inputs, output):
    self, ctx.dim, index, src = inputs
    ctx.shapes = self.shape, src.shape
    ctx.save_for_backward(index)


def _points_setup(ctx, inputs, output):
    self, indices, ctx.dims, values = inputs
    ctx.shapes = self.shape, values.shape
    ctx.save_for_backward(*indices)


def _gradients(ctx, route, grad):
    wanted = ctx.needs_input_grad[0], ctx.needs_input_grad[3]
    return gradients(route, grad, *ctx.shapes, ctx.saved_tensors, wanted)


def _scatter_backward(ctx, grad):
    from ..families.routes import ElementRoute

    base_grad, src_grad = _gradients(ctx, ElementRoute(ctx.dim % max(len(ctx.shapes[0]), 1)), grad)
    return base_grad, None, None, src_grad


def _index_copy_backward(ctx, grad):
    from ..families.routes import RowRoute

    base_grad, src_grad = _gradients(ctx, RowRoute(ctx.dim % max(len(ctx.shapes[0]), 1)), grad)
    return base_grad, None, None, src_grad


def _index_put_backward(ctx, grad):
    from ..families.points import PointRoute

    base_grad, values_grad = _gradients(ctx, PointRoute(tuple(ctx.dims)), grad)
    return base_grad, [None] * len(ctx.saved_tensors), None, values_grad


for _name, _backward, _setup in (
    ("scatter", _scatter_backward, _along_setup),
    ("index_copy", _index_copy_backward, _along_setup),
    ("index_put_overwrite", _index_put_backward, _points_setup),
):
    register_autograd(f"reprocuda::{_name}", _backward, setup_context=_setup, lib=fragment)
