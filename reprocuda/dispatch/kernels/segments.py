"""What replaces aten's segment_reduce, which its out= overload calls, too, and its backward.

A gradient of a product where a factor is 0 is a product of the others, which torch multiplies one by one. The other
gradients add and multiply nothing up: they are torch's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ... import ops
from ...families.segments import layout, product_gradient, reduce_segments
from ..overrides import Override, Slot
from .support import ERRORS


def _segment_reduce(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
        keywords = {"lengths": lengths, "indices": indices, "offsets": offsets, "axis": axis, "unsafe": unsafe}
        keywords["initial"] = initial
        try:
            if not switch.on:
                return slot.native(keys, data, reduce, **keywords)
            with torch.no_grad():  # below autograd, whose formula is torch's
                return reduce_segments(data, reduce, **keywords)
        except ERRORS as error:
            return slot.failed(error, data, reduce, **keywords)

    return kernel


def _backward(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(grad, output, data, reduce, *, lengths=None, offsets=None, axis=0, initial=None):
        keywords = {"lengths": lengths, "offsets": offsets, "axis": axis, "initial": initial}
        try:
            if not switch.on or reduce != "prod":
                return slot.native(keys, grad, output, data, reduce, **keywords)
            with torch.no_grad():
                where = layout(data, lengths, None, offsets, axis, unsafe=True)
                return product_gradient(grad, output, data, where, initial)
        except ERRORS as error:
            return slot.failed(error, grad, output, data, reduce, **keywords)

    return kernel


SEGMENT_REDUCE = (
    Override("segment_reduce", ops.segment_sum, _segment_reduce),
    Override("_segment_reduce_backward", ops.index_reduce_planned, _backward),
)
