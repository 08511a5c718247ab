"""Prefix sums, products and log-sum-exps along a dimension, and their derivatives of any order.

Each is an autograd.Function on a dimension counted from the front, of tensors that have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .. import ops
from ..arguments.transforms import transforms_active
from .sums import to_front


def _total(sums: Callable, x: Tensor, dim: int) -> Tensor:
    """What a whole dimension adds up to, kept as one element."""
    return sums(x, dim).narrow(dim, x.shape[dim] - 1, 1)


class Cumsum(torch.autograd.Function):
    """The prefix sums along `dim`. Linear: its derivatives are prefix sums themselves."""

    @staticmethod
    def forward(input: Tensor, dim: int) -> Tensor:
        return ops.cumsum(input, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.dim = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return suffix_sums(grad, ctx.dim), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return Cumsum.apply(tangent, ctx.dim)

    @staticmethod
    def vmap(info, in_dims, input, dim):
        batched = input.movedim(in_dims[0], 0)
        if batched.dim() == 1:  # a batch of scalars: each is its own prefix
            return Cumsum.apply(batched.unsqueeze(1), 1).squeeze(1), 0
        return Cumsum.apply(batched, dim + 1), 0


def suffix_sums(grad: Tensor, dim: int, sums: Callable = Cumsum.apply) -> Tensor:
    if grad.dim() == 0:
        return grad
    return sums(grad.flip(dim), dim).flip(dim)


class Cumprod(torch.autograd.Function):
    """The prefix products along `dim`."""

    @staticmethod
    def forward(input: Tensor, dim: int) -> Tensor:
        return ops.cumprod(input, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, ctx.dim = inputs
        ctx.save_for_backward(input, output)
        ctx.save_for_forward(input, output)

    @staticmethod
    def backward(ctx, grad):
        input, output = ctx.saved_tensors
        dim = ctx.dim
        if input.shape[dim] <= 1:  # an element's own product
            return grad, None
        if transforms_active() or (input == 0).any():  # inside a transform there is nothing to read
            if torch.is_grad_enabled():
                return _gradient_by_pairs(grad, input, dim), None
            return gradient_of_products(grad, input, output, dim, Cumsum.apply, Cumprod.apply), None
        return suffix_sums(grad * output.conj(), dim) / input.conj(), None

    @staticmethod
    def jvp(ctx, tangent, _):
        input, output = ctx.saved_tensors
        dim = ctx.dim
        num_zeros, first_zero = _zeros(input, dim)
        before = Cumsum.apply(tangent / input.masked_fill(input == 0, 1), dim) * output
        others = Cumprod.apply(input.masked_fill(first_zero, 1), dim)
        behind = Cumsum.apply(tangent.masked_fill(~first_zero, 0), dim) * others
        return torch.where(num_zeros == 0, before, behind.masked_fill(num_zeros > 1, 0))

    @staticmethod
    def vmap(info, in_dims, input, dim):
        return Cumprod.apply(input.movedim(in_dims[0], 0), dim + 1), 0


def _zeros(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """How many there are up to each element, and which is the first."""
    is_zero = input == 0
    count = is_zero.cumsum(dim)
    return count, is_zero & (count == 1)


def gradient_of_products(
    grad: Tensor, input: Tensor, output: Tensor, dim: int, sums: Callable, products: Callable
) -> Tensor:
    """The gradient of prefix products, zeros among them or not: before the first zero the sums of what follows, divided
    by the element; at the first zero the sum over the products without it; behind it 0.

    Of the second derivative it has only what does not lie behind a zero.
    """
    if input.shape[dim] <= 1:  # an element's own product
        return grad
    num_zeros, first_zero = _zeros(input, dim)
    before = suffix_sums((grad * output.conj()).masked_fill(num_zeros > 0, 0), dim, sums)
    before = before / input.masked_fill(input == 0, 1).conj()
    others = products(input.masked_fill(first_zero, 1), dim)
    at_zero = _total(sums, (grad * others.conj()).masked_fill(num_zeros != 1, 0), dim)
    behind = torch.where(first_zero, at_zero, 0)
    return torch.where(num_zeros > 0, behind, before)


def _gradient_by_pairs(grad: Tensor, input: Tensor, dim: int) -> Tensor:
    """The same by its definition, with derivatives of every order and a number for each pair of elements."""
    size = input.shape[dim]
    own = torch.eye(size, dtype=torch.bool, device=input.device)
    factors = input.movedim(dim, -1).unsqueeze(-2).masked_fill(own, 1)  # [..., i, k]: without element i
    terms = grad.movedim(dim, -1).unsqueeze(-2) * Cumprod.apply(factors, factors.dim() - 1).conj()
    terms = terms.masked_fill(torch.ones_like(own).tril(-1), 0)
    return _total(Cumsum.apply, terms, terms.dim() - 1).squeeze(-1).movedim(-1, dim)


class Logcumsumexp(torch.autograd.Function):
    """The logarithms of the prefix sums of exponentials along `dim`."""

    @staticmethod
    def forward(input: Tensor, dim: int) -> Tensor:
        return ops.logcumsumexp(input, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, ctx.dim = inputs
        ctx.save_for_backward(input, output)
        ctx.save_for_forward(input, output)

    @staticmethod
    def backward(ctx, grad):
        return _JacobianProduct.apply(grad, *ctx.saved_tensors, ctx.dim, True), None

    @staticmethod
    def jvp(ctx, tangent, _):
        input, output = ctx.saved_tensors
        product = _JacobianProduct.apply(tangent, input, output, ctx.dim, False)
        return product.masked_fill(output == -math.inf, 0)  # of nothing but zeros so far, as torch has it

    @staticmethod
    def vmap(info, in_dims, input, dim):
        return Logcumsumexp.apply(input.movedim(in_dims[0], 0), dim + 1), 0


def jacobian_product(weights: Tensor, input: Tensor, output: Tensor, dim: int, transposed: bool) -> Tensor:
    """The Jacobian of log-sum-exps times `weights`: at k the sum over i <= k of weights[i] * exp(input[i] - output[k]);
    transposed, at i that over k >= i of weights[k] * exp(input[i] - output[k]).

    Positive and negative weights are summed apart, by their logarithms: nothing overflows on the way. What is absent
    has a logarithm that is finite still.
    """
    lowest = torch.finfo(weights.dtype).min / 2

    def of_positive(x: Tensor) -> Tensor:
        absent = x <= 0
        logs = ops.log(x.masked_fill(absent, 1)).masked_fill(absent, lowest)
        if transposed:
            return ops.exp(ops.logcumsumexp((logs - output).flip(dim), dim).flip(dim) + input)
        return ops.exp(ops.logcumsumexp(logs + input, dim) - output)

    return of_positive(weights) - of_positive(-weights)


ops.fragment.impl("logcumsumexp_jacobian", jacobian_product, "CompositeExplicitAutograd")


def gradients_of_jacobian_product(
    product: Callable,
    grad: Tensor,
    weights: Tensor,
    input: Tensor,
    output: Tensor,
    result: Tensor,
    dim: int,
    transposed: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the weights, the input and the output of `product`, which is a differentiable jacobian_product."""
    by_weight = product(grad, input, output, dim, not transposed)
    if transposed:
        return by_weight, grad * result, -(weights * by_weight)
    return by_weight, weights * by_weight, -(grad * result)


