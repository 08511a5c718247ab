"""What replaces aten's kernels for sparse tensors: duplicates added up, and products with dense matrices on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import ops
from ..overrides import Override, Slot
from ..sparse import FLOATING, REDUCTIONS, SUMS, adds_to, coalesced, gradients, is_ours, product, sum_with
from .support import ERRORS

_COO = {"cpu": "SparseCPU"}
_COMPRESSED = {"cpu": "SparseCsrCPU"}


def _coalesce(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self):
        try:
            if not switch.on or self._nnz() < 2 or self._values().numel() == 0:
                return slot.native(keys, self)
            return coalesced(self)
        except ERRORS as error:
            return slot.failed(error, self)

    return kernel


def _mm(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, mat2):
        try:
            if not switch.on or not is_ours(self, mat2):
                return slot.native(keys, self, mat2)
            return product(self, mat2)[0]
        except ERRORS as error:
            return slot.failed(error, self, mat2)

    return kernel


def _mm_out(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, mat2, *, out):
        try:
            if not switch.on or not is_ours(self, mat2) or not _takes(out, self, mat2):
                return slot.native(keys, self, mat2, out=out)
            return out.copy_(product(self, mat2)[0])
        except ERRORS as error:
            return slot.failed(error, self, mat2, out=out)

    return kernel


def _takes(out: torch.Tensor, matrix: torch.Tensor, dense: torch.Tensor) -> bool:
    """Whether out= needs nothing that torch has to judge."""
    wanted = (matrix.shape[0], dense.shape[1])
    return out.layout == torch.strided and out.dtype == dense.dtype and tuple(out.shape) == wanted


def _addmm(slot: Slot) -> Callable:
    switch, keys, in_place = slot.switch, slot.keys, slot.override.in_place

    def kernel(self, mat1, mat2, *, beta=1, alpha=1):
        try:
            fits = not in_place or self.shape == (mat1.shape[0], mat2.shape[-1])
            if not switch.on or not fits or not adds_to(self, mat1, mat2, beta, alpha):
                return slot.native(keys, self, mat1, mat2, beta=beta, alpha=alpha)
            result = sum_with(self, mat1, mat2, beta, alpha)
            return self.copy_(result) if in_place else result
        except ERRORS as error:
            return slot.failed(error, self, mat1, mat2, beta=beta, alpha=alpha)

    return kernel


def _addmm_out(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, mat1, mat2, *, beta=1, alpha=1, out):
        try:
            if not switch.on or not adds_to(self, mat1, mat2, beta, alpha) or not _takes(out, mat1, mat2):
                return slot.native(keys, self, mat1, mat2, beta=beta, alpha=alpha, out=out)
            return out.copy_(sum_with(self, mat1, mat2, beta, alpha))
        except ERRORS as error:
            return slot.failed(error, self, mat1, mat2, beta=beta, alpha=alpha, out=out)

    return kernel


def _reduce(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, other, reduce):
        try:
            # The largest and smallest have no order, and torch's positions are the first.
            if not switch.on or reduce not in SUMS or not is_ours(self, other, FLOATING):
                return slot.native(keys, self, other, reduce)
            return product(self, other, reduce)
        except ERRORS as error:
            return slot.failed(error, self, other, reduce)

    return kernel


def _reduce_backward(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(self, grad_out, weight, reduce, arg_out, output_mask):
        try:
            if not switch.on or reduce not in REDUCTIONS or not is_ours(self, weight, FLOATING):
                return slot.native(keys, self, grad_out, weight, reduce, arg_out, output_mask)
            return gradients(self, grad_out, weight, reduce, arg_out, *output_mask)
        except ERRORS as error:
            return slot.failed(error, self, grad_out, weight, reduce, arg_out, output_mask)

    return kernel


COALESCE = (Override("_coalesce", ops.segment_sum, _coalesce, keys={"cpu": "SparseCPU", "cuda": "SparseCUDA"}),)
_SUM = ops.gather_segment_sum
SPARSE_MM = (
    Override("_sparse_mm_reduce_impl", _SUM, _reduce, keys=_COMPRESSED),
    Override("_sparse_mm_reduce_impl_backward", _SUM, _reduce_backward, keys=_COMPRESSED),
    *(Override("mm", _SUM, _mm, keys=keys) for keys in (_COO, _COMPRESSED)),
    *(Override("mm.out", _SUM, _mm_out, keys=keys) for keys in (_COO, _COMPRESSED)),
)
SPARSE_ADDMM = (
    *(Override("addmm", _SUM, _addmm, keys=keys) for keys in (_COO, _COMPRESSED)),
    *(Override("addmm.out", _SUM, _addmm_out, keys=keys) for keys in (_COO, _COMPRESSED)),
    Override("addmm_", _SUM, _addmm, in_place=True, keys=_COO),
)
