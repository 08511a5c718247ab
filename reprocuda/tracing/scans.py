"""Shapes and derivatives of prefix sums, products and log-sum-exps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.library import register_autograd

from .. import ops
from ..families.scans import gradient_of_products, gradients_of_jacobian_product, suffix_sums
from ..ops import fragment
from .support import contiguous_like, fake


def _shape_of(native: Callable) -> Callable:
    def shape(self, dim):
        return self.new_empty(native(self.to("meta"), dim).shape)

    return shape


def _checked_by(native: Callable) -> Callable:
    def check(self, dim, *out):
        native(self.to("meta"), dim)

    return check


for _name, _native in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod), ("logcumsumexp", torch.logcumsumexp)):
    fake(_name, _shape_of(_native))
    fake(f"{_name}_out", _checked_by(_native), writes=True)
    if _name != "logcumsumexp":
        fake(f"{_name}_", _checked_by(_native), writes=True)
fake("logcumsumexp_jacobian", lambda weights, *_: contiguous_like(weights))


def _setup_sum(ctx, inputs, output):
    ctx.dim = inputs[1]


def _backward_of_sum(ctx, grad):
    return suffix_sums(grad, ctx.dim, ops.cumsum), None


def _setup(ctx, inputs, output):
    input, ctx.dim = inputs
    ctx.save_for_backward(input, output)


def _backward_of_product(ctx, grad):
    """Of the second derivative it has only what does not lie behind a zero: compiled code has none at all."""
    input, output = ctx.saved_tensors
    if grad.dim() == 0:
        return grad, None
    return gradient_of_products(grad, input, output, ctx.dim, ops.cumsum, ops.cumprod), None


def _backward_of_logarithm(ctx, grad):
    input, output = ctx.saved_tensors
    if grad.dim() == 0:
        return grad, None
    return ops.logcumsumexp_jacobian(grad, input, output, ctx.dim, True), None


def _setup_jacobian(ctx, inputs, output):
    *tensors, ctx.dim, ctx.transposed = inputs
    ctx.save_for_backward(*tensors, output)


def _backward_of_jacobian(ctx, grad):
    compute, tensors = ops.logcumsumexp_jacobian, ctx.saved_tensors
    return *gradients_of_jacobian_product(compute, grad, *tensors, ctx.dim, ctx.transposed), None, None


register_autograd("reprocuda::cumsum", _backward_of_sum, setup_context=_setup_sum, lib=fragment)
register_autograd("reprocuda::cumprod", _backward_of_product, setup_context=_setup, lib=fragment)
register_autograd("reprocuda::logcumsumexp", _backward_of_logarithm, setup_context=_setup, lib=fragment)
register_autograd(
    "reprocuda::logcumsumexp_jacobian", _backward_of_jacobian, setup_context=_setup_jacobian, lib=fragment
)
