"""What replaces aten's plain writes through an index.

What writes one value wherever it writes (scatter with a number, index_fill, masked_fill) knows no order and stays
torch's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ... import ops
from ...arguments.checks import check_on_device, checks
from ...arguments.irregular import OVERLAP, overlaps_itself, refusal
from ...families.overwrites import source_of
from ...families.reductions import is_torchs
from ..overrides import Override, Slot
from .support import ERRORS, along_dim, along_dim_out, size_along, writes_through


def _is_torchs(self, reduce, strict):
    """An unknown reduction, which torch refuses, or one that we do not have."""
    return reduce not in ("add", "multiply") or (reduce == "multiply" and is_torchs(self, "prod") and not strict)


def _scatter_reduce(slot: Slot) -> Callable:
    """scatter(reduce="add"), which is scatter_add, and reduce="multiply", which is scatter_reduce."""
    switch, keys, add, in_place = slot.switch, slot.keys, slot.ours, slot.override.in_place
    multiply = (ops.scatter_reduce_ if in_place else ops.scatter_reduce)._op

    def kernel(self, dim, index, src, *, reduce):
        try:
            if not switch.on or _is_torchs(self, reduce, switch.strict):
                return slot.native(keys, self, dim, index, src, reduce=reduce)
            if checks.on:
                check_on_device("scatter", index, 0, size_along(self, dim))
            source = source_of(self, index, src)
            result = add(self, dim, index, source) if reduce == "add" else multiply(self, dim, index, source, "prod")
            return self if in_place else result
        except ERRORS as error:
            return slot.failed(error, self, dim, index, src, reduce=reduce)

    return kernel


def _scatter_reduce_out(slot: Slot) -> Callable:
    switch, keys, add, multiply = slot.switch, slot.keys, slot.ours, ops.scatter_reduce_out._op

    def kernel(self, dim, index, src, *, reduce, out):
        try:
            if not switch.on or _is_torchs(self, reduce, switch.strict):
                return slot.native(keys, self, dim, index, src, reduce=reduce, out=out)
            if checks.on:
                check_on_device("scatter", index, 0, size_along(self, dim))
            source = source_of(self, index, src)
            if reduce == "add":
                add(self, dim, index, source, out)
            else:
                multiply(self, dim, index, source, "prod", True, out)
            return out
        except ERRORS as error:
            return slot.failed(error, self, dim, index, src, reduce=reduce, out=out)

    return kernel


def _put_(slot: Slot) -> Callable:
    switch, keys, write, add = slot.switch, slot.keys, ops.index_put_overwrite_._op, ops.index_put_rows_._op

    def kernel(self, index, source, accumulate=False):
        try:
            if not switch.on or self.numel() == 0 or index.numel() != source.numel() or index.dtype != torch.int64:
                return slot.native(keys, self, index, source, accumulate)
            if torch._debug_has_internal_overlap(self) == 1:
                return slot.native(keys, self, index, source, accumulate)  # raises
            if overlaps_itself(self):
                raise refusal("put_", OVERLAP)
            if checks.on:
                check_on_device("put_", index, -self.numel(), self.numel())
            flat = self.reshape(-1)
            if accumulate:
                add(flat, index.reshape(-1), source.reshape(-1))
            else:
                write(flat, [index.reshape(-1)], [0], source.reshape(-1))
            return self if self.is_contiguous() else self.copy_(flat.view(self.shape))
        except ERRORS as error:
            return slot.failed(error, self, index, source, accumulate)

    return kernel


_aten = torch.ops.aten
SCATTER = (
    Override("scatter.src", ops.scatter, along_dim("scatter"), overwrites=True),
    Override("scatter_.src", ops.scatter_, along_dim("scatter_"), in_place=True, overwrites=True),
    Override(
        "scatter.src_out", ops.scatter_out, along_dim_out("scatter"), writes_through(_aten.scatter), overwrites=True
    ),
    Override("scatter.reduce", ops.scatter_add, _scatter_reduce),
    Override("scatter_.reduce", ops.scatter_add_, _scatter_reduce, in_place=True),
    Override("scatter.reduce_out", ops.scatter_add_out, _scatter_reduce_out, writes_through(_aten.scatter)),
    Override("scatter.value_reduce", ops.scatter_add, _scatter_reduce),
    Override("scatter_.value_reduce", ops.scatter_add_, _scatter_reduce, in_place=True),
    Override("scatter.value_reduce_out", ops.scatter_add_out, _scatter_reduce_out, writes_through(_aten.scatter)),
)
INDEX_COPY = (
    Override("index_copy", ops.index_copy, along_dim("index_copy"), overwrites=True),
    Override("index_copy_", ops.index_copy_, along_dim("index_copy_"), in_place=True, overwrites=True),
    Override(
        "index_copy.out",
        ops.index_copy_out,
        along_dim_out("index_copy"),
        writes_through(_aten.index_copy),
        overwrites=True,
    ),
)
PUT = (Override("put_", ops.index_put_overwrite_, _put_, in_place=True, overwrites=True),)
