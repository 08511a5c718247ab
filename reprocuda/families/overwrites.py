"""The third differentiable operation by index: overwriting. Of several contributions the last in source order stands.

Its derivative is that of what was computed. A target that has been written over passes nothing on to the base, and a
source element that another one was written over has had no influence: only those that stand get a gradient. torch's own
formulas give every duplicate the gradient of its place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..arguments.transforms import needs_autograd
from .sums import IndexTensors, below_autograd, gather, to_front, write_in_place


def overwrite(route: Any, base: Tensor, src: Tensor, where: IndexTensors) -> Tensor:
    """`base` with every element of `src` written to its target."""
    if needs_autograd(base, src):
        return Overwrite.apply(base, src, route, *where)
    with below_autograd():
        return route.write(base, src, where)


def overwrite_(route: Any, base: Tensor, src: Tensor, where: IndexTensors) -> Tensor:
    """The same, written into `base`, which is returned."""
    return write_in_place(
        base,
        src,
        lambda: overwrite(route, base, src, where),
        lambda: OverwriteInPlace.apply(base, src, route, *where),
        lambda: route.write_(base, src, where),
    )


def source_of(input: Tensor, index: Tensor, src: Tensor | float) -> Tensor:
    """What scatter adds or multiplies: a number is expanded, which takes no memory."""
    if isinstance(src, Tensor):
        return src
    return torch.full((), src, dtype=input.dtype, device=input.device).expand(index.shape)


def gradients(
    route: Any,
    grad: Tensor,
    base_shape: torch.Size,
    src_shape: torch.Size,
    where: IndexTensors,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of `base` and `src`, those that are wanted."""
    if not all(index.numel() for index in where):
        return (grad if wanted[0] else None), (grad.new_zeros(src_shape) if wanted[1] else None)
    last = route.last(base_shape, where)
    base_grad = grad.masked_fill(route.written(last, base_shape), 0) if wanted[0] else None
    src_grad = None
    if wanted[1]:
        taken = gather(route, grad, where)
        src_grad = route.fit(taken.masked_fill(~route.stands(last, base_shape, where), 0), src_shape)
    return base_grad, src_grad


class Overwrite(torch.autograd.Function):
    @staticmethod
    def forward(base, src, route, *where):
        with below_autograd():
            return route.write(base, src, where)

    @staticmethod
    def setup_context(ctx, inputs, output):
        base, src, ctx.route, *where = inputs
        ctx.shapes = base.shape, src.shape
        ctx.where_count = len(where)
        ctx.save_for_backward(*where)
        ctx.save_for_forward(*where)

    @staticmethod
    def backward(ctx, grad):
        both = gradients(ctx.route, grad, *ctx.shapes, ctx.saved_tensors, ctx.needs_input_grad[:2])
        return *both, None, *[None] * ctx.where_count

    @staticmethod
    def jvp(ctx, base_tangent, src_tangent, *_):
        base_shape, src_shape = ctx.shapes
        if base_tangent is None:
            base_tangent = src_tangent.new_zeros(base_shape)
        if src_tangent is None:
            src_tangent = base_tangent.new_zeros(src_shape)
        return overwrite(ctx.route, base_tangent, src_tangent, ctx.saved_tensors)

    @staticmethod
    def vmap(info, in_dims, base, src, route, *where):
        base_dim, src_dim, _, *where_dims = in_dims
        base = to_front(base, base_dim, info.batch_size)
        src = to_front(src, src_dim, info.batch_size)
        return route.batched(base, src, where, where_dims, overwrite), 0


class OverwriteInPlace(Overwrite):
    @staticmethod
    def forward(base, src, route, *where):
        with below_autograd():
            route.write_(base, src, where)
        return base

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        Overwrite.setup_context(ctx, inputs, output)
