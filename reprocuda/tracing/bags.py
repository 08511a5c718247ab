"""Embedding bags in compiled code: kernels made of the compiled operators, shapes and derivatives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import register_autograd

from .. import ops
from ..families import bags
from ..ops import fragment
from .support import fake


def _num_bags(offsets, include_last_offset):
    return offsets.shape[0] - (1 if include_last_offset else 0)


def _meta_gather_segment_sum(table, rows, offsets, weights, mean):
    return table.new_empty(offsets.shape[0] - 1, table.shape[1])


def _meta_gather_segment_max(table, rows, offsets):
    shape = offsets.shape[0] - 1, table.shape[1]
    return table.new_empty(shape), rows.new_empty(shape)


def _meta_gather_segment_max_backward(grad, argmax, num_rows):
    return grad.new_empty(num_rows, grad.shape[1])


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
fake("gather_segment_max_backward", _meta_gather_segment_max_backward)
fake("gather_row_products", _meta_gather_row_products)
fake("embedding_bag", _meta_embedding_bag)
fake("embedding_bag_backward", _meta_embedding_bag_backward)


def _forward(
    weight, indices, offsets, scale_grad_by_freq, mode, per_sample_weights, include_last_offset, padding_idx
) -> tuple[Tensor, Tensor]:
    made = bags.make_bags(indices, offsets, include_last_offset, padding_idx, weight.shape[0])
    values, argmax = bags.reduce(weight, made, mode, per_sample_weights)
    return values, indices.new_empty(0, dtype=torch.long) if argmax is None else argmax


def _gradients(
    grad, argmax, weight, indices, offsets, scale_grad_by_freq, mode, per_sample_weights, include_last_offset,
    padding_idx,
) -> tuple[Tensor, Tensor]:
    """The gradients of the table and of the weights; of these an empty one if there are none."""
    made = bags.make_bags(indices, offsets, include_last_offset, padding_idx, weight.shape[0])
    none = grad.new_empty(0)
    if mode == bags.MAX:
        return bags.spread_maximum(grad, argmax, made.sizes, weight.shape[0]), none
    numbers = made.numbers
    factors = None if per_sample_weights is None else made.select(per_sample_weights)
    table_grad = bags.table_gradient(
        grad, made.rows, numbers, made.sizes, mode, factors, weight.shape[0], scale_grad_by_freq
    )
    if per_sample_weights is None:
        return table_grad, none
    products = ops.gather_row_products(grad, numbers, weight, made.rows)
    if made.kept is None:
        return table_grad, products
    return table_grad, torch.zeros_like(per_sample_weights).masked_scatter(made.kept, products)


fragment.impl("embedding_bag", _forward, "CompositeExplicitAutograd")
fragment.impl("embedding_bag_backward", _gradients, "CompositeExplicitAutograd")


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
