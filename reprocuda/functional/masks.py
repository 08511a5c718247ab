"""Writes by a mask, which knows no order: torch's own, but for the gradient of what the mask broadcasts."""

from __future__ import annotations

import torch
from torch import Tensor

from ..arguments.irregular import refuse_own_overlap
from ..arguments.signatures import typed
from .reading import expand_with_exact_gradient


@typed
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with the elements of `source`, one after the other, where `mask` is True: torch.masked_scatter.

    Args:
        input: the target, of any dtype.
        mask: bool; it and `input` are broadcast together.
        source: the dtype of `input`, of any shape, with as many elements as the mask is True at least.

    Returns:
        A tensor of the broadcast shape.

    Raises:
        RuntimeError: whatever torch.masked_scatter raises.

    Determinism: exact. The gradient of an `input` that the mask broadcasts is the exact sum over its copies; that of
    `source` is a copy.

    Cost: torch's own.

    Example:
        >>> import torch, reprocuda
        >>> mask = torch.tensor([[True, False], [False, True]])
        >>> reprocuda.masked_scatter(torch.zeros(2, 2), mask, torch.tensor([5.0, 6.0]))
        tensor([[5., 0.],
                [0., 6.]])
    """
    if _is_broadcast_and_may_have_gradient(input, mask):
        try:
            shape = torch.broadcast_shapes(input.shape, mask.shape)
        except RuntimeError:
            return torch.masked_scatter(input, mask, source)  # which says so
        input = expand_with_exact_gradient(input, shape)
    return torch.masked_scatter(input, mask, source)


@typed
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`masked_scatter` written into `input`, which is returned: torch.Tensor.masked_scatter_.

    Arguments, errors and determinism are those of `masked_scatter`, but `input` is not broadcast, and may not overlap
    itself.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.masked_scatter_(torch.zeros(3), torch.tensor([False, True, True]), torch.tensor([5.0, 6.0]))
        tensor([0., 5., 6.])
    """
    refuse_own_overlap("masked_scatter_", input)
    return input.masked_scatter_(mask, source)


def _is_broadcast_and_may_have_gradient(input: Tensor, mask: Tensor) -> bool:
    if mask.dtype != torch.bool:
        return False
    wider = mask.dim() > input.dim() or any(
        own == 1 != other for own, other in zip(reversed(input.shape), reversed(mask.shape), strict=False)
    )
    return wider and (input.is_floating_point() or input.is_complex())
