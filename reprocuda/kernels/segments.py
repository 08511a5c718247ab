"""What replaces aten's segment_reduce, which its out= overload calls, too. The backward sums nothing: it is torch's."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import ops
from ..functional.segments import reduce_segments
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


SEGMENT_REDUCE = (Override("segment_reduce", ops.segment_sum, _segment_reduce, keys={"cpu": "CPU"}),)
