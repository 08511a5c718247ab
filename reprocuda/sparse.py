"""Sparse matrices: duplicate entries added up, products with dense matrices, and reductions of such products by rows.

A sum is exact and rounded once, each product in it exact. The largest and smallest are taken of products that are
rounded each, as torch takes them. A gradient of entries is a sum of products over the columns, one an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import ops
from .autograd import below_autograd
from .bags import divided_by_size, gather_sum, op_math

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
SUMS = ("sum", "mean")
REDUCTIONS = (*SUMS, "amax", "amin")


def flat(indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """[nnz] int64: the row-major positions of [sparse_dim, nnz] indices."""
    position = indices.new_zeros(indices.shape[1])
    for index, size in zip(indices, sizes, strict=True):
        position = position * size + index
    return position


def unflat(position: Tensor, sizes: tuple[int, ...]) -> Tensor:
    indices = []
    for size in reversed(sizes):
        indices.append(position % size)
        position = position // size
    return torch.stack(indices[::-1]) if sizes else position.new_empty(0, position.shape[0])


def coalesced(tensor: Tensor) -> Tensor:
    """A COO tensor with its indices in order and the values of equal ones added up."""
    indices, values = tensor._indices(), tensor._values()
    if indices.shape[1] < 2 or values.numel() == 0:
        raise ValueError("there is nothing to add up")  # torch's own result has no sum in it
    sizes = tuple(tensor.shape[: tensor.sparse_dim()])
    used, place = torch.unique(flat(indices, sizes), return_inverse=True)
    permutation, offsets = ops.segment_plan(place, used.shape[0])
    sums = ops.segment_sum(values, permutation, offsets)
    return torch.sparse_coo_tensor(
        unflat(used, sizes), sums, tensor.shape, is_coalesced=True, check_invariants=False
    )  # fmt: skip


@dataclass
class Entries:
    """The entries of a sparse matrix.

    Attributes:
        columns: [nnz] int64.
        values: [nnz].
        bounds: [num_rows + 1] int64, where each row begins; None: they are in another order.
        given_rows: [nnz] int64; None: as `bounds` says.
    """

    columns: Tensor
    values: Tensor
    bounds: Tensor | None
    given_rows: Tensor | None

    @classmethod
    def of(cls, matrix: Tensor) -> Entries:
        if matrix.layout == torch.sparse_coo:
            rows, columns = matrix._indices()
            bounds = None
            if matrix.is_coalesced():
                bounds = torch.searchsorted(rows.contiguous(), torch.arange(matrix.shape[0] + 1, device=rows.device))
            return cls(columns, matrix._values(), bounds, rows)
        if matrix.layout == torch.sparse_csr:
            return cls(matrix.col_indices().long(), matrix.values(), matrix.crow_indices().long(), None)
        return cls(_lines(matrix.ccol_indices().long()), matrix.values(), None, matrix.row_indices().long())

    @cached_property
    def rows(self) -> Tensor:
        """[nnz] int64."""
        return _lines(self.bounds) if self.given_rows is None else self.given_rows

    @property
    def targets(self) -> Tensor:
        """The rows; where `bounds` says them, something that need not be read."""
        return self.columns if self.given_rows is None else self.given_rows

    def counts(self, num_rows: int) -> Tensor:
        return torch.bincount(self.rows, minlength=num_rows) if self.bounds is None else self.bounds.diff()


def _lines(bounds: Tensor) -> Tensor:
    """The number of the line, row or column, of every entry."""
    lines = torch.arange(bounds.shape[0] - 1, device=bounds.device)
    return torch.repeat_interleave(lines, bounds.diff())


def is_ours(matrix: Tensor, dense: Tensor, dtypes: tuple[torch.dtype, ...] = FLOATING + COMPLEX) -> bool:
    """Whether the product is one of ours; what torch refuses is none."""
    if matrix.layout not in LAYOUTS or dense.layout != torch.strided or dense.dtype not in dtypes:
        return False
    if matrix.dim() != 2 or matrix.dense_dim() != 0 or dense.dim() != 2 or matrix.shape[1] != dense.shape[0]:
        return False
    return matrix.dtype == dense.dtype and matrix.device == dense.device


def adds_to(base: Tensor, matrix: Tensor, dense: Tensor) -> bool:
    """Whether the product can be added to `base`."""
    if not is_ours(matrix, dense) or base.layout != torch.strided or base.dtype != dense.dtype:
        return False
    pairs = zip(reversed(base.shape), (dense.shape[1], matrix.shape[0]), strict=False)
    return base.dim() <= 2 and all(size in (1, wanted) for size, wanted in pairs)


def _complex(real: Tensor, imaginary: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack((real, imaginary), -1))


def weighted_sum(
    table: Tensor, weights: Tensor, rows: Tensor, to: Tensor, bounds: Tensor | None, num_targets: int
) -> Tensor:
    """`gather_sum`, also of complex numbers, whose products are two real ones for each of their parts."""
    if not table.is_complex():
        return gather_sum(table, weights, rows, to, bounds, num_targets, False)
    if bounds is not None:
        to = _lines(bounds)
    parts = torch.cat([table.real, table.imag])
    weights = weights.clone()  # torch makes no views of what is a view into a compressed matrix
    rows, to = torch.cat([rows, rows + table.shape[0]]), torch.cat([to, to])
    real = gather_sum(parts, torch.cat([weights.real, -weights.imag]), rows, to, None, num_targets, False)
    imaginary = gather_sum(parts, torch.cat([weights.imag, weights.real]), rows, to, None, num_targets, False)
    return _complex(real, imaginary)


def row_products(left: Tensor, left_rows: Tensor, right: Tensor, right_rows: Tensor) -> Tensor:
    """[n]: the sum of left * right.conj() over the columns of a row of each."""
    if not left.is_complex():
        return ops.gather_row_products(left, left_rows, right, right_rows)
    real = torch.cat([left.real, left.imag], 1), torch.cat([right.real, right.imag], 1)
    imaginary = torch.cat([left.imag, left.real], 1), torch.cat([right.real, -right.imag], 1)
    parts = [ops.gather_row_products(a, left_rows, b, right_rows) for a, b in (real, imaginary)]
    return _complex(*parts)


def product(matrix: Tensor, dense: Tensor, reduce: str = "sum") -> tuple[Tensor, Tensor]:
    """Sums, means, maxima or minima of matrix[i, j] * dense[j] over the entries of each row; 0 where there are none.

    Returns:
        [num_rows, features], and for maxima and minima likewise the entries that they are products of: the first of
        equal ones, their number where there is none. Empty for sums.
    """
    entries = Entries.of(matrix)
    if reduce in SUMS:
        parts = dense, entries.values, entries.columns, entries.targets, entries.bounds, matrix.shape[0]
        none = entries.columns.new_empty(0)
        return (gather_sum(*parts, True) if reduce == "mean" else weighted_sum(*parts)), none
    products = entries.values[:, None] * dense[entries.columns]
    rows = entries.rows[:, None].expand_as(products)
    return ops.scatter_extremum(products, 0, rows, matrix.shape[0], None, reduce == "amax")


def sum_with(base: Tensor, matrix: Tensor, dense: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * base + the sums of alpha * matrix[i, j] * dense[j], all in one: base's rows are rows of the table."""
    entries, num_rows = Entries.of(matrix), matrix.shape[0]
    values = entries.values if dense.is_complex() else entries.values.to(op_math(dense.dtype))
    if alpha != 1:
        values = values * alpha  # rounded, before all is exact
    if beta == 0:
        return weighted_sum(dense, values, entries.columns, entries.targets, entries.bounds, num_rows)
    own = torch.arange(num_rows, device=dense.device)
    table = torch.cat([dense, base.expand(num_rows, dense.shape[1])])
    weights = torch.cat([values, values.new_full((num_rows,), beta)])
    columns = torch.cat([entries.columns, own + dense.shape[0]])
    return weighted_sum(table, weights, columns, torch.cat([entries.rows, own]), None, num_rows)


