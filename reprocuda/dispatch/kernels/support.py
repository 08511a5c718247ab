"""What the kernels of every family share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...arguments.checks import check_on_device, checks
from ...arguments.irregular import OVERLAP, overlaps_itself, refusal, refuse_overlap, write_resized
from ..overrides import Slot

ERRORS = (ValueError, RuntimeError)


def size_along(tensor: Tensor, dim: int) -> int:
    return tensor.shape[dim] if tensor.dim() else 1


def writes_through(functional: Callable) -> Callable:
    """For out=: the result of the functional overload, written into an `out` that torch would resize or copy into."""

    def repair(self, *args, out, **kwargs):
        if out.dtype != self.dtype or out.device != self.device or torch._debug_has_internal_overlap(out) == 1:
            return NotImplemented
        refuse_overlap(out, self, *(argument for argument in args if isinstance(argument, Tensor)))
        result = functional(self, *args, **kwargs)
        if out.shape == result.shape and overlaps_itself(out):
            raise refusal("out=", OVERLAP) from None
        return write_resized(out, result)

    return repair


def write_whole(out: Tensor, result: Tensor) -> Tensor:
    """`result` in a written tensor, which gets its shape."""
    if out.layout != torch.strided:
        return out.copy_(result)
    if out.shape == result.shape and overlaps_itself(out):
        raise refusal("out=", OVERLAP) from None
    return write_resized(out, result)


def along_dim(op: str) -> Callable[[Slot], Callable]:
    """The kernel of an operator that takes (self, dim, index, src); `op` is its name in errors."""

    def make(slot: Slot) -> Callable:
        switch, keys, ours, in_place = slot.switch, slot.keys, slot.ours, slot.override.in_place

        def kernel(self, dim, index, src):
            try:
                if not switch.on:
                    return slot.native(keys, self, dim, index, src)
                if checks.on:
                    check_on_device(op, index, 0, size_along(self, dim))
                result = ours(self, dim, index, src)
                return self if in_place else result
            except ERRORS as error:
                return slot.failed(error, self, dim, index, src)

        return kernel

    return make


def along_dim_out(op: str) -> Callable[[Slot], Callable]:
    def make(slot: Slot) -> Callable:
        switch, keys, ours = slot.switch, slot.keys, slot.ours

        def kernel(self, dim, index, src, *, out):
            try:
                if not switch.on:
                    return slot.native(keys, self, dim, index, src, out=out)
                if checks.on:
                    check_on_device(op, index, 0, size_along(self, dim))
                ours(self, dim, index, src, out)
                return out
            except ERRORS as error:
                return slot.failed(error, self, dim, index, src, out=out)

        return kernel

    return make


def replacing(compute: Callable, concerned: Callable | None = None) -> Callable[[Slot], Callable]:
    """The kernel of an operator on sparse tensors.

    Args:
        compute: takes the arguments of the overload; returns NotImplemented to leave them to torch, whose result a
            strict scope refuses.
        concerned: takes them too and says whether there is a sum in this call; where it is missing there is.
    """

    def make(slot: Slot) -> Callable:
        switch, keys = slot.switch, slot.keys

        def kernel(*args, **kwargs):
            try:
                if not switch.on or not (concerned is None or concerned(*args, **kwargs)):
                    return slot.native(keys, *args, **kwargs)
                result = compute(*args, **kwargs)
                return _left_to_torch(slot, args, kwargs) if result is NotImplemented else result
            except ERRORS as error:
                return slot.failed(error, *args, **kwargs)

        return kernel

    return make


def _left_to_torch(slot: Slot, args: tuple, kwargs: dict) -> Tensor:
    if not slot.switch.strict:
        return slot.native(slot.keys, *args, **kwargs)
    if slot.override.in_place:
        args = (args[0].clone(), *args[1:])
    if "out" in kwargs:
        out, given = kwargs["out"].clone(), kwargs["out"]
        args = tuple(out if argument is given else argument for argument in args)
        kwargs = {**kwargs, "out": out}
    slot.native(slot.keys, *args, **kwargs)  # its own errors come first, and nothing is half written
    raise refusal(slot.override.overload, "these layouts or dtypes are not among those that it sums exactly") from None
