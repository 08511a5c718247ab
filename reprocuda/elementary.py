"""exp, log and sqrt with the same bits on every device, and their derivatives.

In float64 the error is below 0.9 of the last bit. Narrower dtypes are rounded once from that: correctly but for about
one argument in 2^28 of float32, and always for float16 and bfloat16. Roots are always correct, as
torch's on the CPU are not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import ops
from .autograd import needs_autograd, needs_operators


class _Exp(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return ops.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result

    @staticmethod
    def jvp(ctx, tangent):
        (result,) = ctx.saved_tensors
        return tangent * result

    @staticmethod
    def vmap(info, in_dims, x):
        return exp(x), in_dims[0]


class _Sqrt(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return ops.sqrt(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad / (2 * result)

    @staticmethod
    def jvp(ctx, tangent):
        (result,) = ctx.saved_tensors
        return tangent / (2 * result)

    @staticmethod
    def vmap(info, in_dims, x):
        return sqrt(x), in_dims[0]


class _Log(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return ops.log(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / x

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent / x

    @staticmethod
    def vmap(info, in_dims, x):
        return log(x), in_dims[0]


def exp(x: Tensor) -> Tensor:
    if not needs_operators("exp") and needs_autograd(x):
        return _Exp.apply(x)
    return ops.exp(x)


def log(x: Tensor) -> Tensor:
    if not needs_operators("log") and needs_autograd(x):
        return _Log.apply(x)
    return ops.log(x)


def sqrt(x: Tensor) -> Tensor:
    if not needs_operators("sqrt") and needs_autograd(x):
        return _Sqrt.apply(x)
    return ops.sqrt(x)
