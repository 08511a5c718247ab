"""Prefix sums, products and log-sum-exps, called directly by torch's names and arguments."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .. import ops
from ..arguments.irregular import torch_or_refuse, torch_or_refuse_
from ..arguments.signatures import typed
from ..arguments.transforms import needs_operators, transforms_active
from ..families.scans import Cumprod, Cumsum, Logcumsumexp
from ..families.sums import refuse_inference_update
from .support import replace_with, wrap_dim, write_out

_NATIVE = {"cumsum": torch.cumsum, "cumprod": torch.cumprod, "logcumsumexp": torch.logcumsumexp}
_NATIVE_IN_PLACE = {"cumsum": torch.Tensor.cumsum_, "cumprod": torch.Tensor.cumprod_}
_COMPILED = {"cumsum": ops.cumsum, "cumprod": ops.cumprod, "logcumsumexp": ops.logcumsumexp}
_COMPILED_IN_PLACE = {"cumsum": ops.cumsum_, "cumprod": ops.cumprod_}
_COMPILED_OUT = {"cumsum": ops.cumsum_out, "cumprod": ops.cumprod_out, "logcumsumexp": ops.logcumsumexp_out}
_FUNCTIONS = {"cumsum": Cumsum, "cumprod": Cumprod, "logcumsumexp": Logcumsumexp}


def _result_dtype(input: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    if input.is_cuda and input.dtype in (torch.float16, torch.bfloat16) and torch.is_autocast_enabled("cuda"):
        return torch.float32  # torch's autocast has sums and products on this list
    return input.dtype if input.is_floating_point() or input.is_complex() else torch.int64


def _loses_gradient(input: Tensor, dtype: torch.dtype) -> bool:
    return input.requires_grad and torch.is_grad_enabled() and not (dtype.is_floating_point or dtype.is_complex)


def _along(op: str, source: Tensor, dim: int, native: Callable[[], Tensor]) -> Tensor:
    """The operator `op` of `source`, whose dtype is the result's. `native` is torch's, of what the user gave."""
    try:
        if needs_operators(op):
            return _COMPILED[op](source, dim)
        if (source.requires_grad and torch.is_grad_enabled()) or transforms_active():
            if not -max(source.dim(), 1) <= dim < max(source.dim(), 1):
                raise ValueError(f"{op}(): dimension out of range")
            if source.dim() == 0:
                return _FUNCTIONS[op].apply(source.unsqueeze(0), 0).squeeze(0)
            return _FUNCTIONS[op].apply(source, wrap_dim(dim, source.dim()))
        return _COMPILED[op](source, dim)
    except ValueError as reason:
        return torch_or_refuse(op, reason, lambda *_: native(), source)


def _along_out(op: str, source: Tensor, dim: int, out: Tensor, native: Callable[[], Tensor]) -> Tensor:
    return write_out(
        op,
        lambda: _along(op, source, dim, lambda: _NATIVE[op](source, dim)),
        lambda: _COMPILED_OUT[op](source, dim, out),
        native,
        out,
        source,
    )


def _of_dtype(op: str, input: Tensor, dim: int, dtype: torch.dtype | None, out: Tensor | None) -> Tensor:
    native = _NATIVE[op]
    if _loses_gradient(input, _result_dtype(input, dtype) if out is None else out.dtype):
        return native(input, dim, dtype=dtype, out=out)  # torch has an error for it
    if out is None:
        source = input.to(_result_dtype(input, dtype))
        return _along(op, source, dim, lambda: native(input, dim, dtype=dtype))
    if dtype is not None and dtype != out.dtype:
        return native(input, dim, dtype=dtype, out=out)
    return _along_out(op, input.to(out.dtype), dim, out, lambda: native(input, dim, out=out))


def _in_place(op: str, input: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    native = _NATIVE_IN_PLACE[op]
    if dtype is not None and dtype != input.dtype:
        return native(input, dim, dtype=dtype)
    refuse_inference_update(input)
    if needs_operators(f"{op}_") or transforms_active():
        # Of a copy: the derivative needs what was there before.
        return replace_with(input, _of_dtype(op, input.clone(), dim, input.dtype, None))
    if input.is_conj() or input.is_neg() or (input.requires_grad and torch.is_grad_enabled()):
        # Such a view has to be resolved, and the derivative needs what was there before: copies, both.
        return input.copy_(_of_dtype(op, input.clone(), dim, input.dtype, None))
    try:
        _COMPILED_IN_PLACE[op](input, dim)
    except ValueError as reason:
        return torch_or_refuse_(f"{op}_", reason, native, input, dim)
    torch.autograd.graph.increment_version(input)
    return input


@typed
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
    return _of_dtype("cumsum", input, dim, dtype, out)


@typed
def cumsum_(input: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """`cumsum` written into `input`, which is returned: torch.Tensor.cumsum_.

    Arguments, errors and determinism are those of `cumsum`; `dtype` can only be that of `input`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.cumsum_(torch.ones(3), 0)
        tensor([1., 2., 3.])
    """
    return _in_place("cumsum", input, dim, dtype)


@typed
def cumprod(input: Tensor, dim: int, *, dtype: torch.dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The products of the first 1, 2, 3, ... elements of `input` along `dim`: torch.cumprod.

    Args:
        input: of any shape and dtype.
        dim: the dimension to multiply along.
        dtype: what `input` is cast to first; by default its own, and int64 for integers and bools.
        out: where to write the result, whose dtype is then the one to cast to.

    Returns:
        A tensor of the shape of `input`.

    Raises:
        IndexError: `dim` is out of range.
        RuntimeError: whatever else torch.cumprod raises.

    Determinism: fixed order. Products of float64, in one order on every device, rounded once to the dtype; integers
    wrap. The gradient divides exact sums of products by the elements.

    Cost: O(input). The gradient looks for zeros, which waits for the device; where there are any and a second
    derivative is wanted, and inside transforms, it takes memory for every pair of elements along `dim`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.cumprod(torch.tensor([2.0, 3.0, 0.5]), 0)
        tensor([2., 6., 3.])
    """
    return _of_dtype("cumprod", input, dim, dtype, out)


@typed
def cumprod_(input: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """`cumprod` written into `input`, which is returned: torch.Tensor.cumprod_.

    Arguments, errors and determinism are those of `cumprod`; `dtype` can only be that of `input`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.cumprod_(torch.full((3,), 2.0), 0)
        tensor([2., 4., 8.])
    """
    return _in_place("cumprod", input, dim, dtype)


@typed
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithms of the sums of the first 1, 2, 3, ... exponentials of `input` along `dim`: torch.logcumsumexp.

    Args:
        input: floating-point; of complex dtypes torch's own operator serves.
        dim: the dimension to sum along.
        out: where to write the result.

    Returns:
        A tensor like `input`.

    Raises:
        IndexError: `dim` is out of range.
        RuntimeError, NotImplementedError: whatever else torch.logcumsumexp raises.

    Determinism: fixed order. Every sum is relative to the largest element so far, in float64, in one order on every
    device, and rounded once; exp and log are our own, and so are those of the derivatives.

    Cost: O(input), with two exponentials and a logarithm an element.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.logcumsumexp(torch.tensor([1e4, -1e4, -torch.inf]), 0)
        tensor([10000., 10000., 10000.])
    """
    if not input.is_floating_point():
        return torch.logcumsumexp(input, dim, out=out)
    if out is None:
        return _along("logcumsumexp", input, dim, lambda: torch.logcumsumexp(input, dim))
    return _along_out("logcumsumexp", input, dim, out, lambda: torch.logcumsumexp(input, dim, out=out))
