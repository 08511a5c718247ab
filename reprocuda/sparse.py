"""Sparse matrices: duplicate entries added up, products with dense matrices, and reductions of such products by rows.

A sum is exact and rounded once, each product in it exact. The largest and smallest are taken of products that are
rounded each, as torch takes them. A gradient of entries is a sum of products over the columns, one an entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from . import ops
from .alpha import conjugate, split_alpha
from .autograd import below_autograd
from .bags import divided_by_size, gather_sum, gathered, op_math
from .bags import row_products as products_of_rows

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
    for dim, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        _check_range("coalesce", f"index {{}} along dimension {dim}", index, size)
    used, place = torch.unique(flat(indices, sizes), return_inverse=True)
    permutation, offsets = ops.segment_plan(place, used.shape[0])
    sums = ops.segment_sum(values, permutation, offsets)
    return torch.sparse_coo_tensor(
        unflat(used, sizes), sums, tensor.shape, is_coalesced=True, check_invariants=False
    )  # fmt: skip


def _check_range(op: str, what: str, index: Tensor, size: int) -> None:
    if index.shape[0] == 0:
        return
    smallest, largest = torch.aminmax(index)
    if smallest < 0 or largest >= size:
        entry = int(((index < 0) | (index >= size)).nonzero()[0])
        found = what.format(int(index[entry]))
        raise RuntimeError(f"{op}(): {found}, of entry {entry}, is out of bounds for a size of {size}")


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
            values = matrix.values() if matrix.is_coalesced() else matrix._values()  # only the former has a gradient
            return cls(columns, values, bounds, rows)
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

    def check(self, op: str, shape: torch.Size) -> None:
        """Raises RuntimeError, as torch does, where an entry lies outside: sparse tensors are made unchecked."""
        for name, index, size in (("column", self.columns, shape[1]), ("row", self.given_rows, shape[0])):
            if index is not None:
                _check_range(op, f"{name} {{}}", index, size)

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


def adds_to(base: Tensor, matrix: Tensor, dense: Tensor, *factors: complex) -> bool:
    """Whether the product can be added to `base`, and the dtype holds the factors of both."""
    if not is_ours(matrix, dense) or base.layout != torch.strided or base.dtype != dense.dtype:
        return False
    if not all(_holds(base.dtype, factor) for factor in factors):
        return False
    pairs = zip(reversed(base.shape), (dense.shape[1], matrix.shape[0]), strict=False)
    return base.dim() <= 2 and all(size in (1, wanted) for size, wanted in pairs)


def _holds(dtype: torch.dtype, factor: complex) -> bool:
    if isinstance(factor, complex):
        if not dtype.is_complex:
            return False
        return _holds(dtype.to_real(), factor.real) and _holds(dtype.to_real(), factor.imag)
    return abs(factor) <= torch.finfo(dtype).max or not math.isfinite(factor)


def _complex(real: Tensor, imaginary: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack((real, imaginary), -1))


def weighted_sum(
    table: Tensor, weights: Tensor, rows: Tensor, to: Tensor, bounds: Tensor | None, num_targets: int
) -> Tensor:
    """`gathered`, also of complex numbers, whose products are two real ones for each of their parts."""
    if not table.is_complex():
        return gathered(table, weights, rows, to, bounds, num_targets)
    if bounds is not None:
        to = _lines(bounds)
    parts = torch.cat([table.real, table.imag])
    weights = weights.clone()  # torch makes no views of what is a view into a compressed matrix
    rows, to = torch.cat([rows, rows + table.shape[0]]), torch.cat([to, to])
    real = gathered(parts, torch.cat([weights.real, -weights.imag]), rows, to, None, num_targets)
    imaginary = gathered(parts, torch.cat([weights.imag, weights.real]), rows, to, None, num_targets)
    return _complex(real, imaginary)


def row_products(left: Tensor, left_rows: Tensor, right: Tensor, right_rows: Tensor) -> Tensor:
    """[n]: the sum of left * right.conj() over the columns of a row of each."""
    if not left.is_complex():
        return products_of_rows(left, left_rows, right, right_rows)
    real = torch.cat([left.real, left.imag], 1), torch.cat([right.real, right.imag], 1)
    imaginary = torch.cat([left.imag, left.real], 1), torch.cat([right.real, -right.imag], 1)
    parts = [products_of_rows(a, left_rows, b, right_rows) for a, b in (real, imaginary)]
    return _complex(*parts)


def product(matrix: Tensor, dense: Tensor, reduce: str = "sum") -> tuple[Tensor, Tensor]:
    """Sums, means, maxima or minima of matrix[i, j] * dense[j] over the entries of each row; 0 where there are none.

    Returns:
        [num_rows, features], and for maxima and minima likewise the entries that they are products of: the first of
        equal ones, their number where there is none. Empty for sums.
    """
    entries = Entries.of(matrix)
    entries.check("sparse_mm", matrix.shape)
    if reduce in SUMS:
        parts = dense, entries.values, entries.columns, entries.targets, entries.bounds, matrix.shape[0]
        none = entries.columns.new_empty(0)
        return (gather_sum(*parts, True) if reduce == "mean" else weighted_sum(*parts)), none
    products = entries.values[:, None] * dense.index_select(0, entries.columns)
    rows = entries.rows[:, None].expand_as(products)
    return ops.scatter_extremum(products, 0, rows, matrix.shape[0], None, reduce == "amax")


def _scaled(values: Tensor, dense: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """One of the two times alpha, rounded before all else is exact: the entries, or `dense` where they overflow."""
    scaled = values * alpha
    if not _overflows(values, scaled):
        return scaled, dense
    other = dense * alpha
    is_wide = dense.is_complex() or dense.dtype == op_math(dense.dtype)
    if not is_wide or _overflows(dense, other):
        raise RuntimeError(
            f"sparse_addmm(): alpha={alpha} times the largest entry overflows {values.dtype}; expected a product that "
            "it can hold"
        )
    return values, other


def _overflows(before: Tensor, after: Tensor) -> bool:
    return bool((before.isfinite() & ~after.isfinite()).any())


def sum_with(base: Tensor, matrix: Tensor, dense: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * base + the sums of alpha * matrix[i, j] * dense[j], all in one: base's rows are rows of the table."""
    entries, num_rows = Entries.of(matrix), matrix.shape[0]
    entries.check("sparse_addmm", matrix.shape)
    values = entries.values if dense.is_complex() else entries.values.to(op_math(dense.dtype))
    if alpha != 1:
        values, dense = _scaled(values, dense, alpha)
    if beta == 0:
        return weighted_sum(dense, values, entries.columns, entries.targets, entries.bounds, num_rows)
    own = torch.arange(num_rows, device=dense.device)
    table = torch.cat([dense, base.expand(num_rows, dense.shape[1])])
    weights = torch.cat([values, values.new_full((num_rows,), beta)])
    columns = torch.cat([entries.columns, own + dense.shape[0]])
    return weighted_sum(table, weights, columns, torch.cat([entries.rows, own]), None, num_rows)


