"""The two differentiable operations that every linear operator by index is made of, each the other's transpose.

`accumulate` adds every source element to the target that a route names; `gather` reads the target of every source
element. The derivative of either is the other, in both directions and to any order. A route (routes.py, points.py,
lookup.py) says which target belongs to which element; the tensors it needs travel beside it, because a functorch
transform has to see them.

Where nothing is differentiated, the compiled operator is called without any of this. Compiled code has its own
derivatives (tracing/): Dynamo refuses a Function with a jvp, and torch.func.functionalize has no rule for any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..arguments.alpha import Alpha, conjugate
from ..arguments.transforms import needs_autograd, transforms_active

IndexTensors = tuple[Tensor, ...]

below_autograd = torch._C._AutoDispatchBelowAutograd


def refuse_inference_update(target: Tensor) -> None:
    """Raises torch's error for writing into an inference tensor outside inference mode; compiled code cannot ask."""
    if torch.compiler.is_compiling():
        return
    if target.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed.")


def accumulate(route: Any, base: Tensor | None, src: Tensor, where: IndexTensors, alpha: Alpha = 1) -> Tensor:
    """`base` (None: nothing) plus alpha times every element of `src` at its target."""
    if needs_autograd(base, src):
        return Accumulate.apply(base, src, route, alpha, *where)
    with below_autograd():
        return route.add(base, src, where, alpha)


def accumulate_(route: Any, base: Tensor, src: Tensor, where: IndexTensors, alpha: Alpha = 1) -> Tensor:
    """The same, written into `base`, which is returned."""
    return write_in_place(
        base,
        src,
        lambda: accumulate(route, base, src, where, alpha),
        lambda: AccumulateInPlace.apply(base, src, route, alpha, *where),
        lambda: route.add_(base, src, where, alpha),
    )


def write_in_place(
    base: Tensor, src: Tensor, compute: Callable[[], Tensor], apply_: Callable[[], Tensor], write_: Callable[[], None]
) -> Tensor:
    """The in-place form of a differentiable operation: the one of its three forms that serves here.

    Args:
        base: what is written into.
        src: what is read.
        compute: the operation out of place.
        apply_: its in-place Function.
        write_: the compiled operator in place, below autograd.
    """
    refuse_inference_update(base)
    if transforms_active() or base.is_conj() or base.is_neg():  # such a view has to be resolved, which copies it
        return base.copy_(compute())
    if needs_autograd(base, src):
        _refuse_leaf(base)
        return apply_()
    with below_autograd():
        write_()
    torch.autograd.graph.increment_version(base)
    return base


def _refuse_leaf(base: Tensor) -> None:
    """autograd finds a leaf only after it has been written."""
    root, what = (base._base, "a view of a leaf") if base._is_view() else (base, "a leaf")
    if root.is_leaf and root.requires_grad:
        raise RuntimeError(f"{what} Variable that requires grad is being used in an in-place operation.")


def gather(route: Any, values: Tensor, where: IndexTensors) -> Tensor:
    """The target of every source element, by torch's own kernels: reading sums nothing."""
    if needs_autograd(values):
        return Gather.apply(values, route, *where)
    return route.take(values, where)


def to_front(tensor: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    if tensor is None:
        return None
    return tensor.movedim(dim, 0) if dim is not None else tensor.unsqueeze(0).expand(size, *tensor.shape)


class EachAlone(torch.autograd.Function):
    """A Function that vmap applies to one slice after the other, as torch does where it has no rule."""

    @classmethod
    def vmap(cls, info, in_dims, *args):
        if info.batch_size == 0:
            raise RuntimeError(f"vmap of {cls.__name__}: expected a batch that is not empty")
        results = []
        for number in range(info.batch_size):
            parts = (a if dim is None else a.select(dim, number) for a, dim in zip(args, in_dims, strict=True))
            results.append(cls.apply(*parts))
        if isinstance(results[0], tuple):
            return tuple(torch.stack(parts) for parts in zip(*results, strict=True)), (0,) * len(results[0])
        return torch.stack(results), 0


class Accumulate(torch.autograd.Function):
    @staticmethod
    def forward(base, src, route, alpha, *where):
        with below_autograd():
            return route.add(base, src, where, alpha)

    @staticmethod
    def setup_context(ctx, inputs, output):
        base, src, ctx.route, ctx.alpha, *where = inputs
        ctx.base_shape = None if base is None else base.shape
        ctx.src_shape = src.shape
        ctx.where_count = len(where)
        ctx.save_for_backward(*where)
        ctx.save_for_forward(*where)

    @staticmethod
    def backward(ctx, grad):
        base_grad = grad if ctx.needs_input_grad[0] else None
        src_grad = None
        if ctx.needs_input_grad[1]:
            src_grad = ctx.route.fit(gather(ctx.route, grad, ctx.saved_tensors), ctx.src_shape)
            if ctx.alpha != 1:
                src_grad = src_grad * conjugate(ctx.alpha)
        return base_grad, src_grad, None, None, *[None] * ctx.where_count

    @staticmethod
    def jvp(ctx, base_tangent, src_tangent, *_):
        if src_tangent is None:
            return base_tangent.clone()
        if base_tangent is None and ctx.base_shape is not None:
            base_tangent = src_tangent.new_zeros(ctx.base_shape)
        return accumulate(ctx.route, base_tangent, src_tangent, ctx.saved_tensors, ctx.alpha)

    @staticmethod
    def vmap(info, in_dims, base, src, route, alpha, *where):
        base_dim, src_dim, _, _, *where_dims = in_dims
        base = to_front(base, base_dim, info.batch_size)
        src = to_front(src, src_dim, info.batch_size)
        return route.add_batched(base, src, where, where_dims, alpha), 0


class AccumulateInPlace(Accumulate):
    @staticmethod
    def forward(base, src, route, alpha, *where):
        with below_autograd():
            route.add_(base, src, where, alpha)
        return base

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        Accumulate.setup_context(ctx, inputs, output)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(values, route, *where):
        return route.take(values, where)

    @staticmethod
    def setup_context(ctx, inputs, output):
        values, ctx.route, *where = inputs
        ctx.shape = values.shape
        ctx.where_count = len(where)
        ctx.save_for_backward(*where)
        ctx.save_for_forward(*where)

    @staticmethod
    def backward(ctx, grad):
        return ctx.route.spread(grad, ctx.shape, ctx.saved_tensors), None, *[None] * ctx.where_count

    @staticmethod
    def jvp(ctx, tangent, *_):
        return gather(ctx.route, tangent, ctx.saved_tensors)

    @staticmethod
    def vmap(info, in_dims, values, route, *where):
        values_dim, _, *where_dims = in_dims
        values = to_front(values, values_dim, info.batch_size)
        return route.take_batched(values, where, where_dims), 0
