"""Prefix sums, called directly by torch's names and arguments: every prefix its own exact sum, rounded once."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import ops
from ..autograd import needs_operators, transforms_active
from ..irregular import judge, judge_in_place
from .support import replace_with, wrap_dim, write_out


class Cumsum(torch.autograd.Function):
    """The prefix sums along `dim`, counted from the front. Linear: its derivatives are prefix sums themselves."""

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


def suffix_sums(grad: Tensor, dim: int) -> Tensor:
    if grad.dim() == 0:
        return grad
    return Cumsum.apply(grad.flip(dim), dim).flip(dim)


def _result_dtype(input: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    return input.dtype if input.is_floating_point() or input.is_complex() else torch.int64


def cumsum(input: Tensor, dim: int, *, dtype: torch.dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The sums of the first 1, 2, 3, ... elements of `input` along `dim`: torch.cumsum.

    Args:
        input: of any shape and dtype.
        dim: the dimension to sum along.
        dtype: what `input` is cast to first; by default its own, and int64 for integers and bools.
        out: where to write the result, whose dtype is then the one to cast to.

    Returns:
        A tensor of the shape of `input`.

    Raises:
        IndexError: `dim` is out of range.
        RuntimeError: whatever else torch.cumsum raises.

    Determinism: exact. Every prefix is its own exact sum, rounded once. Integers wrap.

    Cost: O(input). Prefixes that cancel almost entirely are summed a second time, in fixed point.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.cumsum(torch.tensor([1e8, 1.0, 1.0, -1e8]), 0)[-1]
        tensor(2.)
    """
    if out is not None:
        if dtype is not None and dtype != out.dtype:
            return torch.cumsum(input, dim, dtype=dtype, out=out)
        source = input.to(out.dtype)
        return write_out(
            "cumsum",
            lambda: cumsum(source, dim, dtype=out.dtype),
            lambda: ops.cumsum_out(source, dim, out),
            lambda: torch.cumsum(input, dim, out=out),
            out,
            source,
        )
    source = input.to(_result_dtype(input, dtype))
    try:
        if needs_operators("cumsum"):
            return ops.cumsum(source, dim)
        if (source.requires_grad and torch.is_grad_enabled()) or transforms_active():
            if not -max(source.dim(), 1) <= dim < max(source.dim(), 1):
                raise ValueError("cumsum(): dimension out of range")
            return Cumsum.apply(source, wrap_dim(dim, source.dim()))
        return ops.cumsum(source, dim)
    except ValueError as reason:
        return judge("cumsum", reason, torch.cumsum, input, dim, dtype=dtype)


def cumsum_(input: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """`cumsum` written into `input`, which is returned: torch.Tensor.cumsum_.

    Arguments, errors and determinism are those of `cumsum`; `dtype` can only be that of `input`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.cumsum_(torch.ones(3), 0)
        tensor([1., 2., 3.])
    """
    if dtype is not None and dtype != input.dtype:
        return input.cumsum_(dim, dtype=dtype)
    direct = needs_operators("cumsum_")
    if direct or transforms_active() or (input.requires_grad and torch.is_grad_enabled()):
        return replace_with(input, cumsum(input, dim, dtype=input.dtype))
    try:
        ops.cumsum_(input, dim)
    except ValueError as reason:
        return judge_in_place("cumsum_", reason, torch.Tensor.cumsum_, input, dim)
    torch.autograd.graph.increment_version(input)
    return input
