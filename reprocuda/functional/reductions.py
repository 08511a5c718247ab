"""Reductions by index other than the plain sum, called directly: scatter_reduce and index_reduce.

Every result is the exact one, rounded once (tier *exact*).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .. import ops
from ..arguments.irregular import torch_or_refuse, torch_or_refuse_
from ..arguments.signatures import typed
from ..arguments.transforms import needs_operators
from ..families.reductions import Reduction, is_torchs, reduce, reduce_
from ..families.routes import ElementRoute, Route, RowRoute
from .support import replace_with, wrap_dim, write_out


@typed
def scatter_reduce(
    input: Tensor,  # [..., num_targets, ...]
    dim: int,
    index: Tensor,  # [..., num_rows, ...], no larger than src
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """`input` and the elements of `src` that `index` aims at the same place along `dim`, reduced: torch.scatter_reduce.

    Args:
        input: the target, of any dtype that torch.scatter_reduce takes for this reduction.
        dim: the dimension along which elements move.
        index: int32 or int64, in no dimension larger than `src`, nor (but for `dim`) than `input`.
        src: the dtype of `input`. Only its part that `index` covers is read; the gradient of the rest is 0.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether the element of `input` is one more member. A place that no element reaches keeps it, bit
            for bit, either way.
        out: where to write the result.

    Returns:
        A tensor like `input`.

    Raises:
        RuntimeError: whatever torch.scatter_reduce raises. An index out of range is reported with its position, value
            and size before anything is written (on CUDA: a device assert; see `check_indices`).

    Determinism: exact. A mean is the exact sum over the exact count and a product the exact product, each rounded once;
    a NaN wins over all numbers, and +0 counts as larger than -0. The sums in the derivatives are exact. A product of
    complex numbers is torch's own, on the CPU only: multiplied in source order, each step rounded.

    Cost: O(index + input), a product a few times an addition.

    Example:
        >>> import torch, reprocuda
        >>> index, src = torch.tensor([0, 0, 1]), torch.tensor([2.0, 5.0, 3.0])
        >>> reprocuda.scatter_reduce(torch.ones(3), 0, index, src, "prod")
        tensor([10.,  3.,  1.])
        >>> reprocuda.scatter_reduce(torch.ones(3), 0, index, src, "mean", include_self=False)
        tensor([3.5000, 3.0000, 1.0000])
    """
    return _reduced(_SCATTER, input, dim, index, src, Reduction(reduce, include_self), out)


@typed
def scatter_reduce_(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`scatter_reduce` written into `input`, which is returned: torch.Tensor.scatter_reduce_.

    Arguments, errors and determinism are those of `scatter_reduce`. `input` may not overlap itself or `src`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter_reduce_(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([3., 4.]), "amax")
        tensor([0., 4.])
    """
    return _reduced_in_place(_SCATTER, input, dim, index, src, Reduction(reduce, include_self))


@typed
def index_reduce(
    input: Tensor,  # [..., num_targets, ...]
    dim: int,
    index: Tensor,  # [num_rows]
    source: Tensor,  # [..., num_rows, ...]
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """`input` and the rows of `source` that `index` aims at the same place along `dim`, reduced: torch.index_reduce.

    Args:
        input: the target, of any dtype that torch.index_reduce takes.
        dim: the dimension along which rows are reduced.
        index: int32 or int64 vector of num_rows targets.
        source: the dtype and shape of `input`, but for num_rows in place of size(dim).
        reduce: "prod", "mean", "amax" or "amin".
        include_self: whether the row of `input` is one more member. A row that nothing reaches stays as it is, bit for
            bit, either way.
        out: where to write the result.

    Returns:
        A tensor like `input`.

    Raises:
        IndexError, RuntimeError: whatever torch.index_reduce raises. An index out of range is reported with its
            position, value and size before anything is written (on CUDA: a device assert; see `check_indices`).

    Determinism: exact, as `scatter_reduce`.

    Cost: O(source + input), by the algorithms of `index_add`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_reduce(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([-3., 4.]), "amin")
        tensor([ 0., -3.])
    """
    return _reduced(_INDEX, input, dim, index, source, Reduction(reduce, include_self), out)


@typed
def index_reduce_(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`index_reduce` written into `input`, which is returned: torch.Tensor.index_reduce_.

    Arguments, errors and determinism are those of `index_reduce`. `input` may not overlap itself or `source`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_reduce_(torch.ones(2), 0, torch.tensor([1, 1]), torch.tensor([3., 4.]), "prod")
        tensor([ 1., 12.])
    """
    return _reduced_in_place(_INDEX, input, dim, index, source, Reduction(reduce, include_self))


class _Operator:
    """What scatter_reduce and index_reduce differ in."""

    def __init__(self, name: str, route: Callable[[int], Route], direct: Callable, out: Callable, native: Callable):
        self.name = name
        self.route = route
        self.direct = direct
        self.out = out
        self.native = native
        self.native_ = getattr(torch.Tensor, f"{name}_")


_SCATTER = _Operator("scatter_reduce", ElementRoute, ops.scatter_reduce, ops.scatter_reduce_out, torch.scatter_reduce)
_INDEX = _Operator("index_reduce", RowRoute, ops.index_reduce, ops.index_reduce_out, torch.index_reduce)


def _reduced(
    op: _Operator, input: Tensor, dim: int, index: Tensor, src: Tensor, reduction: Reduction, out: Tensor | None
) -> Tensor:
    if is_torchs(input, reduction.reduce):
        given = {} if out is None else {"out": out}
        return op.native(input, dim, index, src, reduction.reduce, include_self=reduction.include_self, **given)
    if out is not None:
        return write_out(
            op.name,
            lambda: _reduced(op, input, dim, index, src, reduction, None),
            lambda: op.out(input, dim, index, src, reduction.reduce, reduction.include_self, out),
            lambda: op.native(input, dim, index, src, reduction.reduce, include_self=reduction.include_self, out=out),
            out,
            input,
            src,
            index,
        )
    try:
        if needs_operators(op.name):
            return op.direct(input, dim, index, src, reduction.reduce, reduction.include_self)
        return reduce(op.route(wrap_dim(dim, input.dim())), input, src, (index,), reduction)
    except ValueError as reason:
        keywords = {"include_self": reduction.include_self}
        return torch_or_refuse(op.name, reason, op.native, input, dim, index, src, reduction.reduce, **keywords)


def _reduced_in_place(
    op: _Operator, input: Tensor, dim: int, index: Tensor, src: Tensor, reduction: Reduction
) -> Tensor:
    if is_torchs(input, reduction.reduce):
        return op.native_(input, dim, index, src, reduction.reduce, include_self=reduction.include_self)
    if needs_operators(f"{op.name}_"):
        # Of a copy: the derivative needs what was there before.
        return replace_with(input, _reduced(op, input.clone(), dim, index, src, reduction, None))
    try:
        return reduce_(op.route(wrap_dim(dim, input.dim())), input, src, (index,), reduction)
    except ValueError as reason:
        keywords = {"include_self": reduction.include_self}
        return torch_or_refuse_(f"{op.name}_", reason, op.native_, input, dim, index, src, reduction.reduce, **keywords)
