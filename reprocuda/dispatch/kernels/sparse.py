"""What replaces aten's products of sparse matrices: with dense ones, vectors, batches, and each other."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import ops
from ...arguments.autocast import outside_autocast
from ...sparse.entries import FLOATING, LAYOUTS, adds_product, adds_to, are_batches, are_ours, coo, is_matrix, is_ours
from ...sparse.gradients import gradients
from ...sparse.products import REDUCTIONS, SUMS, batched, full_rows, of_sparse, product, sum_with, sum_with_sparse
from ..overrides import Override
from .support import replacing, write_whole

_COO = {"cpu": "SparseCPU", "cuda": "SparseCUDA"}
_COMPRESSED = {"cpu": "SparseCsrCPU", "cuda": "SparseCsrCUDA"}
_REDUCED = {"cpu": "SparseCsrCPU"}  # torch has no reductions on CUDA


def _turned(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor] | None:
    """The factors of the transposed product, where `right` is the sparse one."""
    if left.layout != torch.strided or left.dim() != 2 or not is_matrix(right):
        return None
    return right.t(), left.t()


def _mm(self, mat2):
    if is_ours(self, mat2):
        return product(self, mat2)[0]
    if are_ours(self, mat2):
        result = of_sparse(self, mat2)
        return result if self.layout == torch.sparse_coo else result.to_sparse_csr()
    turned = _turned(self, mat2)
    if turned is None or not is_ours(*turned):
        return NotImplemented
    result = product(*turned)[0].t()
    return result if mat2.layout == torch.sparse_coo else result.contiguous()  # as torch's


def _mm_out(self, mat2, *, out):
    if mat2.layout == torch.sparse_coo or not _takes(out, mat2):
        return NotImplemented
    result = _mm(self, mat2)
    if result is not NotImplemented and result.layout != torch.strided:
        result = result.to_dense()
    return _written(out, result)


def _written(out: Tensor, result: Tensor) -> Tensor:
    return result if result is NotImplemented else write_whole(out, result)


def _takes(out: Tensor, factor: Tensor) -> bool:
    """Whether out= needs nothing that torch decides."""
    return out.layout == torch.strided and out.dtype == factor.dtype and out.device == factor.device


def _addmm(self, mat1, mat2, *, beta=1, alpha=1):
    if adds_to(self, mat1, mat2, beta, alpha):
        return sum_with(self, mat1, mat2, beta, alpha)
    if self.layout in LAYOUTS[1:]:  # how torch.sparse.mm multiplies compressed matrices
        fits = beta == 0 and alpha == 1 and are_ours(mat1, mat2) and self.shape == (mat1.shape[0], mat2.shape[1])
        if self.layout == torch.sparse_csc:
            fits = fits and mat1.layout == mat2.layout == torch.sparse_csc  # torch knows no other way to a CSC result
        return of_sparse(mat1, mat2).to_sparse(layout=self.layout) if fits else NotImplemented
    if adds_product(self, mat1, mat2, beta, alpha):
        return sum_with_sparse(self, mat1, mat2, beta, alpha)
    turned = _turned(mat1, mat2)
    if turned is None or self.layout != torch.strided or mat2.layout == torch.sparse_coo:
        return NotImplemented
    base = self.t() if self.dim() == 2 else self.reshape(-1, 1)
    if not adds_to(base, *turned, beta, alpha):
        return NotImplemented
    return sum_with(base, *turned, beta, alpha).t().contiguous()


def _addmm_(self, mat1, mat2, *, beta=1, alpha=1):
    if not _takes(self, mat2) or self.shape != (mat1.shape[0], mat2.shape[-1]):
        return NotImplemented
    return _written(self, _addmm(self, mat1, mat2, beta=beta, alpha=alpha))


def _addmm_out(self, mat1, mat2, *, beta=1, alpha=1, out):
    if not _takes(out, mat2):
        return NotImplemented
    return _written(out, _addmm(self, mat1, mat2, beta=beta, alpha=alpha))


def _addmv_out(self, mat, vec, *, beta=1, alpha=1, out):
    if self.layout != torch.strided or self.dim() > 1 or vec.dim() != 1 or not _takes(out, vec):
        return NotImplemented
    base, column = self.reshape(-1, 1), vec.unsqueeze(-1)
    if not adds_to(base, mat, column, beta, alpha):
        return NotImplemented
    return write_whole(out, sum_with(base, mat, column, beta, alpha).squeeze(1))


def _bmm(self, mat2):
    return batched(self, mat2) if are_batches(self, mat2) else NotImplemented


def _bmm_out(self, mat2, *, out):
    return _written(out, _bmm(self, mat2)) if _takes(out, mat2) else NotImplemented


def _hspmm(mat1, mat2):
    if not is_ours(mat1, mat2):
        return NotImplemented
    rows, values = full_rows(mat1, mat2)
    return coo(rows[None], values, (mat1.shape[0], mat2.shape[1]))


def _hspmm_out(mat1, mat2, *, out):
    return _written(out, _hspmm(mat1, mat2)) if out.dtype == mat2.dtype else NotImplemented


@outside_autocast
def _sspaddmm_out(self, mat1, mat2, *, beta=1, alpha=1, out):
    """Entries of the product beside those of `self`: torch adds up none that meet."""
    shape = torch.Size((mat1.shape[0], mat2.shape[-1]))
    is_empty = self.layout == torch.sparse_coo and self._nnz() == 0
    if not is_matrix(self, (torch.sparse_coo,)) and not is_empty:
        return NotImplemented
    base = mat2.new_zeros(()) if mat2.layout == torch.strided else mat2
    if not adds_to(base, mat1, mat2, beta, alpha) or not self.dtype == out.dtype == mat2.dtype:
        return NotImplemented
    if not is_empty and self.shape != shape:
        return NotImplemented
    rows, values = full_rows(mat1, mat2, alpha)
    features = torch.arange(shape[1], device=rows.device)
    indices = torch.stack([rows.repeat_interleave(shape[1]), features.repeat(rows.shape[0])])
    values = values.reshape(-1)
    if not is_empty:
        indices = torch.cat([self._indices(), indices], 1)
        values = torch.cat([self._values() * beta, values])
    return out.copy_(coo(indices, values, shape))


def _reduce(self, other, reduce):
    fits = self.layout == torch.sparse_csr and is_ours(self, other, FLOATING)
    return product(self, other, reduce) if fits else NotImplemented


def _orders(self, other, reduce):
    """The largest and smallest have no order, and torch's positions are the first."""
    return reduce in SUMS


