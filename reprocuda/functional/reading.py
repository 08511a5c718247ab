"""Reading by index: gather, index_select, take_along_dim, w[i] and embedding, whose gradients are sums by index.

What is read is read by torch's own kernels, which add nothing; the gradient is ours, and exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import ops
from ..arguments.signatures import typed
from ..arguments.transforms import needs_operators
from ..families import sums
from ..families.bags import SparseLookup
from ..families.lookup import LookupRoute, renormalise, without_padding
from ..families.points import PointRoute, normalize_indices, on_device_of
from ..families.routes import ElementRoute, PlanRoute, RowRoute
from ..plan import SegmentPlan
from .support import read_out, wrap_dim


@typed
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """The elements of `input` that `index` names along `dim`: torch.gather, with an exact gradient.

    Args:
        input: any dtype.
        dim: the dimension along which elements are picked.
        index: int32 or int64, with as many dimensions as `input`.
        sparse_grad: torch's own sparse gradient, which adds nothing up.
        out: where to write the result; torch allows it only where no gradient is wanted.

    Returns:
        A tensor of the shape of `index`.

    Raises:
        RuntimeError: whatever torch.gather raises.

    Determinism: exact. The gradient is `scatter_add`.

    Cost: torch's own; the gradient costs what `scatter_add` costs.

    Example:
        >>> import torch, reprocuda
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> reprocuda.gather(x, 0, torch.tensor([1, 1, 0])).sum().backward()
        >>> x.grad
        tensor([1., 2.])
    """
    if out is not None:
        def native(out: Tensor) -> Tensor:
            return torch.gather(input, dim, index, sparse_grad=sparse_grad, out=out)

        return read_out(native, out, index.shape, input, index)
    if sparse_grad or index.dtype not in (torch.int32, torch.int64):
        return torch.gather(input, dim, index, sparse_grad=sparse_grad)
    if needs_operators("gather"):
        return ops.gather(input, dim, index)
    return sums.gather(ElementRoute(wrap_dim(dim, input.dim())), input, (index,))


@typed
def index_select(input: Tensor, dim: int, index: Tensor | SegmentPlan, *, out: Tensor | None = None) -> Tensor:
    """The rows of `input` that `index` names along `dim`: torch.index_select, with an exact gradient.

    Args:
        input: any dtype.
        dim: the dimension along which rows are picked.
        index: int32 or int64 vector, or a SegmentPlan made from one, which spares the gradient its sort.
        out: where to write the result; torch allows it only where no gradient is wanted.

    Returns:
        `input` with size num_rows along `dim`.

    Raises:
        IndexError, RuntimeError: whatever torch.index_select raises.

    Determinism: exact. The gradient is `index_add`.

    Cost: torch's own; the gradient costs what `index_add` costs.

    Example:
        >>> import torch, reprocuda
        >>> plan = reprocuda.SegmentPlan.from_index(torch.tensor([2, 0, 2]), 3)
        >>> x = torch.zeros(3, requires_grad=True)
        >>> reprocuda.index_select(x, 0, plan).sum().backward()
        >>> x.grad
        tensor([1., 0., 2.])
    """
    planned = isinstance(index, SegmentPlan)
    if out is not None:
        rows = index.targets if planned else index
        shape = list(input.shape)
        if -len(shape) <= dim < len(shape):
            shape[dim] = rows.numel()
        return read_out(lambda out: torch.index_select(input, dim, rows, out=out), out, shape, input, rows)
    if needs_operators("index_select"):
        return ops.index_select(input, dim, index.targets if planned else index)
    dim = wrap_dim(dim, input.dim())
    return (
        sums.gather(PlanRoute(index, dim), input, ())
        if planned
        else sums.gather(RowRoute(dim), input, (index,))
    )


@typed
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The elements of `input` at `indices` along `dim`, the other dimensions broadcast: torch.take_along_dim.

    Args:
        input: any dtype.
        indices: int64.
        dim: the dimension along which elements are picked; None: both are flattened.
        out: where to write the result; torch allows it only where no gradient is wanted.

    Returns:
        A tensor of the broadcast shape, with indices' own size along `dim`.

    Raises:
        RuntimeError: whatever torch.take_along_dim raises.

    Determinism: exact. The gradient is `scatter_add`.

    Cost: torch's own; the gradient costs what `scatter_add` costs.

    Example:
        >>> import torch, reprocuda
        >>> x = torch.tensor([[3.0, 1.0, 2.0]])
        >>> reprocuda.take_along_dim(x, x.argsort(dim=1), dim=1)
        tensor([[1., 2., 3.]])
    """
    irregular = dim is not None and (input.dim() != indices.dim() or not -input.dim() <= dim < max(input.dim(), 1))
    if irregular or indices.dtype != torch.int64 or indices.device != input.device:
        return torch.take_along_dim(input, indices, dim, out=out)
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1), out=out)
    dim = wrap_dim(dim, input.dim())
    shape = list(torch.broadcast_shapes(*[[*t.shape[:dim], 1, *t.shape[dim + 1 :]] for t in (input, indices)]))
    shape[dim] = indices.shape[dim]
    if out is not None:
        return read_out(lambda out: torch.take_along_dim(input, indices, dim, out=out), out, shape, input, indices)
    if all(d == dim or have == want for d, (have, want) in enumerate(zip(input.shape, shape, strict=True))):
        return gather(input, dim, indices.expand(shape))
    return index(input, [indices if d == dim else _own_position(input, d, shape) for d in range(input.dim())])


@typed
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of `input`, seen as a vector, that `index` names: torch.take, with an exact gradient.

    Args:
        input: any dtype.
        index: int64 of any shape; negative entries count from the end.
        out: where to write the result; torch allows it only where no gradient is wanted.

    Returns:
        A tensor of the shape of `index`.

    Raises:
        IndexError, RuntimeError: whatever torch.take raises.

    Determinism: exact. The gradient is `put` with accumulate=True.

    Cost: torch's own; the gradient costs what `index_put` costs.

    Example:
        >>> import torch, reprocuda
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> reprocuda.take(x, torch.tensor([0, 0, -1])).sum().backward()
        >>> x.grad
        tensor([[2., 0.],
                [0., 1.]])
    """
    if out is not None:
        return read_out(lambda out: torch.take(input, index, out=out), out, index.shape, input, index)
    if index.dtype != torch.int64 or index.device != input.device or input.numel() == 0:
        return torch.take(input, index)
    return _points(input.reshape(-1), [index.contiguous()])


def _own_position(input: Tensor, dim: int, shape: list[int]) -> Tensor:
    """The coordinate along `dim` that each element of `shape` reads: its own, or 0 where `input` is broadcast.

    Expanding `input` would do as well, but for the gradient: torch would sum it.
    """
    size = shape[dim]
    step = 1 if input.shape[dim] == size else 0
    return (torch.arange(size, device=input.device) * step).reshape(-1, *[1] * (len(shape) - dim - 1))


def expand_with_exact_gradient(input: Tensor, shape: Sequence[int]) -> Tensor:
    """`input` broadcast to `shape`, as a copy whose gradient is the exact sum that torch's expand would round."""
    input = input.reshape([1] * (len(shape) - input.dim()) + list(input.shape))
    return index(input, [_own_position(input, dim, list(shape)) for dim in range(len(shape))])


@typed
def index(input: Tensor, indices: Tensor | Sequence[Tensor | None]) -> Tensor:
    """input[indices] for index tensors: torch's advanced indexing, with an exact gradient.

    Args:
        input: any dtype.
        indices: an index tensor, or a sequence of them: int32, int64 or masks, broadcast together, None for a whole
            dimension. Negative entries count from the end. Slices and numbers are views and need no replacement.

    Returns:
        What input[indices] gives.

    Raises:
        IndexError: whatever torch raises.

    Determinism: exact. The gradient is `index_put` with accumulate=True.

    Cost: torch's own; the gradient costs what `index_put` costs.

    Example:
        >>> import torch, reprocuda
        >>> w = torch.zeros(3, requires_grad=True)
        >>> reprocuda.index(w, torch.tensor([0, 0, -1])).sum().backward()
        >>> w.grad
        tensor([2., 0., 1.])
    """
    return _points(input, [indices] if isinstance(indices, Tensor) else list(indices))


