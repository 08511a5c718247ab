"""The largest or smallest number aimed at each target, and where it comes from: what scatter_max and scatter_min are.

Its gradient goes to that one element. Where the position is the number of rows, nothing of `src` was taken.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .. import ops
from ..arguments.checks import check_on_device, checks
from ..arguments.transforms import is_legacy_batched, needs_autograd, needs_operators, transforms_active
from .routes import ElementRoute
from .sums import accumulate, below_autograd, gather, to_front


def _at_positions(positions: Tensor, dim: int, num_rows: int) -> tuple[ElementRoute, tuple[Tensor]]:
    return ElementRoute(dim), (positions.clamp(max=num_rows - 1),)


def spread(grad: Tensor, positions: Tensor, dim: int, num_rows: int) -> Tensor:
    """Every element of `grad` at its position among `num_rows`, zeros elsewhere."""
    shape = list(grad.shape)
    shape[dim] = num_rows
    zeros = grad.new_zeros(shape)
    if num_rows == 0:
        return zeros
    route, where = _at_positions(positions, dim, num_rows)
    values = grad.masked_fill(positions == num_rows, 0)
    if needs_autograd(values) or is_legacy_batched(values):
        return accumulate(route, zeros, values, where)
    with below_autograd():
        route.add_(zeros, values, where, 1)
    return zeros


def taken(src: Tensor, positions: Tensor, dim: int) -> Tensor:
    """The elements of `src` at these positions, zeros where nothing was taken; the transpose of `spread`."""
    num_rows = src.shape[dim]
    if num_rows == 0:
        return src.new_zeros(positions.shape)
    route, where = _at_positions(positions, dim, num_rows)
    return gather(route, src, where).masked_fill(positions == num_rows, 0)


def extremum(
    src: Tensor, dim: int, index: Tensor, dim_size: int, own: Tensor | None, largest: bool
) -> tuple[Tensor, Tensor]:
    """
    Args:
        index: in the shape of `src`.
        own: competes with the elements of `src`, and wins where it is equal; None: targets without any are 0.

    Returns:
        The numbers, and the smallest positions along `dim` that have them; the number of rows where `own` or 0 stands.
    """
    if checks.on and not needs_operators("scatter_max") and not transforms_active():
        check_on_device("scatter_max" if largest else "scatter_min", index, 0, dim_size)
    if needs_operators("scatter_max") or not needs_autograd(src, own):
        return ops.scatter_extremum(src, dim, index, dim_size, own, largest)
    return Extremum.apply(src, own, index, dim, dim_size, largest)


class Extremum(torch.autograd.Function):
    @staticmethod
    def forward(src, own, index, dim, dim_size, largest):
        with below_autograd():
            return ops.scatter_extremum(src, dim, index, dim_size, own, largest)

    @staticmethod
    def setup_context(ctx, inputs, output):
        src, _, _, ctx.dim, _, _ = inputs
        _, positions = output
        ctx.num_rows = src.shape[ctx.dim]
        ctx.mark_non_differentiable(positions)
        ctx.save_for_backward(positions)
        ctx.save_for_forward(positions)

    @staticmethod
    def backward(ctx, grad, _):
        (positions,) = ctx.saved_tensors
        src_grad = spread(grad, positions, ctx.dim, ctx.num_rows) if ctx.needs_input_grad[0] else None
        own_grad = grad.masked_fill(positions != ctx.num_rows, 0) if ctx.needs_input_grad[1] else None
        return src_grad, own_grad, None, None, None, None

    @staticmethod
    def jvp(ctx, src_tangent, own_tangent, *_):
        (positions,) = ctx.saved_tensors
        stands = positions == ctx.num_rows
        own = None if own_tangent is None else own_tangent.masked_fill(~stands, 0)
        if src_tangent is None:
            return own, None
        tangent = taken(src_tangent, positions, ctx.dim)
        return (tangent if own is None else torch.where(stands, own, tangent)), None

    @staticmethod
    def vmap(info, in_dims, src, own, index, dim, dim_size, largest):
        src, own, index = (
            to_front(tensor, where, info.batch_size)
            for tensor, where in zip((src, own, index), in_dims[:3], strict=True)
        )
        return extremum(src, dim + 1, index, dim_size, own, largest), (0, 0)
