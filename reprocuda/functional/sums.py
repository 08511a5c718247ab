"""Sums by index, called directly: index_add, scatter_add, index_put and segment_sum, by torch's names and arguments.

Every sum is the exact sum of its contributions, rounded once (tier *exact*). The in-place and out= forms are torch's as
well. Reading by index, whose gradient is such a sum, is in reading.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import ops
from ..arguments.alpha import Alpha, python_number, split_alpha
from ..arguments.autocast import widest
from ..arguments.irregular import torch_or_refuse, torch_or_refuse_
from ..arguments.layout import laid_out_as
from ..arguments.signatures import typed
from ..arguments.transforms import needs_operators
from ..families import sums
from ..families.overwrites import overwrite, overwrite_
from ..families.points import PointRoute, has_mask, normalize_indices, on_device_of
from ..families.routes import ElementRoute, PlanRoute, RowRoute
from ..plan import SegmentPlan, has_data
from .support import replace_with, wrap_dim, write_out


@typed
def index_add(
    input: Tensor,  # [..., num_targets, ...]
    dim: int,
    index: Tensor | SegmentPlan,  # [num_rows]
    source: Tensor,  # [..., num_rows, ...]
    *,
    alpha: Alpha = 1,
    out: Tensor | None = None,
) -> Tensor:
    """`input` plus alpha times every row of `source`, along `dim`, at the position that `index` names: torch.index_add.

    Args:
        input: the target, of any dtype that torch.index_add takes.
        dim: the dimension along which rows are added.
        index: int32 or int64 vector of num_rows targets, or a SegmentPlan made from one.
        source: the dtype and shape of `input`, but for num_rows in place of size(dim).
        alpha: factor of every row, exact; rounded to float32 once for 16- and 32-bit results.
        out: where to write the result.

    Returns:
        A tensor like `input`.

    Raises:
        IndexError, RuntimeError: whatever torch.index_add raises for these arguments. An index out of range is reported
            with its position, value and size before anything is written (on CUDA: a device assert; see
            `check_indices`).

    Determinism: exact, both this and its derivatives.

    Cost: O(source + input). docs/architecture.md says which algorithm a shape gets. Each tries interval arithmetic that
    proves its own result, after Ziv's rounding test and Shewchuk's adaptive predicates, and falls back on Kulisch's
    long accumulator. A call costs some microseconds more than torch's.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_add(torch.zeros(3), 0, torch.tensor([2, 2, 2]), torch.tensor([1e8, 1.0, -1e8]))
        tensor([0., 0., 1.])
    """
    if out is not None:
        return _index_add_out(input, dim, index, source, alpha, out)
    try:
        alpha = python_number(alpha, input.dtype)
        if isinstance(index, SegmentPlan):
            return _index_add_planned(input, dim, index, source, alpha)
        if needs_operators("index_add"):
            return ops.index_add(input, dim, index, source, *split_alpha(alpha, input.dtype))
        return sums.accumulate(RowRoute(wrap_dim(dim, input.dim())), input, source, (index,), alpha)
    except ValueError as reason:
        return torch_or_refuse("index_add", reason, torch.index_add, input, dim, _targets(index), source, alpha=alpha)


@typed
def index_add_(input: Tensor, dim: int, index: Tensor | SegmentPlan, source: Tensor, *, alpha: Alpha = 1) -> Tensor:
    """`index_add` written into `input`, which is returned: torch.Tensor.index_add_.

    Arguments, errors and determinism are those of `index_add`. `input` may not overlap itself or `source`.

    Example:
        >>> import torch, reprocuda
        >>> x = torch.ones(2)
        >>> reprocuda.index_add_(x, 0, torch.tensor([1, 1]), torch.ones(2), alpha=2) is x, x
        (True, tensor([1., 5.]))
    """
    if needs_operators("index_add_"):
        return replace_with(input, index_add(input, dim, index, source, alpha=alpha))
    try:
        alpha = python_number(alpha, input.dtype)
        if isinstance(index, SegmentPlan):
            return sums.accumulate_(PlanRoute(index, wrap_dim(dim, input.dim())), input, source, (), alpha)
        return sums.accumulate_(RowRoute(wrap_dim(dim, input.dim())), input, source, (index,), alpha)
    except ValueError as reason:
        native_ = torch.Tensor.index_add_
        return torch_or_refuse_("index_add_", reason, native_, input, dim, _targets(index), source, alpha=alpha)


def _targets(index: Tensor | SegmentPlan) -> Tensor:
    return index.targets if isinstance(index, SegmentPlan) else index


def _index_add_planned(input: Tensor, dim: int, plan: SegmentPlan, source: Tensor, alpha: Alpha) -> Tensor:
    if needs_operators("index_add"):
        return ops.index_add_planned(
            input, dim, plan.permutation, plan.offsets, source, *split_alpha(alpha, input.dtype)
        )
    return sums.accumulate(PlanRoute(plan, wrap_dim(dim, input.dim())), input, source, (), alpha)


def _index_add_out(
    input: Tensor, dim: int, index: Tensor | SegmentPlan, source: Tensor, alpha: Alpha, out: Tensor
) -> Tensor:
    targets = _targets(index)

    def write() -> None:
        factor = split_alpha(python_number(alpha, input.dtype), input.dtype)
        ops.index_add_out(input, dim, targets, source, *factor, out)

    return write_out(
        "index_add",
        lambda: index_add(input, dim, index, source, alpha=alpha),
        write,
        lambda: torch.index_add(input, dim, targets, source, alpha=alpha, out=out),
        out,
        input,
        source,
        targets,
    )


@typed
def scatter_add(
    input: Tensor,  # [..., num_targets, ...]
    dim: int,
    index: Tensor,  # [..., num_rows, ...], no larger than src
    src: Tensor,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`input` plus every element of `src`, added along `dim` where the same element of `index` says: torch.scatter_add.

    Args:
        input: the target, of any dtype that torch.scatter_add takes.
        dim: the dimension along which elements move.
        index: int32 or int64, in no dimension larger than `src`, nor (but for `dim`) than `input`.
        src: the dtype of `input`. Only its part that `index` covers is read; the gradient of the rest is 0.
        out: where to write the result.

    Returns:
        A tensor like `input`. Under autocast, of two floating dtypes the wider.

    Raises:
        RuntimeError: whatever torch.scatter_add raises. An index out of range is reported with its position, value and
            size before anything is written (on CUDA: a device assert; see `check_indices`).

    Determinism: exact, both this and its derivatives.

    Cost: O(index + input), by the arithmetic of `index_add`. An index expanded from a vector is solved row by row;
    else by fixed point or private bins, without a sort.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter_add(torch.zeros(2, 2), 0, torch.tensor([[0, 1], [0, 0]]), torch.ones(2, 2))
        tensor([[2., 1.],
                [0., 1.]])
    """
    if out is not None:
        return write_out(
            "scatter_add",
            lambda: scatter_add(input, dim, index, src),
            lambda: ops.scatter_add_out(input, dim, index, src, out),
            lambda: torch.scatter_add(input, dim, index, src, out=out),
            out,
            input,
            src,
            index,
        )
    if input.dtype != src.dtype:
        input, src = widest(input, src)
    try:
        if needs_operators("scatter_add"):
            return ops.scatter_add(input, dim, index, src)
        return sums.accumulate(ElementRoute(wrap_dim(dim, input.dim())), input, src, (index,))
    except ValueError as reason:
        return torch_or_refuse("scatter_add", reason, torch.scatter_add, input, dim, index, src)


