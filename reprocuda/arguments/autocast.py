"""torch's autocast rules: for scatter_add and index_put of two floating types the wider, which torch itself has on CUDA
only; for products of matrices the narrow type of autocast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

_CAST_TYPES = (torch.float16, torch.bfloat16, torch.float32)


def _is_on(device: str) -> bool:
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def widest(base: Tensor, src: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the wider of their types, under autocast; as they are where autocast is off or has no say."""
    if base.dtype == src.dtype or not _is_on(base.device.type):
        return base, src
    if base.dtype not in _CAST_TYPES or src.dtype not in _CAST_TYPES:
        return base, src
    dtype = torch.promote_types(base.dtype, src.dtype)
    return base.to(dtype), src.to(dtype)


def to_autocast_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All in autocast's type, where it is on; float64, as torch has it, stays."""
    device = tensors[0].device.type
    if not _is_on(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) if t.is_floating_point() and t.dtype != torch.float64 else t for t in tensors)


def outside_autocast(function: Callable) -> Callable:
    """`function` of tensors, whose steps autocast leaves alone: it promotes what torch.cat is given, and refuses 16-bit
    types other than its own.
    """

    @functools.wraps(function)
    def call(first: Tensor, *others, **keywords):
        device = first.device.type
        if not _is_on(device):
            return function(first, *others, **keywords)
        with torch.autocast(device, enabled=False):
            return function(first, *others, **keywords)

    return call