def gradients(
    matrix: Tensor, grad: Tensor, dense: Tensor, reduce: str, chosen: Tensor, wants_matrix: bool, wants_dense: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Of a `product`: with respect to the sparse matrix, in its own layout, and to the dense one.

    Of entries with equal indices the first gradient is one: that of their sum.
    """
    entries = Entries.of(matrix)
    if reduce not in SUMS:
        of_values, of_dense = _gradients_of_chosen(entries, grad, dense, chosen, wants_matrix, wants_dense)
        return (like(matrix, of_values) if wants_matrix else None), of_dense
    weights, of_matrix = entries.values, None
    counts = entries.counts(matrix.shape[0]) if reduce == "mean" else None
    if wants_matrix:
        pattern = distinct(matrix)
        places = Entries.of(pattern)
        of_values = row_products(grad, places.rows, dense, places.columns)
        if counts is not None:
            of_values = of_values / counts[places.rows]
        of_matrix = like(pattern, of_values)
    if not wants_dense:
        return of_matrix, None
    if counts is not None:
        weights = divided_by_size(weights, counts, entries.rows, grad.dtype)
    return of_matrix, weighted_sum(grad, weights.conj(), entries.rows, entries.columns, None, dense.shape[0])


def distinct(matrix: Tensor) -> Tensor:
    """A matrix with each index of another once, and values that mean nothing."""
    if matrix.layout != torch.sparse_coo or matrix.is_coalesced():
        return matrix
    sizes = tuple(matrix.shape)
    indices = unflat(torch.unique(flat(matrix._indices(), sizes)), sizes)
    return torch.sparse_coo_tensor(
        indices, matrix._values().new_empty(indices.shape[1]), sizes, is_coalesced=True, check_invariants=False
    )


def _gradients_of_chosen(
    entries: Entries, grad: Tensor, dense: Tensor, chosen: Tensor, wants_values: bool, wants_dense: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Each element goes to the one entry that it is a product of; the sums of these products are exact: as weights,
    times rows of one column.
    """
    there = chosen < entries.values.shape[0]
    features = torch.arange(grad.shape[1], device=grad.device).expand_as(chosen)[there]
    entry, part = chosen[there], grad[there]
    columns = entries.columns[entry]
    of_values = of_dense = None
    if wants_values:
        of_values = _sums_of_products(part, dense[columns, features], entry, entries.values.shape[0])
    if wants_dense:
        place = columns * dense.shape[1] + features
        of_dense = _sums_of_products(part, entries.values[entry], place, dense.numel()).view(dense.shape)
    return of_values, of_dense


def _sums_of_products(left: Tensor, right: Tensor, to: Tensor, num_targets: int) -> Tensor:
    """[num_targets]: the exact sums of left * right, all [n]."""
    every = torch.arange(to.shape[0], device=to.device)
    return gathered(left[:, None], right, every, to, None, num_targets).view(num_targets)


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
    """`product`, with its derivatives."""

    @staticmethod
    def forward(ctx, matrix, dense, reduce):
        with below_autograd():
            result, chosen = product(matrix, dense, reduce)
        ctx.reduce = reduce
        ctx.save_for_backward(matrix, dense, chosen)
        return result

    @staticmethod
    def backward(ctx, grad):
        matrix, dense, chosen = ctx.saved_tensors
        matrix = _differentiable(matrix)
        wants_matrix, wants_dense, _ = ctx.needs_input_grad
        return *gradients(matrix, grad, dense, ctx.reduce, chosen, wants_matrix, wants_dense), None


class AddedProduct(torch.autograd.Function):
    """`sum_with`, with its derivatives."""

    @staticmethod
    def forward(ctx, base, matrix, dense, beta, alpha):
        with below_autograd():
            result = sum_with(base, matrix, dense, beta, alpha)
        ctx.beta, ctx.alpha, ctx.base_shape = beta, alpha, base.shape
        ctx.save_for_backward(matrix, dense)
        return result

    @staticmethod
    def backward(ctx, grad):
        matrix, dense = ctx.saved_tensors
        matrix = _differentiable(matrix)
        wants_base, wants_matrix, wants_dense, *_ = ctx.needs_input_grad
        scaled = grad if ctx.alpha == 1 else grad * conjugate(ctx.alpha)
        of_matrix, of_dense = gradients(matrix, scaled, dense, "sum", None, wants_matrix, wants_dense)
        of_base = _sum_to_size(grad, conjugate(ctx.beta), ctx.base_shape) if wants_base else None
        return of_base, of_matrix, of_dense, None, None


def _differentiable(matrix: Tensor) -> Tensor:
    """What second derivatives are taken through: torch gives the values of entries none while indices may be equal."""
    if torch.is_grad_enabled() and matrix.requires_grad and matrix.layout == torch.sparse_coo:
        return matrix if matrix.is_coalesced() else Coalesced.apply(matrix)
    return matrix


def _sum_to_size(grad: Tensor, factor: complex, shape: torch.Size) -> Tensor:
    """factor * grad, where it was broadcast from `shape` the exact sum of that."""
    if grad.shape == shape:
        return grad if factor == 1 else grad * factor
    size = shape.numel()
    places = torch.arange(size, device=grad.device).view(shape).expand(grad.shape)
    sums = ops.index_add(
        grad.new_zeros(size), 0, places.reshape(-1), grad.reshape(-1), *split_alpha(factor, grad.dtype)
    )
    return sums.view(shape)
