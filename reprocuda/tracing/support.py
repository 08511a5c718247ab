"""What the fake kernels of every family share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.library import register_fake

from ..ops import by_dim, fragment


def _require_one_device(name: str, arguments: tuple) -> None:
    """A result with memory that nothing would be written into, because some argument has none. What is on the meta
    device itself has no values to get wrong: torch's own rules serve there.
    """
    tensors = [t for a in arguments for t in (a if isinstance(a, (list, tuple)) else (a,)) if isinstance(t, Tensor)]
    for tensor in tensors[1:]:
        if not tensors[0].is_meta and tensor.device != tensors[0].device:
            raise RuntimeError(
                f"{name}(): expected all tensors to be on the same device, but got {tensors[0].device} and "
                f"{tensor.device}"
            )


def fake(name: str, shape: Callable, *, writes: bool = False) -> None:
    """Registers the fake kernel of `name`. `shape` makes its result from the arguments; one that writes has none."""

    def kernel(*args, **kwargs):
        _require_one_device(name, args)
        result = shape(*args, **kwargs)
        return None if writes else result

    register_fake(f"reprocuda::{name}", kernel, lib=fragment)


def contiguous_like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def meta_index_put(self, indices, dims, values):
    if self.dtype != values.dtype:
        raise RuntimeError(f"index_put: values have dtype {values.dtype}, the tensor {self.dtype}")
    values.expand(torch.ops.aten.index(self, by_dim(indices, dims)).shape)
    return contiguous_like(self)
