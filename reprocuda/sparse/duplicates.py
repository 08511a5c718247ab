"""Entries of sparse tensors with equal indices: added up, where they are and into dense tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import ops
from ..arguments.alpha import Alpha, split_alpha
from ..families.sums import below_autograd
from .entries import COMPLEX, FLOATING, coo, flat, holds, require_entries_in_bounds, unflat

DTYPES = (*FLOATING, *COMPLEX, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)


def adds_up(tensor: Tensor) -> bool:
    """Whether a COO tensor has entries that may have equal indices, of a dtype whose sums are ours."""
    values = tensor._values()
    return not tensor.is_coalesced() and tensor._nnz() > 1 and values.numel() > 0 and values.dtype in DTYPES


def coalesced(tensor: Tensor) -> Tensor:
    """A COO tensor with its indices in order and the values of equal ones added up."""
    indices, values = tensor._indices(), tensor._values()
    sizes = tuple(tensor.shape[: tensor.sparse_dim()])
    require_entries_in_bounds("coalesce", indices, sizes)
    used, place = torch.unique(flat(indices, sizes), return_inverse=True)
    permutation, offsets = ops.segment_plan(place, used.shape[0])
    sums = ops.segment_sum(values, permutation, offsets)
    return coo(unflat(used, sizes), sums, tensor.shape, is_coalesced=True)


def takes(base: Tensor, tensor: Tensor, alpha: Alpha) -> bool:
    """Whether alpha times a COO tensor can be added to a dense one; what torch refuses cannot."""
    if base.layout != torch.strided or tensor.layout != torch.sparse_coo or base.shape != tensor.shape:
        return False
    dtype = torch.result_type(base, tensor)
    if base.device != tensor.device or dtype not in DTYPES or not _fits(dtype, alpha):
        return False
    return tensor._values().numel() > 0


def _fits(dtype: torch.dtype, alpha: Alpha) -> bool:
    if dtype.is_floating_point or dtype.is_complex:
        return holds(dtype, alpha)
    return alpha == 1 or (type(alpha) is int and dtype != torch.bool)


def added(base: Tensor, tensor: Tensor, alpha: Alpha) -> Tensor:
    """base + alpha * tensor, every place one sum, in the dtype that torch promotes both to."""
    base = base.to(torch.result_type(base, tensor))
    rows, where, values = _by_place(base, tensor)
    return ops.index_add(rows, 0, where, values, *split_alpha(alpha, base.dtype)).view(base.shape)


def add_(base: Tensor, tensor: Tensor, alpha: Alpha) -> Tensor:
    """`added`, written into `base`."""
    is_read = base.untyped_storage().data_ptr() == tensor._values().untyped_storage().data_ptr()
    if is_read or base.dtype != torch.result_type(base, tensor) or not base.is_contiguous():
        return base.copy_(added(base, tensor, alpha))
    rows, where, values = _by_place(base, tensor)
    ops.index_add_(rows, 0, where, values, *split_alpha(alpha, base.dtype))
    return base


def _by_place(base: Tensor, tensor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """base as [places, features], and which of these rows each of the [entries, features] values belongs to."""
    indices, sizes = tensor._indices(), tuple(tensor.shape[: tensor.sparse_dim()])
    require_entries_in_bounds("add", indices, sizes)
    features = math.prod(tensor.shape[tensor.sparse_dim() :])
    values = tensor._values().to(base.dtype).reshape(indices.shape[1], features)
    return base.reshape(math.prod(sizes), features), flat(indices, sizes), values


class Coalesced(torch.autograd.Function):
    """`coalesced`; every gradient of a sum is that of its members."""

    @staticmethod
    def forward(tensor):
        with below_autograd():
            return coalesced(tensor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad
