"""What replaces aten's prefix sums, products and log-sum-exps."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ... import ops
from ..overrides import Override, Slot
from .support import ERRORS, writes_through


def _of_dtype(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, dim, *, dtype=None):
        try:
            if not switch.on:
                return slot.native(keys, self, dim, dtype=dtype)
            if dtype is None:
                dtype = self.dtype if self.is_floating_point() or self.is_complex() else torch.int64
            return slot.ours(self if dtype == self.dtype else self.to(dtype), dim)
        except ERRORS as error:
            return slot.failed(error, self, dim, dtype=dtype)

    return kernel


def _in_place(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, dim, *, dtype=None):
        try:
            if not switch.on or (dtype is not None and dtype != self.dtype):
                return slot.native(keys, self, dim, dtype=dtype)
            slot.ours(self, dim)
            return self
        except ERRORS as error:
            return slot.failed(error, self, dim, dtype=dtype)

    return kernel


def _out(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, dim, *, dtype=None, out):
        try:
            if not switch.on or (dtype is not None and dtype != out.dtype):
                return slot.native(keys, self, dim, dtype=dtype, out=out)
            slot.ours(self if self.dtype == out.dtype else self.to(out.dtype), dim, out)
            return out
        except ERRORS as error:
            return slot.failed(error, self, dim, dtype=dtype, out=out)

    return kernel


def _logcumsumexp(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, dim):
        try:
            if not switch.on or not self.is_floating_point():
                return slot.native(keys, self, dim)
            return slot.ours(self, dim)
        except ERRORS as error:
            return slot.failed(error, self, dim)

    return kernel


def _logcumsumexp_out(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, dim, *, out):
        try:
            if not switch.on or not self.is_floating_point():
                return slot.native(keys, self, dim, out=out)
            slot.ours(self, dim, out)
            return out
        except ERRORS as error:
            return slot.failed(error, self, dim, out=out)

    return kernel


def _written_through(functional: Callable) -> Callable:
    return writes_through(lambda self, dim: functional(self, dim))


def _cast_and_written_through(functional: Callable) -> Callable:
    write = _written_through(functional)

    def repair(self, dim, *, dtype=None, out):
        try:
            return write(self.to(out.dtype), dim, out=out)
        except ValueError:  # a dtype that is not ours
            return NotImplemented

    return repair


CUMSUM = (
    Override("cumsum", ops.cumsum, _of_dtype),
    Override("cumsum_", ops.cumsum_, _in_place, in_place=True),
    Override("cumsum.out", ops.cumsum_out, _out, repair=_cast_and_written_through(ops.cumsum)),
)
CUMPROD = (
    Override("cumprod", ops.cumprod, _of_dtype),
    Override("cumprod_", ops.cumprod_, _in_place, in_place=True),
    Override("cumprod.out", ops.cumprod_out, _out, repair=_cast_and_written_through(ops.cumprod)),
)
LOGCUMSUMEXP = (
    Override("_logcumsumexp", ops.logcumsumexp, _logcumsumexp),
    Override("_logcumsumexp.out", ops.logcumsumexp_out, _logcumsumexp_out, repair=_written_through(ops.logcumsumexp)),
)
