"""Plain writes through an index: scatter, index_copy, index_fill and put, by torch's names and arguments.

Of several contributions to one place the last in source order stands, on every device and with any number of threads.
index_put, which overwrites as well as it adds, is in sums.py.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from .. import ops
from ..arguments.alpha import Number
from ..arguments.autocast import widest
from ..arguments.checks import check_before_writing, check_on_device, checks
from ..arguments.irregular import (
    OVERLAP,
    overlaps_itself,
    refusal,
    refuse_own_overlap,
    torch_or_refuse,
    torch_or_refuse_,
)
from ..arguments.layout import laid_out_as
from ..arguments.signatures import typed
from ..arguments.transforms import needs_operators, transforms_active
from ..families.overwrites import overwrite, overwrite_, source_of
from ..families.reductions import is_torchs
from ..families.routes import ElementRoute, RowRoute
from ..plan import has_data
from .reductions import scatter_reduce, scatter_reduce_
from .sums import index_put, index_put_, scatter_add, scatter_add_
from .support import replace_with, wrap_dim, write_out


def _one_source(op: str, src: Tensor | Number | None, value: Number | None) -> Tensor | Number:
    if (src is None) == (value is None):
        given = "neither" if src is None else "both"
        raise TypeError(f"{op}(): expected one of the arguments 'src' and 'value', got {given}")
    return src if value is None else value


def _reduces_as_torch(input: Tensor, reduce: str | None) -> bool:
    """Products that are torch's own, whose scatter takes tensors that require a gradient; and what torch refuses."""
    return reduce not in (None, "add", "multiply") or (reduce == "multiply" and is_torchs(input, "prod"))


