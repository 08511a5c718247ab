"""What the kernels of every family share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..irregular import refuse_overlap, write_resized

ERRORS = (ValueError, RuntimeError)


def size_along(tensor: Tensor, dim: int) -> int:
    return tensor.shape[dim] if tensor.dim() else 1


def writes_through(functional: Callable) -> Callable:
    """For out=: the result of the functional overload, written into an `out` that torch would resize or copy into."""

    def repair(self, *args, out, **kwargs):
        if out.dtype != self.dtype or out.device != self.device or torch._debug_has_internal_overlap(out) == 1:
            return NotImplemented
        refuse_overlap(out, self, *(argument for argument in args if isinstance(argument, Tensor)))
        result = functional(self, *args, **kwargs)
        return write_resized(out, result)

    return repair