def gradients(
    matrix: Tensor, grad: Tensor, dense: Tensor, reduce: str, chosen: Tensor, wants_values: bool, wants_dense: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Of a `product`: with respect to the value of each entry, and to the dense matrix."""
    entries = Entries.of(matrix)
    if reduce not in SUMS:
        return _gradients_of_chosen(entries, grad, dense, chosen, wants_values, wants_dense)
    weights, of_values = entries.values, None
    counts = entries.counts(matrix.shape[0]) if reduce == "mean" else None
    if wants_values:
        of_values = row_products(grad, entries.rows, dense, entries.columns)
        if counts is not None:
            of_values = of_values / counts[entries.rows]
    if not wants_dense:
        return of_values, None
    if counts is not None:
        weights = divided_by_size(weights, counts, entries.rows, grad.dtype)
    return of_values, weighted_sum(grad, weights.conj(), entries.rows, entries.columns, None, dense.shape[0])


def _gradients_of_chosen(
    entries: Entries, grad: Tensor, dense: Tensor, chosen: Tensor, wants_values: bool, wants_dense: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Each element goes to the one entry that it is a product of; the sums of these products are exact."""
    there = chosen < entries.values.shape[0]
    features = torch.arange(grad.shape[1], device=grad.device).expand_as(chosen)[there]
    entry, part = chosen[there], grad[there]
    columns = entries.columns[entry]
    of_values = of_dense = None
    if wants_values:
        of_values = ops.scatter_add(torch.zeros_like(entries.values), 0, entry, part * dense[columns, features])
    if wants_dense:
        place = columns * dense.shape[1] + features
        zeros = dense.new_zeros(dense.numel())
        of_dense = ops.scatter_add(zeros, 0, place, part * entries.values[entry]).view(dense.shape)
    return of_values, of_dense


def like(matrix: Tensor, values: Tensor) -> Tensor:
    """A sparse matrix with the entries of another, and other values."""
    if matrix.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(
            matrix._indices(), values, matrix.shape, is_coalesced=matrix.is_coalesced(), check_invariants=False
        )
    if matrix.layout == torch.sparse_csr:
        lines, others = matrix.crow_indices(), matrix.col_indices()
    else:
        lines, others = matrix.ccol_indices(), matrix.row_indices()
    return torch.sparse_compressed_tensor(
        lines, others, values, matrix.shape, layout=matrix.layout, check_invariants=False
    )  # fmt: skip


class Coalesced(torch.autograd.Function):
    """`coalesced`; every gradient of a sum is that of its members."""

    @staticmethod
    def forward(ctx, tensor):
        with below_autograd():
            return coalesced(tensor)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Product(torch.autograd.Function):
    """`product`, with derivatives of the first order."""

    @staticmethod
    def forward(ctx, matrix, dense, reduce):
        with below_autograd():
            result, chosen = product(matrix, dense, reduce)
        ctx.reduce = reduce
        ctx.save_for_backward(matrix, dense, chosen)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        matrix, dense, chosen = ctx.saved_tensors
        wants_matrix, wants_dense, _ = ctx.needs_input_grad
        of_values, of_dense = gradients(matrix, grad, dense, ctx.reduce, chosen, wants_matrix, wants_dense)
        return (like(matrix, of_values) if wants_matrix else None), of_dense, None


class AddedProduct(torch.autograd.Function):
    """`sum_with`, with derivatives of the first order."""

    @staticmethod
    def forward(ctx, base, matrix, dense, beta, alpha):
        with below_autograd():
            result = sum_with(base, matrix, dense, beta, alpha)
        ctx.beta, ctx.alpha, ctx.base_shape = beta, alpha, base.shape
        ctx.save_for_backward(matrix, dense)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        matrix, dense = ctx.saved_tensors
        wants_base, wants_matrix, wants_dense, *_ = ctx.needs_input_grad
        scaled = grad if ctx.alpha == 1 else grad * ctx.alpha
        of_values, of_dense = gradients(matrix, scaled, dense, "sum", None, wants_matrix, wants_dense)
        of_base = None
        if wants_base:
            of_base = (grad if ctx.beta == 1 else grad * ctx.beta).sum_to_size(ctx.base_shape)
        return of_base, (like(matrix, of_values) if wants_matrix else None), of_dense, None, None