class _JacobianProduct(torch.autograd.Function):
    """jacobian_product, whose derivatives are such products again."""

    @staticmethod
    def forward(weights: Tensor, input: Tensor, output: Tensor, dim: int, transposed: bool) -> Tensor:
        return jacobian_product(weights, input, output, dim, transposed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.dim, ctx.transposed = inputs
        ctx.save_for_backward(*tensors, output)
        ctx.save_for_forward(*tensors, output)

    @staticmethod
    def backward(ctx, grad):
        compute, tensors = _JacobianProduct.apply, ctx.saved_tensors
        return *gradients_of_jacobian_product(compute, grad, *tensors, ctx.dim, ctx.transposed), None, None

    @staticmethod
    def jvp(ctx, weights_tangent, input_tangent, output_tangent, *_):
        weights, input, output, result = ctx.saved_tensors
        tangent = torch.zeros_like(result)
        if weights_tangent is not None:
            tangent = tangent + _JacobianProduct.apply(weights_tangent, input, output, ctx.dim, ctx.transposed)
        inside, outside = (output_tangent, input_tangent) if ctx.transposed else (input_tangent, output_tangent)
        if inside is not None:
            product = _JacobianProduct.apply(weights * inside, input, output, ctx.dim, ctx.transposed)
            tangent = tangent - product if ctx.transposed else tangent + product
        if outside is not None:
            tangent = tangent + outside * result if ctx.transposed else tangent - outside * result
        return tangent

    @staticmethod
    def vmap(info, in_dims, weights, input, output, dim, transposed):
        tensors = (
            to_front(tensor, where, info.batch_size)
            for tensor, where in zip((weights, input, output), in_dims[:3], strict=True)
        )
        return _JacobianProduct.apply(*tensors, dim + 1, transposed), 0
