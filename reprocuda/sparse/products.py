"""Products of sparse matrices and reductions of such products by rows.

A sum is exact and rounded once, each product in it exact. The largest and smallest are taken of products that are
rounded each, as torch takes them.
"""

from __future__ import annotations

import cmath

import torch
from torch import Tensor

from .. import ops
from ..arguments.autocast import outside_autocast
from ..families.bags import gather_sum, gathered, op_math
from ..families.bags import row_products as products_of_rows
from .entries import Entries, coo, lines, require_entries_in_bounds, unflat

SUMS = ("sum", "mean")
REDUCTIONS = (*SUMS, "amax", "amin")


def _complex(real: Tensor, imaginary: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack((real, imaginary), -1))


@outside_autocast
def weighted_sum(
    table: Tensor, weights: Tensor, rows: Tensor, to: Tensor, bounds: Tensor | None, num_targets: int
) -> Tensor:
    """`gathered`, also of complex numbers, whose products are two real ones for each of their parts."""
    if not table.is_complex():
        return gathered(table, weights, rows, to, bounds, num_targets)
    if bounds is not None:
        to = lines(bounds, rows.shape[0])
    parts = torch.cat([table.real, table.imag])
    rows, to = torch.cat([rows, rows + table.shape[0]]), torch.cat([to, to])
    real = gathered(parts, torch.cat([weights.real, -weights.imag]), rows, to, None, num_targets)
    imaginary = gathered(parts, torch.cat([weights.imag, weights.real]), rows, to, None, num_targets)
    return _complex(real, imaginary)


@outside_autocast
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
    entries = Entries.unchecked(matrix, "sparse_mm")
    # The kernel looks at rows that are there in order, and at their columns, as it reads them.
    looks_itself = reduce in SUMS and matrix.layout == torch.sparse_csr and dense.is_cpu and not dense.is_complex()
    if not looks_itself:
        entries.check("sparse_mm", matrix.shape)
    if reduce in SUMS:
        parts = dense, entries.values, entries.columns, entries.targets, entries.bounds, matrix.shape[0]
        try:
            sums = gather_sum(*parts, True) if reduce == "mean" else weighted_sum(*parts)
        except RuntimeError:
            entries.check("sparse_mm", matrix.shape)  # says it in the words of a matrix
            raise
        return sums, entries.columns.new_empty(0)
    products = entries.values[:, None] * dense.index_select(0, entries.columns)
    rows = entries.rows[:, None].expand_as(products)
    return ops.scatter_extremum(products, 0, rows, matrix.shape[0], None, reduce == "amax")


def _scaled(values: Tensor, dense: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """One of the two times alpha, rounded before all else is exact: the entries, or `dense` where they overflow."""
    scaled = values * alpha
    if not cmath.isfinite(alpha):
        return scaled, dense
    overflows = _overflows(values, scaled)
    if not overflows.is_cuda and not overflows:
        return scaled, dense
    refused = overflows
    if dense.is_complex() or dense.dtype == op_math(dense.dtype):
        other = dense * alpha
        refused = overflows & _overflows(dense, other)
        scaled, dense = torch.where(overflows, values, scaled), torch.where(overflows, other, dense)
    message = (
        f"sparse_addmm(): alpha={alpha} times the largest entry overflows {values.dtype}; expected a product that it "
        "can hold"
    )
    if refused.is_cuda:  # where the host does not wait for the answer
        torch._assert_async(~refused, message)
    elif refused:
        raise RuntimeError(message)
    return scaled, dense


def _overflows(before: Tensor, after: Tensor) -> Tensor:
    """[] bool: whether something finite is no longer."""
    return (before.isfinite() & ~after.isfinite()).any()


@outside_autocast
def sum_with(base: Tensor, matrix: Tensor, dense: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * base + the sums of alpha * matrix[i, j] * dense[j], all in one: base's rows are rows of the table."""
    entries, num_rows = Entries.of(matrix, "sparse_addmm"), matrix.shape[0]
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


def batched(batches: Tensor, dense: Tensor) -> Tensor:
    """[b, n, p]: the products of [b, n, m] sparse and [b, m, p] dense matrices, as those of one of b * n rows."""
    count, num_rows, num_columns = batches.shape
    require_entries_in_bounds("bmm", batches._indices(), (count, num_rows, num_columns))
    number, rows, columns = batches._indices()
    table = dense.reshape(count * num_columns, dense.shape[2])
    columns, rows = number * num_columns + columns, number * num_rows + rows
    sums = weighted_sum(table, batches._values(), columns, rows, None, count * num_rows)
    return sums.view(count, num_rows, dense.shape[2])


def of_sparse(left: Tensor, right: Tensor) -> Tensor:
    """The product of two sparse matrices, in coordinates: an entry wherever an entry of each meets one of the other."""
    ours, others = Entries.of(left, "sparse_mm"), Entries.of(right, "sparse_mm")
    entry, other = _meetings(ours, others, right.shape[0])
    shape = left.shape[0], right.shape[1]
    used, place = torch.unique(ours.rows[entry] * shape[1] + others.columns[other], return_inverse=True)
    values = weighted_sum(others.values[:, None], ours.values[entry], other, place, None, used.shape[0])
    return coo(unflat(used, shape), values.view(-1), shape, is_coalesced=True)


@outside_autocast
def sum_with_sparse(base: Tensor, left: Tensor, right: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * base + alpha * (left @ right), two sparse matrices, in one sum: as `sum_with`, each place a target."""
    ours, others = Entries.of(left, "addmm"), Entries.of(right, "addmm")
    entry, other = _meetings(ours, others, right.shape[0])
    shape = left.shape[0], right.shape[1]
    values = ours.values if base.is_complex() else ours.values.to(op_math(base.dtype))
    table = others.values[:, None]
    if alpha != 1:
        values, table = _scaled(values, table, alpha)
    weights, place = values[entry], ours.rows[entry] * shape[1] + others.columns[other]
    if beta != 0:
        own = torch.arange(shape[0] * shape[1], device=base.device)
        other = torch.cat([other, own + table.shape[0]])
        table = torch.cat([table, base.expand(shape).reshape(-1, 1)])
        weights = torch.cat([weights, weights.new_full((own.shape[0],), beta)])
        place = torch.cat([place, own])
    return weighted_sum(table, weights, other, place, None, shape[0] * shape[1]).view(shape)


def _meetings(ours: Entries, others: Entries, num_columns: int) -> tuple[Tensor, Tensor]:
    """[n] each: which entry of the left factor meets which of the right one, whose row is its column."""
    order, bounds = None, others.bounds
    if bounds is None:
        order, bounds = ops.segment_plan(others.rows, num_columns)
    counts = bounds.diff()[ours.columns]
    entry = torch.repeat_interleave(torch.arange(counts.shape[0], device=counts.device), counts)
    first = bounds[ours.columns] - (counts.cumsum(0) - counts)
    other = torch.arange(entry.shape[0], device=counts.device) + first[entry]
    return entry, other if order is None else order[other]


def full_rows(matrix: Tensor, dense: Tensor, alpha: complex = 1) -> tuple[Tensor, Tensor]:
    """The rows of `matrix` that have entries, and what alpha times the product is there."""
    entries = Entries.of(matrix, "sparse_mm")
    values = entries.values
    if alpha != 1:
        values, dense = _scaled(values if dense.is_complex() else values.to(op_math(dense.dtype)), dense, alpha)
    used, place = torch.unique(entries.rows, return_inverse=True)
    return used, weighted_sum(dense, values, entries.columns, place, None, used.shape[0])
