"""Shapes and derivatives of the sums by index, and of the readers whose gradients they are."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import register_autograd

from .. import ops
from ..ops import by_dim, fragment
from .support import contiguous_like, fake, meta_index_put

_aten = torch.ops.aten


def _meta_index_add(self, dim, index, source, alpha=1.0, alpha_imag=0.0, alpha_int=1):
    torch._check(self.dim() == source.dim(), lambda: "index_add(): source has another number of dimensions than self")
    for d in range(self.dim()):
        same = index.numel() if d == dim % self.dim() else self.shape[d]
        torch._check(source.shape[d] == same, lambda: "index_add(): source does not match self and index in shape")
    return contiguous_like(_aten.index_add(self, dim, index, source))


def _meta_scatter_add(self, dim, index, src):
    return contiguous_like(_aten.scatter_add(self, dim, index, src))


def _meta_index_put_rows(self, index, values):
    return meta_index_put(self, [index], [0], values)


def _meta_index_put_masked(self, indices, places, values):
    result = _aten.index_put(self, by_dim(indices, places), values, True)
    return contiguous_like(result)


def _meta_embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    return grad_output.new_empty(num_weights, grad_output.shape[-1])


def _meta_segment_plan(index, num_segments):
    return index.new_empty(index.shape, dtype=torch.int64), index.new_empty(num_segments + 1, dtype=torch.int64)


def _meta_segment_sum(src, permutation, offsets):
    return src.new_empty(offsets.shape[0] - 1, *src.shape[1:])


def _meta_planned(self, dim, permutation, offsets, source, alpha=1.0, alpha_imag=0.0, alpha_int=1):
    return contiguous_like(self)


for _name, _meta in {
    "index_add": _meta_index_add,
    "scatter_add": _meta_scatter_add,
    "index_put": meta_index_put,
    "index_put_masked": _meta_index_put_masked,
    "index_put_masked_backward": lambda grad, indices, places, shape: grad.new_empty(shape),
    "embedding_dense_backward": _meta_embedding_dense_backward,
    "segment_plan": _meta_segment_plan,
    "segment_sum": _meta_segment_sum,
    "index_add_planned": _meta_planned,
}.items():
    fake(_name, _meta)
for _name, _meta in {
    "index_add_": _meta_index_add,
    "index_add_out": lambda self, dim, index, source, *_: _meta_index_add(self, dim, index, source),
    "scatter_add_": _meta_scatter_add,
    "scatter_add_out": lambda self, dim, index, src, _: _meta_scatter_add(self, dim, index, src),
    "index_put_": meta_index_put,
    "index_put_rows_": _meta_index_put_rows,
    "index_add_planned_": _meta_planned,
    "fingerprint_": lambda *_: None,
}.items():
    fake(_name, _meta, writes=True)


def _scaled(grad: Tensor, alpha: float, alpha_imag: float, alpha_int: int) -> Tensor:
    """grad times the conjugate of alpha."""
    if alpha_imag:
        return grad * complex(alpha, -alpha_imag)
    factor = alpha_int if alpha == 1 else alpha
    return grad if factor == 1 else grad * factor


def _index_add_setup(ctx, inputs, output):
    _, ctx.dim, index, source, *ctx.alpha = inputs
    ctx.source_shape = source.shape
    ctx.save_for_backward(index)


def _index_add_backward(ctx, grad):
    (index,) = ctx.saved_tensors
    source_grad = ops.index_select(grad, ctx.dim, index).reshape(ctx.source_shape)
    return grad, None, None, _scaled(source_grad, *ctx.alpha), None, None, None


def _scatter_add_setup(ctx, inputs, output):
    _, ctx.dim, index, src = inputs
    ctx.src_shape = src.shape
    ctx.save_for_backward(index)


def _scatter_add_backward(ctx, grad):
    from ..families.routes import ElementRoute

    (index,) = ctx.saved_tensors
    read = ops.gather(grad, ctx.dim, index)
    return grad, None, None, ElementRoute(ctx.dim).fit(read, ctx.src_shape)


def _index_put_setup(ctx, inputs, output):
    _, indices, ctx.dims, values = inputs
    ctx.values_shape = values.shape
    ctx.save_for_backward(*indices)


def _index_put_backward(ctx, grad):
    from ..families.points import reduce_to_shape

    indices = list(ctx.saved_tensors)
    read = ops.index(grad, indices, ctx.dims)
    return grad, [None] * len(indices), None, reduce_to_shape(read, ctx.values_shape)


def _index_put_masked_backward(ctx, grad):
    indices = list(ctx.saved_tensors)
    values_grad = None
    if ctx.needs_input_grad[3]:
        values_grad = ops.index_put_masked_backward(grad, indices, ctx.dims, ctx.values_shape)
    return grad, [None] * len(indices), None, values_grad


def _index_put_masked_backward_setup(ctx, inputs, output):
    grad, indices, ctx.dims, _ = inputs
    ctx.shape = grad.shape
    ctx.save_for_backward(*indices)


def _index_put_masked_backward_backward(ctx, grad):
    indices = list(ctx.saved_tensors)
    return ops.index_put_masked(grad.new_zeros(ctx.shape), indices, ctx.dims, grad), [None] * len(indices), None, None


def _planned_setup(ctx, inputs, output):
    _, ctx.dim, permutation, offsets, source, *ctx.alpha = inputs
    ctx.num_rows = source.shape[ctx.dim]
    ctx.save_for_backward(permutation, offsets)


def _planned_backward(ctx, grad):
    source_grad = ops.index_select(grad, ctx.dim, _targets(*ctx.saved_tensors, ctx.num_rows))
    return grad, None, None, None, _scaled(source_grad, *ctx.alpha), None, None, None


def _segment_sum_setup(ctx, inputs, output):
    src, permutation, offsets = inputs
    ctx.num_rows = src.shape[0]
    ctx.save_for_backward(permutation, offsets)


def _segment_sum_backward(ctx, grad):
    return ops.index_select(grad, 0, _targets(*ctx.saved_tensors, ctx.num_rows)), None, None


def _targets(permutation: Tensor | None, offsets: Tensor, num_rows: int) -> Tensor:
    from ..plan import SegmentPlan

    return SegmentPlan(permutation, offsets, num_rows, torch.Size([num_rows])).targets


def _embedding_dense_backward_setup(ctx, inputs, output):
    _, indices, *rest = inputs
    ctx.rest = rest
    ctx.save_for_backward(indices)


def _embedding_dense_backward_backward(ctx, grad):
    from ..families.lookup import LookupRoute

    return LookupRoute(*ctx.rest, masked=True).take(grad, ctx.saved_tensors), None, None, None, None


def _reader_setup(ctx, inputs, output):
    self, ctx.dim, index = inputs
    ctx.shape = self.shape
    ctx.save_for_backward(index)


def _index_setup(ctx, inputs, output):
    self, indices, ctx.dims = inputs
    ctx.shape = self.shape
    ctx.save_for_backward(*indices)


def _embedding_setup(ctx, inputs, output):
    weight, indices, ctx.padding_idx, ctx.scale_grad_by_freq = inputs
    ctx.num_rows = weight.shape[0]
    ctx.save_for_backward(indices)


def _index_select_backward(ctx, grad):
    return ops.index_add(grad.new_zeros(ctx.shape), ctx.dim, *ctx.saved_tensors, grad), None, None


def _gather_backward(ctx, grad):
    return ops.scatter_add(grad.new_zeros(ctx.shape), ctx.dim, *ctx.saved_tensors, grad), None, None


def _index_backward(ctx, grad):
    indices = list(ctx.saved_tensors)
    return ops.index_put(grad.new_zeros(ctx.shape), indices, ctx.dims, grad), [None] * len(indices), None


def _embedding_backward(ctx, grad):
    (indices,) = ctx.saved_tensors
    return (
        ops.embedding_dense_backward(grad, indices, ctx.num_rows, ctx.padding_idx, ctx.scale_grad_by_freq),
        None,
        None,
        None,
    )


for _name, _backward, _setup in (
    ("index_add", _index_add_backward, _index_add_setup),
    ("scatter_add", _scatter_add_backward, _scatter_add_setup),
    ("index_put", _index_put_backward, _index_put_setup),
    ("index_put_masked", _index_put_masked_backward, _index_put_setup),
    ("index_put_masked_backward", _index_put_masked_backward_backward, _index_put_masked_backward_setup),
    ("index_add_planned", _planned_backward, _planned_setup),
    ("segment_sum", _segment_sum_backward, _segment_sum_setup),
    ("embedding_dense_backward", _embedding_dense_backward_backward, _embedding_dense_backward_setup),
    ("index_select", _index_select_backward, _reader_setup),
    ("gather", _gather_backward, _reader_setup),
    ("index", _index_backward, _index_setup),
    ("embedding", _embedding_backward, _embedding_setup),
):
    register_autograd(f"reprocuda::{_name}", _backward, setup_context=_setup, lib=fragment)
fragment.impl("fingerprint_", torch.library.fallthrough_kernel, "Autograd")  # of bits there is no derivative
