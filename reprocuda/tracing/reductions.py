"""Shapes and derivatives of the reductions by index other than the sum."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.library import register_autograd

from .. import ops
from ..families.reductions import DerivativeOps, GradientFactors, Reduction, gradient_factors
from ..families.routes import ElementRoute, RowRoute
from ..ops import fragment
from ..plan import SegmentPlan
from .support import contiguous_like, fake

_aten = torch.ops.aten


def _meta(native: Callable) -> Callable:
    def shape(self, dim, index, src, reduce, include_self=True):
        result = native(self, dim, index, src, reduce, include_self=include_self)
        return contiguous_like(result)

    return shape


for _name, _native in {"scatter_reduce": _aten.scatter_reduce.two, "index_reduce": _aten.index_reduce}.items():
    _shape = _meta(_native)
    fake(_name, _shape)
    fake(f"{_name}_", _shape, writes=True)
    fake(f"{_name}_out", lambda *arguments, shape=_shape: shape(*arguments[:-1]), writes=True)


fake("index_reduce_planned", lambda self, *_, **__: contiguous_like(self))


def _setup(ctx, inputs, output):
    self, ctx.dim, index, src, reduce, include_self = inputs
    ctx.reduction = Reduction(reduce, include_self)
    ctx.save_for_backward(self, src, output, index)


def _backward(route_along: Callable, take: Callable, add: Callable, reduce: Callable) -> Callable:
    def backward(ctx, grad):
        self, src, result, index = ctx.saved_tensors
        dim, reduction, route = ctx.dim, ctx.reduction, route_along(ctx.dim)

        def taken(values: Tensor) -> Tensor:
            return take(values, dim, index)

        derivative_ops = DerivativeOps(
            take=taken,
            add=lambda target, values: add(target, dim, index, values),
            reduce=lambda target, values: reduce(target, dim, index, values, reduction.reduce, reduction.include_self),
        )
        factors = gradient_factors(derivative_ops, self, route.read(src, (index,)), result, reduction)
        grad = factors.divided(grad)
        src_grad = route.fit(factors.of_src(taken(grad)), src.shape)
        return factors.of_base(grad), None, None, src_grad, None, None

    return backward


register_autograd(
    "reprocuda::scatter_reduce",
    _backward(ElementRoute, ops.gather, ops.scatter_add, ops.scatter_reduce),
    setup_context=_setup,
    lib=fragment,
)
register_autograd(
    "reprocuda::index_reduce",
    _backward(RowRoute, ops.index_select, ops.index_add, ops.index_reduce),
    setup_context=_setup,
    lib=fragment,
)


def _planned_setup(ctx, inputs, output):
    self, ctx.dim, permutation, offsets, source, reduce, include_self = inputs
    ctx.reduction = Reduction(reduce, include_self)
    ctx.save_for_backward(self, source, output, permutation, offsets)


def _planned_backward(ctx, grad):
    self, source, result, permutation, offsets = ctx.saved_tensors
    dim, reduction, num_rows = ctx.dim, ctx.reduction, source.shape[ctx.dim]
    targets = SegmentPlan(permutation, offsets, num_rows, torch.Size([num_rows])).targets

    def taken(values: Tensor) -> Tensor:
        return ops.index_select(values, dim, targets)

    def reduced(target: Tensor, values: Tensor) -> Tensor:
        name, include_self = reduction.reduce, reduction.include_self
        return ops.index_reduce_planned(target, dim, permutation, offsets, values, name, include_self)

    derivative_ops = DerivativeOps(
        take=taken,
        add=lambda target, values: ops.index_add_planned(target, dim, permutation, offsets, values),
        reduce=reduced,
    )
    factors = gradient_factors(derivative_ops, self, source, result, reduction)
    grad = factors.divided(grad)
    return factors.of_base(grad), None, None, None, factors.of_src(taken(grad)), None, None


register_autograd("reprocuda::index_reduce_planned", _planned_backward, setup_context=_planned_setup, lib=fragment)


fake("mean_with_initial", lambda self, permutation, offsets, source: contiguous_like(self))


def _mean_setup(ctx, inputs, output):
    _, permutation, offsets, source = inputs
    ctx.num_rows = source.shape[0]
    ctx.save_for_backward(permutation, offsets)


def _mean_backward(ctx, grad):
    permutation, offsets = ctx.saved_tensors
    targets = SegmentPlan(permutation, offsets, ctx.num_rows, torch.Size([ctx.num_rows])).targets
    counts = offsets.diff().clamp(min=1).reshape([-1] + [1] * (grad.dim() - 1))
    grad = GradientFactors(divisor=counts).divided(grad)
    return grad, None, None, ops.index_select(grad, 0, targets)


register_autograd("reprocuda::mean_with_initial", _mean_backward, setup_context=_mean_setup, lib=fragment)
