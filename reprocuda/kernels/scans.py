"""What replaces aten's prefix sums."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import ops
from ..overrides import Override, Slot
from .support import ERRORS, writes_through


def _cumsum(slot: Slot) -> Callable:
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


def _cumsum_(slot: Slot) -> Callable:
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


def _cumsum_out(slot: Slot) -> Callable:
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


def _sums_of_dtype(self, dim, *, dtype=None):
    return ops.cumsum(self, dim)


CUMSUM = (
    Override("cumsum", ops.cumsum, _cumsum),
    Override("cumsum_", ops.cumsum_, _cumsum_, in_place=True),
    Override("cumsum.out", ops.cumsum_out, _cumsum_out, repair=writes_through(_sums_of_dtype)),
)
