"""What replaces aten's embedding bags, and the sparse gradients of tables, which come coalesced."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ... import ops
from ...families.bags import (
    MAX,
    coalesced,
    make_bags,
    reduce,
    sparse_gradient,
    spread_maximum,
    table_gradient,
    unchecked_bags,
    without_padding,
)
from ..overrides import Override, Slot
from .support import ERRORS

_AUTOGRAD = {"cpu": "AutogradCPU"}  # a composite in torch, whose parts autograd has to see while ours is off


def _is_irregular(weight: Tensor, indices: Tensor, offsets: Tensor, mode: int, weights: Tensor | None) -> bool:
    if indices.dim() != 1 or offsets.dim() != 1 or not 0 <= mode <= MAX or weight.dim() != 2 or offsets.shape[0] == 0:
        return True
    wanted = (torch.int32, torch.int64)
    if indices.dtype not in wanted or offsets.dtype not in wanted:
        return True
    return weights is not None and (mode != 0 or weights.dtype != weight.dtype or weights.shape != indices.shape)


def _embedding_bag(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys
    for_backward = slot.override.overload == "_embedding_bag"

    def kernel(
        weight,
        indices,
        offsets,
        scale_grad_by_freq=False,
        mode=0,
        sparse=False,
        per_sample_weights=None,
        include_last_offset=False,
        padding_idx=-1,
    ):
        rest = scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
        try:
            if not switch.on or _is_irregular(weight, indices, offsets, mode, per_sample_weights):
                return slot.native(keys, weight, indices, offsets, *rest)
            bags = make_bags(indices, offsets, include_last_offset, padding_idx, weight.shape[0])
            values, argmax = reduce(weight, bags, mode, per_sample_weights)
            dtype = torch.promote_types(indices.dtype, offsets.dtype)
            none = indices.new_empty(0, dtype=dtype)
            if not for_backward:
                return values, none, bags.sizes.to(dtype), none if argmax is None else argmax.to(dtype)
            every = bags if bags.kept is None else unchecked_bags(indices, offsets, include_last_offset)
            return values, every.numbers.to(dtype), bags.sizes.to(dtype), none if argmax is None else argmax.to(dtype)
        except ERRORS as error:
            return slot.failed(error, weight, indices, offsets, *rest)

    return kernel


def _dense_backward(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(
        grad,
        indices,
        offset2bag,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights=None,
        padding_idx=-1,
    ):
        rest = (
            indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
            padding_idx,
        )  # fmt: skip
        try:
            if not switch.on or grad.dim() != 2 or indices.shape != offset2bag.shape:
                return slot.native(keys, grad, *rest)
            if mode == MAX:
                return spread_maximum(grad, maximum_indices, bag_size, num_weights)
            rows, bags, weights = without_padding(padding_idx, indices.long(), offset2bag.long(), per_sample_weights)
            return table_gradient(grad, rows, bags, bag_size, mode, weights, num_weights, scale_grad_by_freq)
        except ERRORS as error:
            return slot.failed(error, grad, *rest)

    return kernel


def _weights_backward(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
        try:
            if not switch.on or mode != 0 or grad.dim() != 2 or indices.shape != offset2bag.shape:
                return slot.native(keys, grad, weight, indices, offsets, offset2bag, mode, padding_idx)
            return ops.gather_row_products(grad, offset2bag.long(), weight, indices.long(), padding_idx)
        except ERRORS as error:
            return slot.failed(error, grad, weight, indices, offsets, offset2bag, mode, padding_idx)

    return kernel


def _sparse_bag_backward(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(
        grad,
        indices,
        offsets,
        offset2bag,
        bag_size,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights=None,
        padding_idx=-1,
    ):
        rest = (
            indices, offsets, offset2bag, bag_size, num_weights, scale_grad_by_freq, mode, per_sample_weights,
            padding_idx,
        )  # fmt: skip
        try:
            if not switch.on or scale_grad_by_freq:
                return slot.native(keys, grad, *rest)
            rows, bags, weights = without_padding(padding_idx, indices.long(), offset2bag.long(), per_sample_weights)
            used, place = torch.unique(rows, return_inverse=True)
            values = table_gradient(grad, place, bags, bag_size, mode, weights, used.shape[0], by_count=False)
            return coalesced(used, values, torch.Size((num_weights, grad.shape[1])))
        except ERRORS as error:
            return slot.failed(error, grad, *rest)

    return kernel


def _sparse_backward(slot: Slot) -> Callable:
    switch, keys = slot.switch, slot.keys

    def kernel(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
        try:
            wants_graph = torch.is_grad_enabled() and grad.requires_grad
            if not switch.on or scale_grad_by_freq or grad.dim() < 2 or wants_graph:
                return slot.native(keys, grad, indices, num_weights, padding_idx, scale_grad_by_freq)
            return sparse_gradient(grad, indices, num_weights, padding_idx)
        except ERRORS as error:
            return slot.failed(error, grad, indices, num_weights, padding_idx, scale_grad_by_freq)

    return kernel


EMBEDDING_BAG = (
    Override("_embedding_bag", ops.gather_segment_sum, _embedding_bag),
    Override("_embedding_bag_forward_only", ops.gather_segment_sum, _embedding_bag),
    Override("_embedding_bag_dense_backward", ops.gather_segment_sum, _dense_backward),
    Override("_embedding_bag_per_sample_weights_backward", ops.gather_row_products, _weights_backward),
    Override("_embedding_bag_sparse_backward", ops.gather_segment_sum, _sparse_bag_backward),
)
SPARSE_EMBEDDING = (
    Override("embedding_sparse_backward", ops.embedding_dense_backward, _sparse_backward, keys=_AUTOGRAD),
)
