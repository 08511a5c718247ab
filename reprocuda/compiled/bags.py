"""Shapes and derivatives of embedding bags."""

from __future__ import annotations

import torch
from torch.library import register_autograd

from .. import bags, ops
from ..ops import fragment
from .support import fake


def _num_bags(offsets, include_last_offset):
    return offsets.shape[0] - (1 if include_last_offset else 0)


def _meta_gather_segment_sum(table, rows, offsets, weights, mean, ignored=-1):
    return table.new_empty(offsets.shape[0] - 1, table.shape[1])


def _meta_gather_segment_max(table, rows, offsets):
    shape = offsets.shape[0] - 1, table.shape[1]
    return table.new_empty(shape), rows.new_empty(shape)


def _meta_gather_row_products(left, left_rows, right, right_rows, ignored=-1):
    return left.new_empty(left_rows.shape[0])


def _meta_embedding_bag(
    weight, indices, offsets, scale_grad_by_freq, mode, per_sample_weights, include_last_offset, padding_idx
):
    shape = _num_bags(offsets, include_last_offset), weight.shape[1]
    return weight.new_empty(shape), indices.new_empty(shape if mode == bags.MAX else 0, dtype=torch.long)


def _meta_embedding_bag_backward(
    grad, argmax, weight, indices, offsets, scale_grad_by_freq, mode, per_sample_weights, include_last_offset,
    padding_idx,
):
    weights = grad.new_empty(0) if per_sample_weights is None else torch.empty_like(per_sample_weights)
    return weight.new_empty(weight.shape), weights


fake("gather_segment_sum", _meta_gather_segment_sum)
fake("gather_segment_max", _meta_gather_segment_max)
fake("gather_row_products", _meta_gather_row_products)
fake("embedding_bag", _meta_embedding_bag)
fake("embedding_bag_backward", _meta_embedding_bag_backward)


def _setup(ctx, inputs, output):
    weight, indices, offsets, ctx.scale, ctx.mode, weights, ctx.last, ctx.padding = inputs
    _, argmax = output
    ctx.mark_non_differentiable(argmax)
    ctx.save_for_backward(weight, indices, offsets, weights, argmax)


def _backward(ctx, grad, _):
    weight, indices, offsets, weights, argmax = ctx.saved_tensors
    table_grad, weights_grad = ops.embedding_bag_backward(
        grad, argmax, weight, indices, offsets, ctx.scale, ctx.mode, weights, ctx.last, ctx.padding
    )
    return table_grad, None, None, None, None, None if weights is None else weights_grad, None, None


register_autograd("reprocuda::embedding_bag", _backward, setup_context=_setup, lib=fragment)