@typed
def scatter(
    input: Tensor,  # [..., num_targets, ...]
    dim: int,
    index: Tensor,  # [..., num_rows, ...], no larger than src
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """`input` with every element of `src` written along `dim` where the same element of `index` says: torch.scatter.

    Args:
        input: the target, of any dtype.
        dim: the dimension along which elements move.
        index: int32 or int64, in no dimension larger than `src`, nor (but for `dim`) than `input`.
        src: the dtype of `input`, or one number for all. Only the part of it that `index` covers is read.
        value: the number, by torch's other name for it.
        reduce: None: overwrite. "add": the exact sum with what is there, as scatter_add. "multiply": the exact product,
            as scatter_reduce.
        out: where to write the result.

    Returns:
        A tensor like `input`.

    Raises:
        RuntimeError: whatever torch.scatter raises. An index out of range is reported with its position, value and
            size before anything is written (on CUDA: a device assert; see `check_indices`).

    Determinism: exact. The last element in source order stands, and it alone gets a gradient.

    Cost: O(index + input). On CUDA three launches and 4 bytes an output that may be written, without a sort.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter(torch.zeros(3), 0, torch.tensor([0, 2, 2]), torch.tensor([1.0, 2.0, 3.0]))
        tensor([1., 0., 3.])
    """
    src = _one_source("scatter", src, value)
    if _reduces_as_torch(input, reduce):
        return torch.scatter(input, dim, index, src, reduce=reduce, **({} if out is None else {"out": out}))
    if reduce == "add":
        return scatter_add(input, dim, index, source_of(input, index, src), out=out)
    if reduce == "multiply":
        return scatter_reduce(input, dim, index, source_of(input, index, src), "prod", out=out)
    if not isinstance(src, Tensor):  # one value: there is no order
        return torch.scatter(input, dim, index, src) if out is None else torch.scatter(input, dim, index, src, out=out)
    if out is not None:
        return write_out(
            "scatter",
            lambda: scatter(input, dim, index, src),
            lambda: ops.scatter_out(input, dim, index, src, out),
            lambda: torch.scatter(input, dim, index, src, out=out),
            out,
            input,
            src,
            index,
        )
    try:
        if needs_operators("scatter"):
            return ops.scatter(input, dim, index, src)
        return overwrite(ElementRoute(wrap_dim(dim, input.dim())), input, src, (index,))
    except ValueError as reason:
        return torch_or_refuse("scatter", reason, torch.scatter, input, dim, index, src, overwrites=True)


@typed
def scatter_(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """`scatter` written into `input`, which is returned: torch.Tensor.scatter_.

    Arguments, errors and determinism are those of `scatter`. `input` may not overlap itself or `src`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter_(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([3.0, 4.0]))
        tensor([0., 4.])
    """
    src = _one_source("scatter_", src, value)
    if _reduces_as_torch(input, reduce):
        return input.scatter_(dim, index, src, reduce=reduce)
    if reduce == "add":
        return scatter_add_(input, dim, index, source_of(input, index, src))
    if reduce == "multiply":
        return scatter_reduce_(input, dim, index, source_of(input, index, src), "prod")
    if not isinstance(src, Tensor):
        return input.scatter_(dim, index, src)
    if needs_operators("scatter_"):
        return replace_with(input, scatter(input, dim, index, src))
    try:
        return overwrite_(ElementRoute(wrap_dim(dim, input.dim())), input, src, (index,))
    except ValueError as reason:
        native_ = torch.Tensor.scatter_
        return torch_or_refuse_("scatter_", reason, native_, input, dim, index, src, overwrites=True)


def _widest_on_cpu(input: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """torch's autocast promotes index_copy, on the CPU only."""
    return widest(input, source) if input.device.type == "cpu" and input.dtype != source.dtype else (input, source)


@typed
def index_copy(
    input: Tensor,  # [..., num_targets, ...]
    dim: int,
    index: Tensor,  # [num_rows]
    source: Tensor,  # [..., num_rows, ...]
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`input` with every row of `source` written along `dim` at the position that `index` names: torch.index_copy.

    Args:
        input: the target, of any dtype.
        dim: the dimension along which rows are written.
        index: int64 vector of num_rows targets.
        source: the dtype and shape of `input`, but for num_rows in place of size(dim).
        out: where to write the result.

    Returns:
        A tensor like `input`.

    Raises:
        IndexError, RuntimeError: whatever torch.index_copy raises. An index out of range is reported with its position,
            value and size before anything is written (on CUDA: a device assert; see `check_indices`).

    Determinism: exact. The last row in source order stands, and it alone gets a gradient.

    Cost: O(source + input). On CUDA three launches and 4 bytes a target, without a sort.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_copy(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([3.0, 4.0]))
        tensor([0., 4.])
    """
    if out is not None:
        return write_out(
            "index_copy",
            lambda: index_copy(input, dim, index, source),
            lambda: ops.index_copy_out(input, dim, index, source, out),
            lambda: torch.index_copy(input, dim, index, source, out=out),
            out,
            input,
            source,
            index,
        )
    input, source = _widest_on_cpu(input, source)
    try:
        if needs_operators("index_copy"):
            return ops.index_copy(input, dim, index, source)
        return overwrite(RowRoute(wrap_dim(dim, input.dim())), input, source, (index,))
    except ValueError as reason:
        return torch_or_refuse("index_copy", reason, torch.index_copy, input, dim, index, source, overwrites=True)


@typed
def index_copy_(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`index_copy` written into `input`, which is returned: torch.Tensor.index_copy_.

    Arguments, errors and determinism are those of `index_copy`. `input` may not overlap itself or `source`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_copy_(torch.zeros(2, 1), 0, torch.tensor([0]), torch.ones(1, 1))
        tensor([[1.],
                [0.]])
    """
    if needs_operators("index_copy_"):
        return replace_with(input, index_copy(input, dim, index, source))
    try:
        return overwrite_(RowRoute(wrap_dim(dim, input.dim())), input, source, (index,))
    except ValueError as reason:
        native_ = torch.Tensor.index_copy_
        return torch_or_refuse_("index_copy_", reason, native_, input, dim, index, source, overwrites=True)


def _named(function: str, error: IndexError) -> IndexError:
    """`error` of index_put, which does the work, in the name of the function that was called."""
    return IndexError(re.sub(r"^(index_)?put_?\(\)", f"{function}()", str(error)))


def _can_look(input: Tensor, dim: int, index: Tensor) -> bool:
    """Whether torch takes this index along this dimension, where a number has one too."""
    ndim = max(input.dim(), 1)
    return index.dtype == torch.int64 and -ndim <= dim < ndim


def _fills_by_points(input: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> bool:
    """Whether the value's gradient, a sum over all that it was written to, may be asked for; else it is torch's own."""
    has_gradient = isinstance(value, Tensor) and value.dim() == 0 and value.dtype == input.dtype
    is_in_range = -input.dim() <= dim < input.dim()
    return has_gradient and is_in_range and index.dtype == torch.int64 and index.dim() <= 1


@typed
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """`input` with `value` written to every row along `dim` that `index` names: torch.index_fill.

    Args:
        input: the target, of any dtype.
        dim: the dimension along which rows are filled.
        index: int64 vector; negative entries count from the end.
        value: a number, or a tensor of one element.

    Returns:
        A tensor like `input`.

    Raises:
        IndexError, RuntimeError: whatever torch.index_fill raises. Where `value` is a tensor of the dtype of `input`,
            an index out of range is reported with its position, value and size (on CUDA: a device assert; see
            `check_indices`).

    Determinism: exact. The gradient of `value` is the exact sum over the places that it was written to.

    Cost: O(input).

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_fill(torch.zeros(3), 0, torch.tensor([0, -1]), 5)
        tensor([5., 0., 5.])
    """
    if not _fills_by_points(input, dim, index, value):
        if checks.on and _can_look(input, dim, index):
            size = input.shape[dim] if input.dim() else 1
            check_on_device("index_fill", index, -size, size)
        return torch.index_fill(input, dim, index, value)
    try:
        return index_put(input, [None] * wrap_dim(dim, input.dim()) + [index.reshape(-1)], value)
    except IndexError as error:
        raise _named("index_fill", error) from None


@typed
def index_fill_(input: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """`index_fill` written into `input`, which is returned: torch.Tensor.index_fill_.

    Arguments and determinism are those of `index_fill`. An index out of range is reported with its position, value and
    size before anything is written, and an `input` that overlaps itself is an error, not a warning.

    Cost: O(index + what is written); the index is read once more before.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_fill_(torch.zeros(2), 0, torch.tensor([1]), torch.tensor(3.0))
        tensor([0., 3.])
    """
    refuse_own_overlap("index_fill_", input)
    if not _fills_by_points(input, dim, index, value):
        if _can_look(input, dim, index):
            size = input.shape[dim] if input.dim() else 1
            check_before_writing("index_fill_", index, -size, size)
        return input.index_fill_(dim, index, value)
    try:
        return index_put_(input, [None] * wrap_dim(dim, input.dim()) + [index.reshape(-1)], value)
    except IndexError as error:
        raise _named("index_fill_", error) from None


@typed
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input`, seen as a vector, with every element of `source` written or added where `index` says: torch.put.

    Args:
        input: the target, of any dtype that torch.put takes.
        index: int64, of any shape; negative entries count from the end.
        source: the dtype of `input`, as many elements as `index`.
        accumulate: add instead of writing.

    Returns:
        A tensor like `input`.

    Raises:
        IndexError, RuntimeError: whatever torch.put raises. An index out of range is reported with its position, value
            and size before anything is written (on CUDA: a device assert; see `check_indices`).

    Determinism: exact. accumulate=True: the exact sum, rounded once. Else the last element in source order stands,
    and it alone gets a gradient.

    Cost: that of `index_put` with one index.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.put(torch.zeros(2, 2), torch.tensor([-1, 0, 0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor([[3., 0.],
                [0., 1.]])
    """
    if _put_is_irregular(input, index, source):
        reason = ValueError("put(): the arguments do not match")
        return torch_or_refuse("put", reason, torch.put, input, index, source, accumulate, overwrites=not accumulate)
    try:
        flat = index_put(input.reshape(-1), (index.reshape(-1),), source.reshape(-1), accumulate)
    except IndexError as error:
        raise _named("put", error) from None
    return laid_out_as(flat.reshape(input.shape), input)


@typed
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`put` written into `input`, which is returned: torch.Tensor.put_.

    Arguments, errors and determinism are those of `put`. An `input` that is not contiguous is copied there and back.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.put_(torch.zeros(2), torch.tensor([1, 1]), torch.ones(2), accumulate=True)
        tensor([0., 2.])
    """
    if _put_is_irregular(input, index, source):
        reason = ValueError("put_(): the arguments do not match")
        native_ = torch.Tensor.put_
        return torch_or_refuse_("put_", reason, native_, input, index, source, accumulate, overwrites=not accumulate)
    plain = has_data(input) and not needs_operators("put_") and not transforms_active()
    if plain and torch._debug_has_internal_overlap(input) == 1:
        return input.put_(index, source, accumulate)  # which raises
    if plain and overlaps_itself(input):
        raise refusal("put_", OVERLAP)
    if plain and input.is_contiguous():
        try:
            index_put_(input.view(-1), (index.reshape(-1),), source.reshape(-1), accumulate)
        except IndexError as error:
            raise _named("put_", error) from None
        return input
    try:
        return replace_with(input, put(input, index, source, accumulate))
    except IndexError as error:
        raise _named("put_", error) from None


def _put_is_irregular(input: Tensor, index: Tensor, source: Tensor) -> bool:
    same = input.dtype == source.dtype and input.device == source.device == index.device
    return not same or index.dtype != torch.int64 or index.numel() != source.numel()
