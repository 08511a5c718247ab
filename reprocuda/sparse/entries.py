"""The entries of sparse tensors, what is looked at before they are used, and tensors with the same indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..arguments.checks import checks

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def flat(indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """[nnz] int64: the row-major positions of [sparse_dim, nnz] indices."""
    if not sizes:
        return indices.new_zeros(indices.shape[1])
    position = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        position = position * size + index
    return position


def unflat(position: Tensor, sizes: tuple[int, ...]) -> Tensor:
    indices = []
    for size in reversed(sizes):
        indices.append(position % size)
        position = position // size
    return torch.stack(indices[::-1]) if sizes else position.new_empty(0, position.shape[0])


def require_in_bounds(op: str, what: str, index: Tensor, size: int) -> None:
    """Raises RuntimeError, as torch does, where an entry lies outside: sparse tensors are made unchecked.

    On CUDA that is a device assert, which does not synchronise, unless `check_indices` is set.
    """
    if index.shape[0] == 0:
        return
    if index.is_cuda and not checks.on:
        torch._assert_async(((index >= 0) & (index < size)).all(), f"{op}(): an index is out of bounds for {size}")
        return
    smallest, largest = torch.aminmax(index)
    if smallest < 0 or largest >= size:
        entry = int(((index < 0) | (index >= size)).nonzero()[0])
        found = what.format(int(index[entry]))
        raise RuntimeError(f"{op}(): {found}, of entry {entry}, is out of bounds for a size of {size}")


def require_entries_in_bounds(op: str, indices: Tensor, sizes: tuple[int, ...]) -> None:
    for dim, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        require_in_bounds(op, f"index {{}} along dimension {dim}", index, size)


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
    def of(cls, matrix: Tensor, op: str) -> Entries:
        """
        Raises:
            RuntimeError: an entry lies outside the matrix; `op` is who says so.
        """
        entries = cls.unchecked(matrix, op)
        entries.check(op, matrix.shape)
        return entries

    @classmethod
    def unchecked(cls, matrix: Tensor, op: str) -> Entries:
        """The same for who calls `check` in time, or has another look at rows of `matrix` and their entries."""
        values = matrix._values() if matrix.layout == torch.sparse_coo else matrix.values()
        if matrix.layout == torch.sparse_coo:
            rows, columns = matrix._indices()
            bounds = None
            if matrix.is_coalesced():
                values = matrix.values()  # which has a gradient
                bounds = torch.searchsorted(rows.contiguous(), torch.arange(matrix.shape[0] + 1, device=rows.device))
        elif matrix.layout == torch.sparse_csr:
            columns, rows = matrix.col_indices().long(), None
            bounds = matrix.crow_indices().long()
        else:
            rows, bounds = matrix.row_indices().long(), None
            columns = lines(_checked(op, "ccol_indices", matrix.ccol_indices(), values.shape[0]), values.shape[0])
        if values.is_complex() and matrix.layout != torch.sparse_coo:
            values = values.clone()  # torch makes no view of what is a view into a compressed matrix
        return cls(columns, values, bounds, rows)

    def check(self, op: str, shape: torch.Size) -> None:
        if self.given_rows is None:
            _checked(op, "crow_indices", self.bounds, self.columns.shape[0])
        for name, index, size in (("column", self.columns, shape[1]), ("row", self.given_rows, shape[0])):
            if index is not None:
                require_in_bounds(op, f"{name} {{}}", index, size)

    @cached_property
    def rows(self) -> Tensor:
        """[nnz] int64."""
        return lines(self.bounds, self.columns.shape[0]) if self.given_rows is None else self.given_rows

    @property
    def targets(self) -> Tensor:
        """The rows; where `bounds` says them, something that need not be read."""
        return self.columns if self.given_rows is None else self.given_rows

    def counts(self, num_rows: int) -> Tensor:
        return torch.bincount(self.rows, minlength=num_rows) if self.bounds is None else self.bounds.diff()


def _checked(op: str, name: str, bounds: Tensor, count: int) -> Tensor:
    bounds = bounds.long()
    steps = bounds.diff()
    if bounds.is_cuda and not checks.on:
        rises = (bounds[0] == 0) & (bounds[-1] == count) & (steps >= 0).all()
        torch._assert_async(rises, f"{op}(): {name} must rise from 0 to {count}, the number of entries")
        return bounds
    if bounds[0] != 0 or bounds[-1] != count or bool((steps < 0).any()):
        falls = (steps < 0).nonzero().flatten()
        found = f"{int(bounds[0])} to {int(bounds[-1])}"
        if falls.numel():
            place = int(falls[0])
            found = f"{int(bounds[place])} and then {int(bounds[place + 1])}, at {place + 1}"
        raise RuntimeError(f"{op}(): {name} must rise from 0 to {count}, the number of entries; got {found}")
    return bounds


def lines(bounds: Tensor, num_entries: int) -> Tensor:
    """[num_entries]: the number of the line, row or column, of every entry."""
    numbers = torch.arange(bounds.shape[0] - 1, device=bounds.device)
    return torch.repeat_interleave(numbers, bounds.diff(), output_size=num_entries)


def is_matrix(tensor: Tensor, layouts: tuple[torch.layout, ...] = LAYOUTS) -> bool:
    return tensor.layout in layouts and tensor.dim() == 2 and tensor.dense_dim() == 0


def is_ours(matrix: Tensor, dense: Tensor, dtypes: tuple[torch.dtype, ...] = FLOATING + COMPLEX) -> bool:
    """Whether the product of a sparse and a dense matrix is one of ours; what torch refuses is none."""
    if not is_matrix(matrix) or dense.layout != torch.strided or dense.dim() != 2:
        return False
    return matrix.shape[1] == dense.shape[0] and _same_dtype_and_device(matrix, dense, dtypes)


def are_ours(left: Tensor, right: Tensor) -> bool:
    """Whether the product of two sparse matrices is."""
    layouts = (torch.sparse_coo,) if left.layout == torch.sparse_coo else LAYOUTS[1:]
    if not is_matrix(left, layouts) or not is_matrix(right, layouts) or left.shape[1] != right.shape[0]:
        return False
    return _same_dtype_and_device(left, right, FLOATING + COMPLEX)


def are_batches(batches: Tensor, dense: Tensor) -> bool:
    """Whether products of sparse and dense matrices, pair by pair, are."""
    if batches.layout != torch.sparse_coo or batches.sparse_dim() != 3 or batches.dense_dim() != 0:
        return False
    if dense.layout != torch.strided or dense.dim() != 3 or dense.shape[:2] != (batches.shape[0], batches.shape[2]):
        return False
    return _same_dtype_and_device(batches, dense, FLOATING + COMPLEX)


def _same_dtype_and_device(left: Tensor, right: Tensor, dtypes: tuple[torch.dtype, ...]) -> bool:
    return left.dtype == right.dtype and left.dtype in dtypes and left.device == right.device


def adds_to(base: Tensor, matrix: Tensor, dense: Tensor, *factors: complex) -> bool:
    """Whether the product can be added to `base`, and the dtype holds the factors of both."""
    if not is_ours(matrix, dense) or base.layout != torch.strided or base.dtype != dense.dtype:
        return False
    if not all(holds(base.dtype, factor) for factor in factors):
        return False
    return _broadcasts(base, matrix, dense)


def _broadcasts(base: Tensor, left: Tensor, right: Tensor) -> bool:
    pairs = zip(reversed(base.shape), (right.shape[1], left.shape[0]), strict=False)
    return base.dim() <= 2 and all(size in (1, wanted) for size, wanted in pairs)


def adds_product(base: Tensor, left: Tensor, right: Tensor, *factors: complex) -> bool:
    """Whether the product of two sparse matrices can be added to a dense `base`; torch has that for compressed ones."""
    if base.layout != torch.strided or left.layout == torch.sparse_coo or not are_ours(left, right):
        return False
    if (left.layout, right.layout) == (torch.sparse_csc, torch.sparse_csr):  # which torch refuses
        return False
    if base.dtype != left.dtype or not all(holds(base.dtype, factor) for factor in factors):
        return False
    return _broadcasts(base, left, right)


def holds(dtype: torch.dtype, factor: complex) -> bool:
    if isinstance(factor, complex):
        if not dtype.is_complex:
            return False
        return holds(dtype.to_real(), factor.real) and holds(dtype.to_real(), factor.imag)
    return abs(factor) <= torch.finfo(dtype).max or not math.isfinite(factor)


def coo(indices: Tensor, values: Tensor, shape: Sequence[int], is_coalesced: bool | None = None) -> Tensor:
    """torch.sparse_coo_tensor, on the device of its parts whatever the default device is, and unchecked."""
    return torch.sparse_coo_tensor(
        indices, values, shape, device=values.device, is_coalesced=is_coalesced, check_invariants=False
    )  # fmt: skip


def like(matrix: Tensor, values: Tensor) -> Tensor:
    """A sparse matrix with the entries of another, and other values."""
    if matrix.layout == torch.sparse_coo:
        return coo(matrix._indices(), values, matrix.shape, matrix.is_coalesced())
    if matrix.layout == torch.sparse_csr:
        lines, others = matrix.crow_indices(), matrix.col_indices()
    else:
        lines, others = matrix.ccol_indices(), matrix.row_indices()
    return torch.sparse_compressed_tensor(
        lines, others, values, matrix.shape, layout=matrix.layout, device=values.device, check_invariants=False
    )


def distinct(matrix: Tensor) -> Tensor:
    """A matrix with each index of another once, and values that mean nothing."""
    if matrix.layout != torch.sparse_coo or matrix.is_coalesced():
        return matrix
    sizes = tuple(matrix.shape)
    indices = unflat(torch.unique(flat(matrix._indices(), sizes)), sizes)
    return coo(indices, matrix._values().new_empty(indices.shape[1]), sizes, is_coalesced=True)
