"""Rows that are grouped already, by lengths or offsets, reduced: what segment_reduce and its replacement share.

Slices that have segments of their own are laid out one behind the other, so that one SegmentPlan serves all of them and
nothing is searched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..arguments.checks import checks
from ..arguments.transforms import needs_autograd, needs_operators
from ..plan import SegmentPlan, has_data
from .reductions import DerivativeOps, Reduction, gradient_factors, reduce
from .routes import PlanRoute
from .sums import accumulate, gather

_REDUCTIONS = {name: name for name in ("sum", "mean", "amax", "amin", "prod")} | {"max": "amax", "min": "amin"}
# What an empty segment is, and what the others start from, where the user gives no initial value.
_INITIAL = {"sum": 0.0, "mean": math.nan, "amax": -math.inf, "amin": math.inf, "prod": 1.0}
_MUST_COVER = "lengths must not be negative, and sum to the number of rows"


@dataclass(frozen=True)
class Layout:
    """Where the segments of all slices lie among the rows of all slices.

    Attributes:
        plan: of the rows, slice by slice.
        shape: of the data.
        axis: along which its rows lie.
        size: how many segments a slice has.
        margins: whether the plan has one segment more before and one behind those of each slice, for rows outside.
    """

    plan: SegmentPlan
    shape: torch.Size
    axis: int
    size: int
    margins: bool

    def rows(self, data: Tensor) -> Tensor:
        return data.reshape(self.plan.num_rows, *self.shape[self.axis + 1 :])

    def is_outside(self, ndim: int) -> Tensor:
        """[num_rows, 1, ...] bool of `ndim` dimensions: which rows lie in the margins."""
        offsets = self.plan.offsets
        place = torch.arange(self.plan.num_segments, device=offsets.device) % (self.size + 2)
        margin = (place == 0) | (place == self.size + 1)
        rows = torch.repeat_interleave(margin, offsets.diff(), output_size=self.plan.num_rows)
        return rows.reshape([-1] + [1] * (ndim - 1))

    def result(self, reduced: Tensor) -> Tensor:
        """What was reduced by the plan, in the shape that the user expects."""
        planned = self.size + 2 if self.margins else self.size
        result = reduced.reshape(*self.shape[: self.axis], planned, *self.shape[self.axis + 1 :])
        return result.narrow(self.axis, 1, self.size).contiguous() if self.margins else result

    def planned(self, result: Tensor) -> Tensor:
        """The inverse of `result`; 0 in the margins."""
        if self.margins:
            behind = [0, 0] * (result.dim() - 1 - self.axis)
            result = torch.nn.functional.pad(result, [*behind, 1, 1])
        return result.reshape(self.plan.num_segments, *self.shape[self.axis + 1 :])


def layout(
    data: Tensor, lengths: Tensor | None, indices: Tensor | None, offsets: Tensor | None, axis: int, unsafe: bool
) -> Layout:
    """
    Raises:
        ValueError: torch decides about these arguments.
        RuntimeError: offsets that fall or leave `data`. On CUDA, where reading them waits for the device, they are
            bounded instead, unless check_indices asks for it or torch reads them, too.
    """
    if offsets is not None:
        lengths = None  # as torch has it where both are given
    given = lengths if lengths is not None else offsets
    if indices is not None or given is None or not data.is_floating_point():
        raise ValueError("the arguments or the dtype are not among those of segment_reduce")
    if given.dtype not in (torch.int32, torch.int64) or given.device != data.device:
        raise ValueError("lengths and offsets must be int32 or int64, on the device of data")
    axis = axis + data.dim() if axis < 0 else axis
    if not 1 <= given.dim() <= data.dim() or axis != given.dim() - 1 or given.shape[:-1] != data.shape[:axis]:
        raise ValueError("axis must be the last dimension of lengths or offsets, and those before as data has them")
    if lengths is None and offsets.shape[-1] == 0:
        raise ValueError("offsets are empty")
    num_rows, num_slices = data.shape[axis], math.prod(data.shape[:axis])
    readable = has_data(given)
    covers = False
    if lengths is not None:
        size = lengths.shape[-1]
        if readable and not unsafe:
            return _layout(_covering(lengths, num_rows, num_slices), data, axis, size, margins=False)
        if not unsafe and torch.compiler.is_compiling():
            covers_data = (lengths >= 0).all() & (lengths.sum(-1) == num_rows).all()
            torch._assert_async(covers_data, f"segment_reduce(): {_MUST_COVER}")
        offsets = _behind_zero(lengths)
    size = offsets.shape[-1] - 1
    if readable and (given.is_cpu or checks.on):
        _check_offsets("offsets" if lengths is None else "lengths", offsets, num_rows)
        covers = bool(((offsets[..., 0] == 0) & (offsets[..., -1] == num_rows)).all())
    else:
        offsets = offsets.long().clamp(0, num_rows).cummax(-1).values
    starts = torch.arange(num_slices, device=data.device).reshape(*data.shape[:axis], 1) * num_rows
    edges = (offsets[..., :-1] if covers else torch.nn.functional.pad(offsets, (1, 0))) + starts
    edges = torch.nn.functional.pad(edges.reshape(-1), (0, 1), value=num_slices * num_rows)
    return _layout(edges, data, axis, size, margins=not covers)


def _covering(lengths: Tensor, num_rows: int, num_slices: int) -> Tensor:
    """The edges of lengths that cover all rows of each slice. They are read once, as torch reads them."""
    edges = torch.empty(lengths.numel() + 1, dtype=torch.int64, device=lengths.device)
    edges[:1].zero_()
    torch.cumsum(lengths.reshape(-1), 0, dtype=torch.int64, out=edges[1:])
    ends = edges[lengths.shape[-1] :: lengths.shape[-1]] if lengths.numel() else edges.expand(num_slices)
    wrong = (ends != torch.arange(1, num_slices + 1, device=ends.device) * num_rows).any()
    if lengths.numel():
        wrong = wrong | (lengths.min() < 0)
    if bool(wrong):
        raise ValueError(_MUST_COVER)
    return edges


def _behind_zero(lengths: Tensor) -> Tensor:
    return torch.nn.functional.pad(lengths.cumsum(-1, dtype=torch.int64), (1, 0))


def _layout(edges: Tensor, data: Tensor, axis: int, size: int, margins: bool) -> Layout:
    num_rows = math.prod(data.shape[: axis + 1])
    # Checked already, where they can be: SegmentPlan.from_offsets would read them once more.
    plan = SegmentPlan(None, edges, num_rows, torch.Size([num_rows]))
    return Layout(plan, data.shape, axis, size, margins)


def _check_offsets(name: str, offsets: Tensor, num_rows: int) -> None:
    """Never left to torch, which reads beyond the tensor. `name` is what they were made of, lengths or offsets."""
    if offsets.numel() == 0:
        return
    falls = offsets.diff() < 0
    if bool(falls.any()):
        at = falls.nonzero()[0]
        before, behind = (int(offsets[(*at[:-1], at[-1] + step)]) for step in (0, 1))
        if name == "lengths":
            wrong = behind - before
            raise RuntimeError(f"segment_reduce(): lengths must not be negative, got {wrong} at {at.tolist()}")
        at[-1] += 1
        raise RuntimeError(f"segment_reduce(): offsets must not fall, got {behind} behind {before} at {at.tolist()}")
    least, most = int(offsets.min()), int(offsets.max())
    if least < 0 or most > num_rows:
        what = "lengths must sum to at most" if name == "lengths" else "offsets must lie between 0 and"
        raise RuntimeError(
            f"segment_reduce(): {what} {num_rows}, the number of rows, got {least if least < 0 else most}"
        )


def reduce_segments(
    data: Tensor,
    reduce: str,
    lengths: Tensor | None,
    indices: Tensor | None,
    offsets: Tensor | None,
    axis: int,
    unsafe: bool,
    initial: float | None,
) -> Tensor:
    """
    Raises:
        ValueError, RuntimeError: as `layout`; a reduction about which torch decides.
    """
    reduction = Reduction(_reduction(reduce), include_self=initial is not None or reduce == "prod")
    where = layout(data, lengths, indices, offsets, axis, unsafe)
    rows = where.rows(data)
    if where.margins and (needs_operators("segment_reduce") or needs_autograd(rows)):
        # Else a NaN in the margins would get a gradient: 0 times it.
        rows = rows.masked_fill(where.is_outside(rows.dim()), 1)
    return where.result(_reduced(rows, where.plan, reduction, initial))


def _reduction(name: str) -> str:
    if name not in _REDUCTIONS:
        raise ValueError("the reduction is not among those of segment_reduce")
    return _REDUCTIONS[name]


def _reduced(rows: Tensor, plan: SegmentPlan, reduction: Reduction, initial: float | None) -> Tensor:
    start = _INITIAL[reduction.reduce] if initial is None else _representable(initial, rows.dtype, plan.num_segments)
    base = torch.full((plan.num_segments, *rows.shape[1:]), start, dtype=rows.dtype, device=rows.device)
    if reduction.reduce == "sum":
        return _add(base, plan, rows)
    if reduction.reduce == "mean":
        if not initial:
            return _reduce(base, plan, rows, Reduction("mean", include_self=False))
        return _reduce(base, plan, rows, Reduction("mean", counts_self=False))
    competes = reduction.reduce != "prod" and initial is not None
    if not competes or not (needs_operators("segment_reduce") or needs_autograd(rows)):
        return _reduce(base, plan, rows, reduction)
    # Where the initial value is equal, torch gives the whole gradient to the members.
    result = _reduce(base, plan, rows, Reduction(reduction.reduce, include_self=False))
    sign = 1 if reduction.reduce == "amax" else -1
    beyond = result.signbit() if sign > 0 else base.signbit()  # -0 is the smaller of two zeros
    of_zeros = (base == 0) & (result == 0) & (base.signbit() != result.signbit()) & beyond
    wins = (sign * base > sign * result) | of_zeros | (base.isnan() & ~result.isnan())
    return torch.where(wins, base, result)


def _representable(initial: float, dtype: torch.dtype, num_segments: int) -> float:
    """
    Raises:
        RuntimeError: it overflows; torch.full sees this only where it fills more than one element, or none.
    """
    if num_segments == 0:
        return 0.0
    if isinstance(initial, complex):
        raise ValueError("initial is no real number")
    if math.isfinite(initial) and abs(initial) > torch.finfo(dtype).max:
        raise RuntimeError(f"segment_reduce(): initial={initial} cannot be converted to {dtype} without overflow")
    return initial


def _add(base: Tensor, plan: SegmentPlan, rows: Tensor) -> Tensor:
    if needs_operators("segment_reduce"):
        return PlanRoute(plan).add(base, rows, (), 1)
    return accumulate(PlanRoute(plan), base, rows, ())


def _reduce(base: Tensor, plan: SegmentPlan, rows: Tensor, reduction: Reduction) -> Tensor:
    if needs_operators("segment_reduce"):
        return PlanRoute(plan).reduce(base, rows, (), reduction)
    return reduce(PlanRoute(plan), base, rows, (), reduction)


def product_gradient(grad: Tensor, output: Tensor, data: Tensor, where: Layout, initial: float | None) -> Tensor:
    """The gradient of `data`, of whose segments `output` holds the products; not differentiable."""
    route, rows = PlanRoute(where.plan), where.rows(data)
    derivative_ops = DerivativeOps(
        take=lambda values: gather(route, values, ()),
        add=lambda target, values: accumulate(route, target, values, ()),
        reduce=lambda target, values: reduce(route, target, values, (), Reduction("prod")),
    )
    result = where.planned(output)
    base = torch.full_like(result, 1.0 if initial is None else initial)
    factors = gradient_factors(derivative_ops, base, rows, result, Reduction("prod"))
    of_rows = factors.of_src(derivative_ops.take(where.planned(grad)))
    if where.margins:
        of_rows = of_rows.masked_fill(where.is_outside(of_rows.dim()), 0)
    return of_rows.reshape(data.shape)
