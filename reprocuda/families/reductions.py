"""Reductions by index other than the plain sum, and their derivatives: backward, forward and of the second order.

Every derivative has one form. The incoming gradient, divided where several members share it, reaches `base` and each
element of `src` times a factor of its own; a tangent goes the same way backwards. torch's rules give the factors:
members of a mean share evenly, and so do those that equal the largest or smallest; a factor of a product gets the
product of the others, as result / factor. They are computed by differentiable operations, which second derivatives go
through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arguments.transforms import needs_autograd, transforms_active
from .sums import IndexTensors, accumulate, below_autograd, gather, refuse_inference_update, to_front


@dataclass(frozen=True)
class Reduction:
    """What becomes of the contributions to one target: torch's `reduce` and `include_self`.

    Attributes:
        counts_self: False: self is an initial value of a mean, which is in the sum and not in the count.
    """

    reduce: str
    include_self: bool = True
    counts_self: bool = True


@dataclass(frozen=True)
class DerivativeOps:
    """What the derivatives are made of, each of it differentiable.

    Attributes:
        take: the target of every element of src.
        add: (base, src): base plus every element of src at its target.
        reduce: (base, src): the reduction itself.
    """

    take: Callable[[Tensor], Tensor]
    add: Callable[[Tensor, Tensor], Tensor]
    reduce: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class GradientFactors:
    """What the gradient of each member is multiplied by; None stands for a factor of 1, or for all of base.

    Attributes:
        base: the factor of base.
        kept: where base has any influence.
        src: the factor of each element of src.
        divisor: of the gradient of each target.
    """

    base: Tensor | None = None
    kept: Tensor | None = None
    src: Tensor | None = None
    divisor: Tensor | None = None

    def divided(self, grad: Tensor) -> Tensor:
        """In float64, which holds every count."""
        if self.divisor is None:
            return grad
        if grad.is_complex():
            parts = torch.view_as_real(grad)
            return torch.view_as_complex((parts.double() / self.divisor.unsqueeze(-1)).to(parts.dtype))
        return (grad.double() / self.divisor).to(grad.dtype)

    def of_base(self, grad: Tensor) -> Tensor:
        grad = grad if self.base is None else grad * self.base
        return grad if self.kept is None else torch.where(self.kept, grad, torch.zeros_like(grad))

    def of_src(self, grad: Tensor) -> Tensor:
        return grad if self.src is None else grad * self.src


def _count(derivative_ops: DerivativeOps, own: Tensor, src: Tensor) -> Tensor:
    """How many members of each target are marked."""
    return derivative_ops.add(own.to(torch.int64), src.to(torch.int64))


def is_torchs(base: Tensor, reduce: str) -> bool:
    """A product of complex numbers has no exact form here. On the CPU torch multiplies in source order, so its bits
    are the same in every run; on CUDA it does not, and is refused.
    """
    return reduce == "prod" and base.is_complex() and base.is_cpu


def gradient_factors(
    derivative_ops: DerivativeOps, base: Tensor, src: Tensor, result: Tensor, reduction: Reduction
) -> GradientFactors:
    """
    Args:
        base, src: what was reduced, src as far as the index reaches.
        result: what came of it.
    """
    everything = torch.ones_like(src, dtype=torch.bool)
    nothing = torch.zeros_like(base, dtype=torch.bool)
    kept = None
    if not reduction.include_self:
        kept = _count(derivative_ops, nothing, everything) == 0
    if reduction.reduce == "sum":
        return GradientFactors(kept=kept)
    if reduction.reduce == "mean":
        counts_self = reduction.include_self and reduction.counts_self
        members = _count(derivative_ops, ~nothing if counts_self else nothing, everything)
        return GradientFactors(kept=kept, divisor=members.clamp(min=1))
    if reduction.reduce == "prod":
        return _factors_of_product(derivative_ops, base, src, result, kept)
    base_wins, src_wins = base == result, src == derivative_ops.take(result)
    if kept is not None:
        base_wins = base_wins & kept
    winners = _count(derivative_ops, base_wins, src_wins)
    return GradientFactors(base_wins.to(base.dtype), kept, src_wins.to(src.dtype), winners)


def _factors_of_product(
    derivative_ops: DerivativeOps, base: Tensor, src: Tensor, result: Tensor, kept: Tensor | None
) -> GradientFactors:
    """The product of the others: result / x, rounded twice, and 0 or not finite where the result has become so;
    but for an x of 0 the product of all that are not 0, times the other zero where there is one, which second
    derivatives see, and 0 if there are more.
    """
    base_zero, src_zero = base == 0, src == 0
    counts = base_zero if kept is None else base_zero & kept
    zeros = _count(derivative_ops, counts, src_zero)
    sum_of_zeros = derivative_ops.add(torch.where(counts, base, 0), torch.where(src_zero, src, 0))
    others = derivative_ops.reduce(torch.where(base_zero, 1, base), torch.where(src_zero, 1, src))

    def factor(x: Tensor, is_zero: Tensor, zeros: Tensor, zero_sum: Tensor, others: Tensor, result: Tensor) -> Tensor:
        by_division = result / torch.where(is_zero, 1, x)
        of_zero = torch.where(zeros == 1, others, torch.where(zeros == 2, (zero_sum - x) * others, 0))
        return torch.where(is_zero, of_zero, by_division)

    per_target = (zeros, sum_of_zeros, others, result)
    base_factor = factor(base, base_zero, *per_target)
    if kept is not None:  # base alone is its own product
        base_factor = None
    return GradientFactors(base_factor, kept, factor(src, src_zero, *map(derivative_ops.take, per_target)))


def reduce(route: Any, base: Tensor, src: Tensor, where: IndexTensors, reduction: Reduction) -> Tensor:
    """`base` and every element of `src` at its target, reduced."""
    if needs_autograd(base, src):
        return Reduce.apply(base, src, route, reduction, *where)
    with below_autograd():
        return route.reduce(base, src, where, reduction)


def reduce_(route: Any, base: Tensor, src: Tensor, where: IndexTensors, reduction: Reduction) -> Tensor:
    """The same, written into `base`, which is returned."""
    refuse_inference_update(base)
    if base.is_conj() or base.is_neg() or transforms_active() or needs_autograd(base, src):
        # What was there before is needed for the derivative, and such a view has to be resolved: copies, both.
        return base.copy_(reduce(route, base.clone(), src, where, reduction))
    with below_autograd():
        route.reduce_(base, src, where, reduction)
    torch.autograd.graph.increment_version(base)
    return base


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(base, src, route, reduction, *where):
        with below_autograd():
            return route.reduce(base, src, where, reduction)

    @staticmethod
    def setup_context(ctx, inputs, output):
        base, src, ctx.route, ctx.reduction, *where = inputs
        ctx.where_count, ctx.src_shape = len(where), src.shape
        ctx.save_for_backward(base, src, output, *where)
        ctx.save_for_forward(base, src, output, *where)

    @staticmethod
    def backward(ctx, grad):
        factors, _, where = Reduce._factors(ctx)
        grad = factors.divided(grad)
        base_grad = factors.of_base(grad) if ctx.needs_input_grad[0] else None
        src_grad = None
        if ctx.needs_input_grad[1]:
            src_grad = ctx.route.fit(factors.of_src(gather(ctx.route, grad, where)), ctx.src_shape)
        return base_grad, src_grad, None, None, *[None] * ctx.where_count

    @staticmethod
    def jvp(ctx, base_tangent, src_tangent, *_):
        factors, base, where = Reduce._factors(ctx)
        tangent = torch.zeros_like(base) if base_tangent is None else factors.of_base(base_tangent)
        if src_tangent is not None:
            part = factors.of_src(ctx.route.read(src_tangent, where))
            tangent = accumulate(ctx.route, tangent, part, where)
        return factors.divided(tangent)

    @staticmethod
    def _factors(ctx) -> tuple[GradientFactors, Tensor, IndexTensors]:
        """Also the base and where: saved tensors are unpacked once, as activation checkpointing has them."""
        base, src, result, *where = ctx.saved_tensors
        route, reduction, where = ctx.route, ctx.reduction, tuple(where)
        derivative_ops = DerivativeOps(
            take=lambda values: gather(route, values, where),
            add=lambda target, values: accumulate(route, target, values, where),
            reduce=lambda target, values: reduce(route, target, values, where, reduction),
        )
        return gradient_factors(derivative_ops, base, route.read(src, where), result, reduction), base, where

    @staticmethod
    def vmap(info, in_dims, base, src, route, reduction, *where):
        base_dim, src_dim, _, _, *where_dims = in_dims
        base = to_front(base, base_dim, info.batch_size)
        src = to_front(src, src_dim, info.batch_size)
        return route.batched(base, src, where, where_dims, lambda *parts: reduce(*parts, reduction)), 0