@typed
def repeat_interleave(
    input: Tensor, repeats: Tensor | int | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every row of `input` repeated along `dim`: torch.repeat_interleave, with an exact gradient.

    Args:
        input: any dtype; where it stands alone, it is `repeats`, and what is repeated are 0, 1, 2, ...
        repeats: int32 or int64, how often each row is repeated, or one number for all.
        dim: the dimension along which rows are repeated; None: of the flattened input.
        output_size: the sum of `repeats`, if it is known, which spares CUDA a synchronisation.

    Returns:
        `input` with another size along `dim`.

    Raises:
        RuntimeError, IndexError: whatever torch.repeat_interleave raises.

    Determinism: exact. The gradient is `index_add`.

    Cost: torch's own; the gradient costs what `index_add` costs.

    Example:
        >>> import torch, reprocuda
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> reprocuda.repeat_interleave(x, torch.tensor([3, 1])).sum().backward()
        >>> x.grad
        tensor([3., 1.])
    """
    if repeats is None:
        if dim is not None:
            raise TypeError("repeat_interleave(): with a dim, argument 'repeats' must be Tensor or int, not None")
        return torch.repeat_interleave(input, output_size=output_size)
    if not (input.is_floating_point() or input.is_complex()):  # which has no gradient
        return torch.repeat_interleave(input, repeats, dim, output_size=output_size)
    rows = input.reshape(-1) if dim is None else input
    ndim, dim = rows.dim(), dim or 0
    if ndim == 0 or not -ndim <= dim < ndim or (isinstance(repeats, Tensor) and repeats.dim() > 1):
        return torch.repeat_interleave(input, repeats, dim, output_size=output_size)
    size = rows.shape[dim]
    if not isinstance(repeats, Tensor):
        each = torch.arange(size, device=input.device)
        return index_select(rows, dim, torch.repeat_interleave(each, repeats, output_size=output_size))
    if repeats.numel() not in (1, size):
        return torch.repeat_interleave(rows, repeats, dim, output_size=output_size)
    which = torch.repeat_interleave(repeats.reshape(-1).expand(size), output_size=output_size)
    return index_select(rows, dim, which)


def _points(input: Tensor, indices: list[Tensor | None]) -> Tensor:
    try:
        indices, _ = on_device_of(input, indices, input)
        tensors, dims = normalize_indices(input, indices)
    except ValueError:
        return torch.ops.aten.index(input, indices)
    if needs_operators("index"):
        return ops.index(input, tensors, dims)
    return sums.gather(PointRoute(tuple(dims)), input, tuple(tensors))


@typed(leave=("norm_type",))
def embedding(
    input: Tensor | SegmentPlan,  # any shape
    weight: Tensor,  # [num_embeddings, features]
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` that `input` names: torch.nn.functional.embedding, with an exact gradient.

    Args:
        input: int32 or int64 of any shape, or a SegmentPlan made from one, which spares the gradient its sort.
        weight: [num_embeddings, features], floating.
        padding_idx: a row that gets no gradient; negative: counted from the end.
        max_norm: rows read whose norm is larger are scaled down to it first, in `weight` itself, once a call.
        norm_type: which norm.
        scale_grad_by_freq: divide a row's gradient by how often it was read, exactly and with one rounding.
        sparse: the gradient is a sparse tensor of the rows that were read, coalesced; on CUDA torch's, which adds
            nothing up.

    Returns:
        [*input.shape, features].

    Raises:
        IndexError, RuntimeError, AssertionError: whatever torch's embedding raises. An index out of range is an
            IndexError; with `max_norm`, before any row is scaled.

    Determinism: exact. Half-precision gradients are rounded once, and never saturate on the way.

    Cost: torch's own; the gradient costs what `index_add` of rows costs, with every row rounded once. With
        `max_norm` the indices are read once more before (on CUDA where `check_indices` is set, which waits for the
        device).

    Example:
        >>> import torch, reprocuda
        >>> weight = torch.zeros(2, 1, dtype=torch.half, requires_grad=True)
        >>> reprocuda.embedding(torch.zeros(4096, dtype=torch.long), weight).float().sum().backward()
        >>> weight.grad[0]
        tensor([4096.], dtype=torch.float16)
    """
    planned = isinstance(input, SegmentPlan)
    indices = input.targets.reshape(input.shape) if planned else input

    def native() -> Tensor:
        return torch.nn.functional.embedding(
            indices, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        )

    if weight.dim() != 2 or indices.dtype not in (torch.int32, torch.int64):
        return native()
    if sparse and (not weight.is_cpu or scale_grad_by_freq or needs_operators("embedding")):
        return native()
    num_rows = weight.shape[0]
    if padding_idx is not None and not -num_rows <= padding_idx < num_rows:
        return native()
    padding = -1 if padding_idx is None else padding_idx % num_rows
    if max_norm is not None:
        renormalise("embedding", weight, indices, max_norm, norm_type, IndexError)
    if sparse and weight.requires_grad and torch.is_grad_enabled():
        return SparseLookup.apply(weight, indices, padding)
    if needs_operators("embedding"):
        return ops.embedding(weight, indices, padding, scale_grad_by_freq)
    if planned and not scale_grad_by_freq:
        rows = sums.gather(PlanRoute(input), weight, ()).reshape(*input.shape, weight.shape[1])
        return without_padding(rows, indices, padding)
    return sums.gather(LookupRoute(num_rows, padding, scale_grad_by_freq), weight, (indices,))
