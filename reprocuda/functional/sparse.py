"""Sparse tensors, called directly: duplicates added up, and products with dense matrices. Sums are exact."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from ..arguments.alpha import Number
from ..arguments.autocast import to_autocast_dtype
from ..arguments.signatures import typed
from ..arguments.transforms import needs_autograd
from ..sparse.duplicates import Coalesced, adds_up
from ..sparse.entries import COMPLEX, FLOATING, adds_to, is_ours
from ..sparse.gradients import AddedProduct, Product
from ..sparse.products import REDUCTIONS, SUMS, product, sum_with


def _outside_graphs(function: Callable) -> Callable:
    """`function`, kept from Dynamo where that has been imported: it fails at views into sparse tensors."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        from ..tracing import outside

        return outside.call(function, *args, **kwargs)

    return call


@typed
@_outside_graphs
def coalesce(input: Tensor) -> Tensor:
    """A sparse tensor in coordinates with its indices sorted, each there once: torch.Tensor.coalesce.

    Args:
        input: a sparse COO tensor of any dtype, with dense dimensions or without.

    Returns:
        `input` itself where it is coalesced already.

    Raises:
        RuntimeError: whatever torch.Tensor.coalesce raises; an index out of range, where torch writes astray.

    Determinism: exact: the values of equal indices are added up exactly and rounded once, in any order of the entries.
    A second derivative ends where torch's own does: at torch.sparse_coo_tensor, for the values it was given.

    Cost: a sort of the indices and a `segment_sum` of the values.

    Example:
        >>> import torch, reprocuda
        >>> entries = torch.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 4.0], (2,))
        >>> reprocuda.coalesce(entries).to_dense()
        tensor([2., 5.])
    """
    if input.layout != torch.sparse_coo or not adds_up(input):
        return input.coalesce()
    return Coalesced.apply(input)


@typed
@_outside_graphs
def sparse_mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """The product of a sparse and a dense matrix, or another reduction of each row's products: torch.sparse.mm.

    Args:
        mat1: [n, m] sparse, in coordinates (COO) or compressed (CSR, CSC), of a floating or complex dtype.
        mat2: [m, p] dense, of the same dtype.
        reduce: "sum"; "mean", "amax" or "amin" of real numbers, which torch has for CSR only.

    Returns:
        [n, p]; 0 where a row has no entries. What is not of these kinds is torch's.

    Raises:
        RuntimeError: whatever torch.sparse.mm raises; an entry whose row or column is out of range (on CUDA a device
            assert; see `check_indices`); a gradient of "amax" or "amin" for entries with equal indices.

    Determinism: exact: the sums of exact products, rounded once, in any order of the entries and with duplicates; a
    mean is divided by the number of entries before that. The largest and smallest are taken of rounded products.
    Gradients of `mat2` are such sums, those of entries exact sums over the columns, rounded and then divided where the
    result is a mean. No forward mode; second derivatives for COO, of which torch lacks a part for CSR. vmap goes
    through the batch of `mat2` one by one. Autocast makes operands of a sum narrow, as torch's; compiled code leaves
    its graph for one.

    Cost: that of an `embedding_bag` with weights; the largest and smallest take the memory of all products.

    Example:
        >>> import torch, reprocuda
        >>> matrix = torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse()
        >>> reprocuda.sparse_mm(matrix, torch.tensor([[1.0], [10.0]]))
        tensor([[20.],
                [43.]])
    """
    if reduce == "sum":
        mat1, mat2 = to_autocast_dtype(mat1, mat2)
    dtypes = FLOATING if reduce != "sum" else FLOATING + COMPLEX
    if reduce not in REDUCTIONS or not is_ours(mat1, mat2, dtypes):
        return torch.sparse.mm(mat1, mat2) if reduce == "sum" else torch.sparse.mm(mat1, mat2, reduce)
    if not needs_autograd(mat1, mat2):
        return product(mat1, mat2, reduce)[0]
    one_each = mat1.layout != torch.sparse_coo or mat1.is_coalesced()
    if reduce not in SUMS and mat1.requires_grad and not one_each:
        raise RuntimeError(
            f"sparse_mm(): {reduce} has no gradient for entries with equal indices; expected a coalesced mat1"
        )
    return Product.apply(mat1, mat2, reduce)[0]


@typed
@_outside_graphs
def sparse_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) for a sparse `mat1`, in one sum: torch.sparse.addmm.

    Args:
        input: what [n, p] may be broadcast from, dense.
        mat1, mat2: as for `sparse_mm`.
        beta: the factor of `input`, which is not read where it is 0.
        alpha: the factor of every entry of `mat1`, whose product with it is rounded first where it is not 1.

    Returns:
        [n, p].

    Raises:
        RuntimeError: whatever torch.sparse.addmm raises; an entry whose row or column is out of range; an `alpha` whose
            products with entries, and with `mat2` for float32 and float64, overflow.

    Determinism: exact, but for that rounding: products and `beta * input` are added up exactly and rounded once. Where
    an entry times alpha overflows, `mat2` is multiplied instead. Derivatives are those of `sparse_mm`; the gradient
    of a broadcast `input` is an exact sum.

    Cost: that of `sparse_mm`, a copy of `input` and `mat2`, and a sort of the rows.

    Example:
        >>> import torch, reprocuda
        >>> matrix = torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr()
        >>> reprocuda.sparse_addmm(torch.ones(2, 1), matrix, torch.tensor([[1.0], [10.0]]), beta=5)
        tensor([[25.],
                [48.]])
    """
    input, mat1, mat2 = to_autocast_dtype(input, mat1, mat2)
    if not adds_to(input, mat1, mat2, beta, alpha):
        return torch.sparse.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    if not (needs_autograd(input, mat1) or needs_autograd(mat2)):
        return sum_with(input, mat1, mat2, beta, alpha)
    return AddedProduct.apply(input, mat1, mat2, beta, alpha)
