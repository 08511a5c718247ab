"""Embedding bags, by torch's name and arguments."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import ops
from ..arguments.checks import checks
from ..arguments.irregular import torch_or_refuse
from ..arguments.signatures import typed
from ..arguments.transforms import needs_autograd, needs_operators
from ..families.bags import (
    MAX,
    MEAN,
    MODES,
    Bags,
    Largest,
    SparseRows,
    boundaries,
    gathered,
    make_bags,
    reduce,
    require_rows_in_table,
    unchecked_bags,
)
from ..families.lookup import renormalise

_INDICES = (torch.int32, torch.int64)
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _serves(input: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, factors: Tensor | None) -> bool:
    """Whether the arguments are such as torch takes; the errors for others are torch's."""
    if not (weight.is_cpu or weight.is_cuda) or weight.dim() != 2 or weight.dtype not in _DTYPES:
        return False
    if not isinstance(mode, str) or mode not in MODES:
        return False
    if input.dtype not in _INDICES or input.dim() not in (1, 2) or (offsets is None) != (input.dim() == 2):
        return False
    if offsets is not None and (offsets.dim() != 1 or offsets.dtype not in _INDICES):
        return False
    return factors is None or (mode == "sum" and factors.shape == input.shape and factors.dtype == weight.dtype)


@typed(leave=("norm_type", "mode"))
def embedding_bag(
    input: Tensor,  # [num_indices] with offsets, or [num_bags, bag_size]
    weight: Tensor,  # [num_embeddings, features]
    offsets: Tensor | None = None,  # [num_bags], or one more with include_last_offset
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,  # the shape of input
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of the rows of `weight` that the bags of `input` name: torch.nn.functional.embedding_bag.

    Args:
        input: int32 or int64; a vector cut into bags by `offsets`, or a matrix with a bag a row.
        weight: [num_embeddings, features], floating.
        offsets: where each bag begins: from 0, not decreasing. Only with a vector.
        max_norm: rows read whose norm is larger are scaled down to it first, in `weight` itself, once a call: by torch,
            whose norms are sums in an order of its own.
        norm_type: which norm.
        scale_grad_by_freq: divide a row's gradient by how often it was read, exactly and with one rounding.
        mode: "sum", "mean" or "max".
        sparse: the gradient of `weight` is a sparse tensor, coalesced; not for "max", nor in compiled code.
        per_sample_weights: the dtype of `weight`; what each row is multiplied by, exactly. Only for "sum".
        include_last_offset: `offsets` ends with the number of indices.
        padding_idx: a row that is left out of every bag and gets no gradient; negative: counted from the end.

    Returns:
        [num_bags, features]; an empty bag is zero.

    Raises:
        IndexError, RuntimeError, ValueError, TypeError: whatever torch's embedding_bag raises. An index out of range is
            a RuntimeError, with its position in `input` and its value; with `max_norm`, before any row is scaled.

    Determinism: exact, on the CPU and on CUDA. Of equal values in "max" the first in the bag gets the
    gradient, NaN is above every number and +0 above -0. The gradient of "mean" adds up grad / size, with 1 / size
    rounded once to float32 (float64). The gradient of `per_sample_weights` is an exact sum of products.

    Cost: one read of every row named, no copy of them; the gradient sorts the indices. With `max_norm` the indices are
        read once more before. On CUDA `padding_idx` and sparse gradients wait for the device.

    Example:
        >>> import torch, reprocuda
        >>> weight = torch.tensor([[1e8], [1.0], [-1e8]])
        >>> reprocuda.embedding_bag(torch.tensor([0, 1, 2, 1]), weight, torch.tensor([0, 3]), mode="sum")
        tensor([[1.],
                [1.]])
    """

    def native(table: Tensor) -> Tensor:
        return torch.nn.functional.embedding_bag(
            input, table, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights,
            include_last_offset, padding_idx,
        )  # fmt: skip

    num_rows = weight.shape[0] if weight.dim() else 0
    in_range = padding_idx is None or -num_rows <= padding_idx < num_rows
    refused = mode == "max" and (sparse or scale_grad_by_freq)  # by torch
    if refused or not in_range or not _serves(input, weight, offsets, mode, per_sample_weights):
        return native(weight)
    padding = -1 if padding_idx is None else padding_idx % num_rows
    if offsets is None:
        if input.shape[1] == 0:
            offsets = torch.zeros(input.shape[0] + 1, dtype=torch.long, device=input.device)
        else:
            offsets = torch.arange(0, input.numel() + 1, input.shape[1], device=input.device)
        include_last_offset = True
    indices = input.reshape(-1)
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if max_norm is not None:
        renormalise("embedding_bag", weight, indices, max_norm, norm_type, RuntimeError)
    if needs_operators("embedding_bag"):
        if sparse and weight.requires_grad and torch.is_grad_enabled():
            raise RuntimeError("embedding_bag(): sparse must be False in compiled code, which has no sparse gradients")
        values, _ = ops.embedding_bag(
            weight, indices, offsets, scale_grad_by_freq, MODES[mode], factors, include_last_offset, padding
        )
        return values
    if weight.is_cuda and checks.on:
        require_rows_in_table(indices, num_rows)
    differentiates = needs_autograd(weight, factors)
    if padding < 0 and offsets.shape[0] > 0 and (weight.is_cuda or not differentiates):
        bags = unchecked_bags(indices, offsets, include_last_offset)
    else:
        try:
            bags = make_bags(indices, offsets, include_last_offset, padding, num_rows)
        except ValueError as reason:
            return torch_or_refuse("embedding_bag", reason, native, weight)
    if not differentiates:
        try:
            return reduce(weight, bags, MODES[mode], factors)[0]
        except RuntimeError as error:
            if weight.is_cuda:
                raise
            try:
                boundaries(indices, offsets, include_last_offset)
            except ValueError as reason:  # by the offsets that the user gave, about which torch decides
                return torch_or_refuse("embedding_bag", reason, native, weight)
            raise error from None
    return _of_bags(weight, bags, MODES[mode], factors, scale_grad_by_freq, sparse)


def _of_bags(
    weight: Tensor, bags: Bags, mode: int, factors: Tensor | None, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    rows = bags.rows
    if sparse and weight.requires_grad and torch.is_grad_enabled():
        require_rows_in_table(rows, weight.shape[0])
        used, rows = torch.unique(rows, return_inverse=True)
        weight = SparseRows.apply(weight, used)
    if mode == MAX:
        return Largest.apply(weight, rows, bags.bounds)[0]
    if factors is not None:
        factors = bags.select(factors)
    num_bags = bags.bounds.shape[0] - 1
    return gathered(weight, factors, rows, bags.numbers, bags.bounds, num_bags, mode == MEAN, scale_grad_by_freq)
