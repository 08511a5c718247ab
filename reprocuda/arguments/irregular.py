"""Arguments that the compiled operators do not take: torch decides whether they are an error, and which."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..frames import caller_level
from ..plan import has_data
from .transforms import transforms_active

OVERLAP = "the written tensor overlaps itself"


def _tensors(arguments: tuple) -> list[Tensor]:
    parts = [part for a in arguments for part in (a if isinstance(a, (list, tuple)) else (a,))]
    return [part for part in parts if isinstance(part, Tensor)]


def shares_storage(written: Tensor, arguments: tuple) -> bool:
    storage = written.untyped_storage().data_ptr()
    return any(t.numel() and t.untyped_storage().data_ptr() == storage for t in _tensors(arguments))


def _order_free(base: Tensor, arguments: tuple, overwrites: bool) -> bool:
    """Integers, whose sums know no order; or nothing to add or write at all."""
    is_integer = not (base.is_floating_point() or base.is_complex())
    return (is_integer and not overwrites) or any(t.numel() == 0 for t in _tensors(arguments))


def refusal(op: str, reason: ValueError | str) -> RuntimeError:
    return RuntimeError(
        f"{op}: {reason}. torch accepts these arguments and takes them in an order of its own; reprocuda does not"
    )


def torch_or_refuse(
    op: str,
    reason: ValueError,
    native: Callable,
    base: Tensor,
    *args: Any,
    strict: bool = False,
    overwrites: bool = False,
    **kwargs: Any,
) -> Tensor:
    """torch's own error for these arguments; or, where the order of a sum cannot matter, its own result.

    Args:
        op: the operator, for the message.
        reason: what the compiled operator said.
        native: torch's operator, out of place.
        base: its first argument, whose dtype is the result's.
        strict: refuse even where the order cannot matter.
        overwrites: the operator writes, where the order of integers matters too.

    Raises:
        RuntimeError: torch accepts what we cannot do in an order that is known. It is never left to torch silently.
    """
    result = native(base, *args, **kwargs)
    if strict or not _order_free(base, args, overwrites):
        raise refusal(op, reason) from None
    return result


def torch_or_refuse_(
    op: str,
    reason: ValueError,
    native_: Callable,
    base: Tensor,
    *args: Any,
    strict: bool = False,
    overwrites: bool = False,
    **kwargs: Any,
) -> Tensor:
    """The same for an operator that writes into `base`; torch is tried on a copy first, so that nothing is half
    written.
    """
    if torch._debug_has_internal_overlap(base) == 1:  # index_put_ would only warn, and add to every alias
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            f"Please clone() the tensor before performing the operation. ({op})"
        ) from None
    if shares_storage(base, args):
        before = base.detach().clone()
        native_(base, *args, **kwargs)  # where torch can tell that they overlap, it says so before it writes
        with torch.no_grad():
            base.copy_(before)
        raise refusal(op, reason) from None
    torch_or_refuse(op, reason, native_, base.detach().clone(), *args, strict=strict, overwrites=overwrites, **kwargs)
    return native_(base, *args, **kwargs)


def overlaps_itself(tensor: Tensor) -> bool:
    """Whether several elements share memory. torch looks no further than at the strides, and is not always sure."""
    hint = torch._debug_has_internal_overlap(tensor)
    if hint != 2:
        return hint == 1
    steps = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    reach = 1 + sum((size - 1) * stride for stride, size in steps)
    # A dimension that steps over all that the smaller reach has no part in it; slicing and permuting make no others.
    while steps:
        stride, size = steps[-1]
        if stride < reach - (size - 1) * stride:
            break
        reach -= (size - 1) * stride
        steps.pop()
    sizes = [size for _, size in steps]
    places = torch.arange(reach, device="cpu").as_strided(sizes, [stride for stride, _ in steps])
    return places.unique().numel() != places.numel()


def refuse_own_overlap(op: str, target: Tensor) -> None:
    """Raises for a written tensor that overlaps itself, where torch's own operator writes and only looks at strides."""
    if has_data(target) and not transforms_active() and overlaps_itself(target):
        raise refusal(op, OVERLAP)


def refuse_overlap(out: Tensor, base: Tensor, *inputs: Tensor) -> None:
    """Raises torch's error for an out= tensor that shares memory with what is read, once it has the shape of `base`.

    torch looks at dense tensors only, and lets `out` be `base` itself.
    """
    if out.shape == base.shape and torch._debug_has_internal_overlap(out) != 0:
        return
    first = out.data_ptr()
    last = first + base.nbytes
    storage = out.untyped_storage()
    if last > storage.data_ptr() + storage.nbytes():  # it gets memory of its own when it is resized
        return
    for tensor in (base, *inputs):
        start = tensor.data_ptr()
        meets = start < last and first < start + tensor.nbytes
        if meets and not (tensor is base and start == first) and torch._debug_has_internal_overlap(tensor) == 0:
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            ) from None


def write_resized(out: Tensor, result: Tensor) -> Tensor:
    """`result` in the out= tensor that the user gave, brought to its shape as torch brings it."""
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
                f"match the required output shape {list(result.shape)}. torch deprecates this: resize it to zero "
                "elements first, with out.resize_(0)",
                stacklevel=caller_level(),
            )
        out.resize_(result.shape)
    return out.copy_(result)
