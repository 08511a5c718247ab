"""What the functions of this package share: how an index is aligned with its source, and how large a result is."""

from __future__ import annotations

import torch
from torch import Tensor

_INDEX_DTYPES = (torch.int32, torch.int64)


def check_index(op: str, name: str, index: Tensor, src: Tensor) -> None:
    if src.dim() == 0:
        raise RuntimeError(f"{op}(): src must have at least one dimension")
    if index.dtype not in _INDEX_DTYPES:
        raise RuntimeError(f"{op}(): {name} must be int32 or int64, got {index.dtype}")
    if index.device != src.device:
        raise RuntimeError(f"{op}(): src is on {src.device}, {name} on {index.device}")


def check_dim(op: str, dim: int, ndim: int) -> int:
    """A dimension counted from the front."""
    if not -ndim <= dim < ndim:
        raise IndexError(f"{op}(): dim must be in [{-ndim}, {ndim - 1}], got {dim}")
    return dim % ndim


def broadcast(op: str, index: Tensor, src: Tensor, dim: int) -> Tensor:
    """`index` in the shape of `src`, which takes no memory: a vector runs along `dim`, what has fewer dimensions than
    `src` is repeated along those behind.
    """
    shape = [1] * dim + list(index.shape) if index.dim() == 1 else list(index.shape)
    shape += [1] * (src.dim() - len(shape))
    fits = len(shape) == src.dim() and all(size in (1, full) for size, full in zip(shape, src.shape, strict=True))
    if not fits:
        raise RuntimeError(
            f"{op}(): an index of shape {list(index.shape)} cannot be broadcast to src of shape {list(src.shape)} "
            f"along dimension {dim}"
        )
    return index.reshape(shape).expand(src.shape)


def align(op: str, src: Tensor, index: Tensor, dim: int) -> tuple[Tensor, int]:
    """The index in the shape of src, and the dimension counted from the front."""
    check_index(op, "index", index, src)
    dim = check_dim(op, dim, src.dim())
    return broadcast(op, index, src, dim), dim


def size_of_result(op: str, index: Tensor, dim_size: int | None) -> int:
    """How many targets there are; read off the index, which waits for the device, where it is not given."""
    if dim_size is None:
        return int(index.max()) + 1 if index.numel() else 0
    if dim_size < 0:
        raise RuntimeError(f"{op}(): dim_size must not be negative, got {dim_size}")
    return dim_size


def result_shape(src: Tensor, dim: int, size: int) -> list[int]:
    return [size if d == dim else full for d, full in enumerate(src.shape)]


def check_out(op: str, out: Tensor, src: Tensor, dim: int, size: int | None = None) -> None:
    """Whether `out` can take the result; `size` along `dim`, or any."""
    if out.dtype != src.dtype or out.device != src.device:
        raise RuntimeError(
            f"{op}(): out must have the dtype and device of src, {src.dtype} on {src.device}, got {out.dtype} on "
            f"{out.device}"
        )
    fits = out.dim() == src.dim() and out.shape == torch.Size(result_shape(src, dim, out.shape[dim]))
    if not fits or (size is not None and out.shape[dim] != size):
        wanted = [str(full) for full in result_shape(src, dim, -1)]
        wanted[dim] = "any size" if size is None else str(size)
        raise RuntimeError(f"{op}(): out must have shape [{', '.join(wanted)}], got {list(out.shape)}")
