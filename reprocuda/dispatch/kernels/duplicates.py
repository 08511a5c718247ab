"""What replaces aten's kernels that add up the entries of sparse tensors: among each other, and into dense tensors."""

from __future__ import annotations

import torch

from ... import ops
from ...arguments.irregular import OVERLAP, overlaps_itself, refusal
from ...sparse.duplicates import add_, added, adds_up, coalesced, takes
from ..overrides import Override
from .support import replacing, write_whole

_COO = {"cpu": "SparseCPU", "cuda": "SparseCUDA"}


def _sums(self, other, alpha=1):
    """Whether this call sums in an order: alpha scales the entries, or some of their indices may be equal. Those that
    are coalesced meet one number each.
    """
    return _has_entries(self, other) and (alpha != 1 or not other.is_coalesced())


def _sums_in_place(self, other, alpha=1, out=None):
    """The same where a tensor is written, which has to be refused where it overlaps itself."""
    written = self if out is None else out
    overlaps = written.layout == torch.strided and _has_entries(self, other) and overlaps_itself(written)
    return overlaps or _sums(self, other, alpha)


def _has_entries(self, other):
    return self.layout == torch.strided and other._values().numel() > 0


def _add(sign: int):
    def kernel(self, other, *, alpha=1):
        return added(self, other, sign * alpha) if takes(self, other, sign * alpha) else NotImplemented

    return replacing(kernel, _sums)


def _add_in_place(sign: int):
    def kernel(self, other, *, alpha=1):
        fits = takes(self, other, sign * alpha) and torch.can_cast(torch.result_type(self, other), self.dtype)
        if fits and overlaps_itself(self):
            raise refusal(f"{'add' if sign > 0 else 'sub'}_", OVERLAP)
        return add_(self, other, sign * alpha) if fits else NotImplemented

    return replacing(kernel, _sums_in_place)


def _add_out(sign: int):
    def kernel(self, other, *, alpha=1, out):
        fits = out.layout == torch.strided and out.device == self.device and takes(self, other, sign * alpha)
        if not fits or not torch.can_cast(torch.result_type(self, other), out.dtype):
            return NotImplemented
        return write_whole(out, added(self, other, sign * alpha))

    return replacing(kernel, _sums_in_place)


_ADD = ops.index_add
COALESCE = (
    Override("_coalesce", ops.segment_sum, replacing(coalesced, adds_up), keys=_COO),
    *(
        override
        for name, sign in (("add", 1), ("sub", -1))
        for override in (
            Override(f"{name}.Tensor", _ADD, _add(sign), keys=_COO),
            Override(f"{name}_.Tensor", _ADD, _add_in_place(sign), in_place=True, keys=_COO),
            Override(f"{name}.out", _ADD, _add_out(sign), keys=_COO),
        )
    ),
)
