"""What replaces aten's reductions by index other than the sum."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ... import ops
from ...arguments.checks import check_on_device, checks
from ...families.reductions import is_torchs
from ..overrides import Override, Slot
from .support import ERRORS, size_along, writes_through


def _reduce(name: str) -> Callable[[Slot], Callable]:
    def make(slot: Slot) -> Callable:
        switch, keys, ours, in_place = slot.switch, slot.keys, slot.ours, slot.override.in_place

        def kernel(self, dim, index, src, reduce, *, include_self=True):
            try:
                if not switch.on or (is_torchs(self, reduce) and not switch.strict):
                    return slot.native(keys, self, dim, index, src, reduce, include_self=include_self)
                if checks.on:
                    check_on_device(name, index, 0, size_along(self, dim))
                result = ours(self, dim, index, src, reduce, include_self)
                return self if in_place else result
            except ERRORS as error:
                return slot.failed(error, self, dim, index, src, reduce, include_self=include_self)

        return kernel

    return make


def _reduce_out(name: str) -> Callable[[Slot], Callable]:
    def make(slot: Slot) -> Callable:
        switch, keys, ours = slot.switch, slot.keys, slot.ours

        def kernel(self, dim, index, src, reduce, *, include_self=True, out):
            try:
                if not switch.on or (is_torchs(self, reduce) and not switch.strict):
                    return slot.native(keys, self, dim, index, src, reduce, include_self=include_self, out=out)
                if checks.on:
                    check_on_device(name, index, 0, size_along(self, dim))
                ours(self, dim, index, src, reduce, include_self, out)
                return out
            except ERRORS as error:
                return slot.failed(error, self, dim, index, src, reduce, include_self=include_self, out=out)

        return kernel

    return make


_SCATTER, _INDEX = "scatter_reduce", "index_reduce"
SCATTER_REDUCE = (
    Override("scatter_reduce.two", ops.scatter_reduce, _reduce(_SCATTER)),
    Override("scatter_reduce_.two", ops.scatter_reduce_, _reduce(_SCATTER), in_place=True),
    Override(
        "scatter_reduce.two_out",
        ops.scatter_reduce_out,
        _reduce_out(_SCATTER),
        writes_through(torch.ops.aten.scatter_reduce.two),
    ),
)
INDEX_REDUCE = (
    Override("index_reduce", ops.index_reduce, _reduce(_INDEX)),
    Override("index_reduce_", ops.index_reduce_, _reduce(_INDEX), in_place=True),
    Override(
        "index_reduce.out",
        ops.index_reduce_out,
        _reduce_out(_INDEX),
        writes_through(torch.ops.aten.index_reduce),
    ),
)