def _reduce_backward(self, grad_out, weight, reduce, arg_out, output_mask):
    if reduce not in REDUCTIONS or not is_ours(self, weight, FLOATING):
        return NotImplemented
    return gradients(self, grad_out, weight, reduce, arg_out, *output_mask)


_SUM = ops.gather_segment_sum
_BOTH = (_COO, _COMPRESSED)
SPARSE_MM = (
    *(Override("mm", _SUM, replacing(_mm), keys=keys) for keys in _BOTH),
    *(Override("mm.out", _SUM, replacing(_mm_out), keys=keys) for keys in _BOTH),
    Override("_sparse_sparse_matmul", _SUM, replacing(_mm), keys=_COO),
    Override("bmm", _SUM, replacing(_bmm), keys=_COO),
    Override("bmm.out", _SUM, replacing(_bmm_out), keys=_COO),
    Override("hspmm", _SUM, replacing(_hspmm), keys=_COO),
    Override("hspmm.out", _SUM, replacing(_hspmm_out), keys=_COO),
    Override("_sparse_mm_reduce_impl", _SUM, replacing(_reduce, _orders), keys=_REDUCED),
    Override("_sparse_mm_reduce_impl_backward", _SUM, replacing(_reduce_backward), keys=_REDUCED),
)
SPARSE_ADDMM = (
    *(Override("addmm", _SUM, replacing(_addmm), keys=keys) for keys in _BOTH),
    *(Override("addmm.out", _SUM, replacing(_addmm_out), keys=keys) for keys in _BOTH),
    Override("addmm_", _SUM, replacing(_addmm_), in_place=True, keys=_COO),
    Override("addmv.out", _SUM, replacing(_addmv_out), keys=_COMPRESSED),
    Override("sspaddmm.out", _SUM, replacing(_sspaddmm_out), keys=_COO),
)
