"""What the functions of this package share: how an index is aligned with its source, and how large a result is."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import torch
from torch import Tensor

from ..arguments.irregular import overlaps_itself
from ..arguments.transforms import transforms_active
from ..functional import reading
from ..plan import has_data

_INDEX_DTYPES = (torch.int32, torch.int64)
_OUT_OF_BOUNDS = re.compile(r"index -?\d+ is out of bounds for ((?:dimension \d+ with )?size (\d+))")


def restated(op: str, index: Tensor, error: Exception, where: str = "", size: int = 0) -> Exception:
    """An index out of range, found by whatever operator `op` is made of, as `op` reports it: at the position in the
    index that the user gave. Other errors are returned as they are.

    Args:
        where, size: which dimension, and how large it is, where the message does not say it.
    """
    found = _OUT_OF_BOUNDS.search(str(error))
    if found:
        where, size = found[1], int(found[2])
    elif not where:
        return error
    bad = ((index < 0) | (index >= size)).flatten()
    if not bool(bad.any()):
        return error
    position = int(bad.to(torch.uint8).argmax())
    kind = IndexError if isinstance(error, IndexError) else RuntimeError
    value = int(index.flatten()[position])
    return kind(f"{op}(): index {value} is out of bounds for {where}, at position {position}")


def reports_index(function: Callable) -> Callable:
    """`function`, which reports an index out of range under its own name."""

    @functools.wraps(function)
    def reporting(src, index, *args, **kwargs):
        if torch.compiler.is_compiling():
            return function(src, index, *args, **kwargs)
        try:
            return function(src, index, *args, **kwargs)
        except (IndexError, RuntimeError) as error:
            raise restated(function.__name__, index, error) from None

    return reporting


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
    fits = len(shape) == src.dim() and all(
        size == 1 or size == full for size, full in zip(shape, src.shape, strict=True)
    )
    if not fits:
        raise RuntimeError(
            f"{op}(): an index of shape {list(index.shape)} cannot be broadcast to src of shape {list(src.shape)} "
            f"along dimension {dim}"
        )
    return index.reshape(shape).expand(src.shape)


def broadcast_index(src: Tensor, other: Tensor, dim: int) -> Tensor:
    """An index, `src`, in the shape of `other`, along whose dimension `dim` it runs: torch_scatter.utils.broadcast."""
    return broadcast("broadcast", src, other, check_dim("broadcast", dim, other.dim()))


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
    if has_data(out) and not transforms_active() and overlaps_itself(out):
        raise RuntimeError(f"{op}(): out overlaps itself; expected elements that share no memory")


def last_dim(op: str, name: str, index: Tensor, src: Tensor) -> int:
    """Along which dimension of `src` an index or pointers of its leading dimensions run."""
    if not 1 <= index.dim() <= src.dim():
        raise RuntimeError(f"{op}(): {name} must have 1 to {src.dim()} dimensions, as src has, got {index.dim()}")
    return index.dim() - 1


def write_or_return(op: str, result: Tensor, src: Tensor, dim: int, out: Tensor | None) -> Tensor:
    """The result, in `out` where there is one."""
    if out is None:
        return result.contiguous()
    check_out(op, out, src, dim, result.shape[dim])
    return out.copy_(result)


def gathered(op: str, src: Tensor, index: Tensor, dim: int, out: Tensor | None) -> Tensor:
    """The elements of `src` that an index of its leading dimensions names along `dim`."""
    if index.numel() == index.shape[-1]:
        return write_or_return(op, reading.index_select(src, dim, index.reshape(-1)), src, dim, out)
    shape = [*src.shape[:dim], index.shape[-1], *src.shape[dim + 1 :]]
    index = index.reshape(list(index.shape) + [1] * (src.dim() - index.dim())).expand(shape)
    return write_or_return(op, reading.gather(src, dim, index), src, dim, out)


def named(op: str, functions: dict[str, Callable], reduce: str) -> Callable:
    """The function of that name."""
    if reduce not in functions:
        raise ValueError(f"{op}(): reduce must be one of {', '.join(functions)}, got {reduce!r}")
    return functions[reduce]


def values(function: Callable) -> Callable:
    """`function` without the positions that it returns."""
    return lambda *arguments: function(*arguments)[0]