@typed
def scatter_add_(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`scatter_add` written into `input`, which is returned: torch.Tensor.scatter_add_.

    Arguments, errors and determinism are those of `scatter_add`. `input` may not overlap itself or `src`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter_add_(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([3., 4.]))
        tensor([0., 7.])
    """
    if needs_operators("scatter_add_"):
        return replace_with(input, scatter_add(input, dim, index, src))
    try:
        return sums.accumulate_(ElementRoute(wrap_dim(dim, input.dim())), input, src, (index,))
    except ValueError as reason:
        return torch_or_refuse_("scatter_add_", reason, torch.Tensor.scatter_add_, input, dim, index, src)


@typed
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with `values` written, or added, at the points that `indices` name: torch.index_put.

    Args:
        input: the target, of any dtype.
        indices: one tensor a dimension, as in input[indices]: int32, int64 or masks, broadcast together. Negative
            entries count from the end. None leaves its dimension whole.
        values: the dtype of `input`, broadcast to the shape of input[indices].
        accumulate: add instead of writing.

    Returns:
        A tensor like `input`. Under autocast, of two floating dtypes the wider.

    Raises:
        IndexError, RuntimeError: whatever torch.index_put raises, an index out of range with its position, value and
            size before anything is written (on CUDA: a device assert; see `check_indices`).

    Determinism: exact, both this and its derivatives, the sum over broadcast values included. Where it writes, the last
    value in source order stands, and it alone gets a gradient.

    Cost: O(values + input), after several indices have been turned into one key a point. It adds by the arithmetic of
    `index_add` and writes as `index_copy` does.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_put(torch.zeros(3), (torch.tensor([-1, -1, 0]),), torch.ones(3), accumulate=True)
        tensor([1., 0., 2.])
    """
    if input.dtype != values.dtype:
        input, values = widest(input, values)
    try:
        indices, values = on_device_of(input, indices, values)
        direct = needs_operators("index_put")
        if (direct or not has_data(input)) and has_mask(indices):
            if not accumulate:
                return _overwrite_masked(input, indices, values)
            places = [place for place, index in enumerate(indices) if index is not None]
            return ops.index_put_masked(input, [indices[place] for place in places], places, values)
        tensors, dims = normalize_indices(input, indices)
        if direct:
            result = (ops.index_put if accumulate else ops.index_put_overwrite)(input, tensors, dims, values)
        else:
            combine = sums.accumulate if accumulate else overwrite
            result = combine(PointRoute(tuple(dims)), input, values, tuple(tensors))
        return laid_out_as(result, input)
    except ValueError as reason:
        arguments = input, list(indices), values, accumulate
        return torch_or_refuse("index_put", reason, torch.ops.aten.index_put, *arguments, overwrites=not accumulate)


def _overwrite_masked(input: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Tensor:
    """Where no shape may depend on data. A mask alone names every place once, so torch's own operator serves."""
    if sum(index is not None for index in indices) > 1:
        raise RuntimeError(
            "index_put(): a mask among several index tensors cannot be written through where shapes may not depend on "
            "data, as in compiled code; pass mask.nonzero(as_tuple=True) in its place"
        )
    return torch.ops.aten.index_put(input, list(indices), values)


@typed
def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """`index_put` written into `input`, which is returned: torch.Tensor.index_put_.

    Arguments, errors and determinism are those of `index_put`. An `input` that overlaps itself is an error, not a
    warning. Adding copies one that is not contiguous there and back, but for one index that names few of its rows.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.index_put_(torch.zeros(2, 2), (torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
        tensor([[2., 2.],
                [0., 0.]])
    """
    if needs_operators("index_put_") or not has_data(input):
        return replace_with(input, index_put(input, indices, values, accumulate))
    try:
        indices, values = on_device_of(input, indices, values)
        tensors, dims = normalize_indices(input, indices)
        combine_ = sums.accumulate_ if accumulate else overwrite_
        return combine_(PointRoute(tuple(dims)), input, values, tuple(tensors))
    except ValueError as reason:
        native_ = torch.ops.aten.index_put_
        return torch_or_refuse_(
            "index_put_", reason, native_, input, list(indices), values, accumulate, overwrites=not accumulate
        )


@typed
def segment_sum(
    src: Tensor,  # [num_rows, ...]
    plan_or_offsets: SegmentPlan | Tensor,
) -> Tensor:
    """The sum of each segment's rows: what scatter libraries call segment_csr or segment_coo with reduce="sum".

    Args:
        src: [num_rows, ...], of any dtype that torch can add by index.
        plan_or_offsets: a SegmentPlan, or int32 or int64 CSR offsets [num_segments + 1] for rows grouped already.

    Returns:
        [num_segments, ...]; an empty segment is 0.

    Raises:
        ValueError: offsets that do not rise from 0 to num_rows.
        RuntimeError: a plan for another number of rows, or on another device; a src without dimensions.

    Determinism: exact, both this and its derivatives. A segment's rows may come in any order.

    Cost: O(src), one read of it, by the arithmetic of `index_add`; nothing is sorted here (a plan may have been, once).

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.segment_sum(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 2, 2, 3]))
        tensor([3., 0., 4.])
    """
    plan = plan_or_offsets
    if src.dim() == 0:
        raise RuntimeError("segment_sum(): src must have at least one dimension, the rows")
    if not isinstance(plan, SegmentPlan):
        plan = SegmentPlan.from_offsets(plan, num_rows=src.shape[0])
    if needs_operators("segment_sum"):
        return ops.segment_sum(src, plan.permutation, plan.offsets)
    return sums.accumulate(PlanRoute(plan), None, src, ())
