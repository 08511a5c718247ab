"""Derivatives of products of sparse matrices. A gradient of entries is a sum of products over columns, one an entry."""

from __future__ import annotations

import torch
from torch import Tensor

from ..arguments.alpha import conjugate
from ..families.bags import divided_by_size, gathered, op_math
from ..families.routes import RowRoute
from ..families.sums import EachAlone, accumulate, below_autograd
from .duplicates import Coalesced
from .entries import Entries, distinct, like
from .products import SUMS, product, row_products, sum_with, weighted_sum


def gradients(
    matrix: Tensor, grad: Tensor, dense: Tensor, reduce: str, chosen: Tensor, wants_matrix: bool, wants_dense: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Of a `product`: with respect to the sparse matrix, in its own layout, and to the dense one.

    Of entries with equal indices the first gradient is one: that of their sum.
    """
    entries = Entries.of(matrix, "sparse_mm")
    if reduce not in SUMS:
        of_values, of_dense = _gradients_of_chosen(entries, grad, dense, chosen, wants_matrix, wants_dense)
        return (like(matrix, of_values) if wants_matrix else None), of_dense
    weights, of_matrix = entries.values, None
    counts = entries.counts(matrix.shape[0]) if reduce == "mean" else None
    if wants_matrix:
        pattern = distinct(matrix)
        places = Entries.of(pattern, "sparse_mm")
        of_values = row_products(grad, places.rows, dense, places.columns)
        if counts is not None:
            divided = of_values.to(op_math(grad.dtype)) / counts[places.rows]  # 16-bit formats hold few counts
            of_values = divided.to(grad.dtype)
        of_matrix = like(pattern, of_values)
    if not wants_dense:
        return of_matrix, None
    if counts is not None:
        weights = divided_by_size(weights, counts, entries.rows, grad.dtype)
    return of_matrix, weighted_sum(grad, weights.conj(), entries.rows, entries.columns, None, dense.shape[0])


def _gradients_of_chosen(
    entries: Entries, grad: Tensor, dense: Tensor, chosen: Tensor, wants_values: bool, wants_dense: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Each element goes to the one entry that it is a product of; the sums of these products are exact: as weights,
    times rows of one column.
    """
    if entries.values.shape[0] == 0:  # of which torch's `chosen` says nothing
        return entries.values, torch.zeros_like(dense)
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


class Product(EachAlone):
    """`product`, with its derivatives."""

    @staticmethod
    def forward(matrix, dense, reduce):
        with below_autograd():
            return product(matrix, dense, reduce)

    @staticmethod
    def setup_context(ctx, inputs, output):
        matrix, dense, ctx.reduce = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(matrix, dense, output[1])

    @staticmethod
    def backward(ctx, grad, _):
        matrix, dense, chosen = ctx.saved_tensors
        matrix = _differentiable(matrix)
        wants_matrix, wants_dense, _ = ctx.needs_input_grad
        return *gradients(matrix, grad, dense, ctx.reduce, chosen, wants_matrix, wants_dense), None


class AddedProduct(EachAlone):
    """`sum_with`, with its derivatives."""

    @staticmethod
    def forward(base, matrix, dense, beta, alpha):
        with below_autograd():
            return sum_with(base, matrix, dense, beta, alpha)

    @staticmethod
    def setup_context(ctx, inputs, output):
        base, matrix, dense, ctx.beta, ctx.alpha = inputs
        ctx.base_shape = base.shape
        ctx.save_for_backward(matrix, dense)

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
    sums = accumulate(RowRoute(0), grad.new_zeros(size), grad.reshape(-1), (places.reshape(-1),), factor)
    return sums.view(shape)
