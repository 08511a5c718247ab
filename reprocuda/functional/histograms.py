"""Counting by value: bincount, histc, histogram and histogramdd, by torch's names and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .. import ops
from ..arguments.alpha import Number
from ..arguments.irregular import write_resized
from ..arguments.signatures import is_integer, typed
from ..arguments.transforms import needs_autograd
from ..families import histograms as h
from ..families.sums import EachAlone, below_autograd
from ..plan import has_data


class _Underived(EachAlone):
    """Counts, of which torch has no derivative: `op` says so where one is asked for; without it they are constant."""

    @staticmethod
    def forward(op: str | None, compute: Callable, *tensors: Tensor | None):
        with below_autograd():
            return compute(*tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.op = inputs[0]
        if ctx.op is None:
            ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx, *_):
        if ctx.op is None:
            return (None,) * len(ctx.needs_input_grad)
        raise RuntimeError(f"{ctx.op}(): derivative is not implemented, as in torch")

    @staticmethod
    def jvp(ctx, *_):
        if ctx.op is None:
            return None
        raise NotImplementedError(f"{ctx.op}(): forward AD is not supported, as in torch")


def _counted(op: str | None, compute: Callable, *tensors: Tensor | None):
    """compute(*tensors), for transforms of torch.func too."""
    wanted = not torch.compiler.is_compiling() and any(needs_autograd(tensor) for tensor in tensors)
    return _Underived.apply(op, compute, *tensors) if wanted else compute(*tensors)


@typed
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number occurs, or how much weight it has: torch.bincount.

    Args:
        input: [n] non-negative integers.
        weights: [n] of any real dtype.
        minlength: the least length of the result.

    Returns:
        [max(input) + 1 or minlength]: int64; with weights float32 for such, else float64.

    Raises:
        RuntimeError: whatever torch.bincount raises.

    Determinism: exact. It has no derivative, as torch's.

    Cost: one look at `input` for its range, then that of an `index_add` of a column.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.bincount(torch.tensor([0, 2, 2]), torch.tensor([1.0, 0.5, 0.25]))
        tensor([1.0000, 0.0000, 0.7500])
    """
    if weights is None:
        return torch.bincount(input, weights, minlength)
    if torch.compiler.is_compiling():
        return ops.bincount(input, weights, minlength)

    def compute(input: Tensor, weights: Tensor) -> Tensor:
        result = h.weighted_counts(input, weights, minlength)
        return torch.bincount(input, weights, minlength) if result is None else result

    return _counted("bincount", compute, input, weights)


@typed
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0, *, out: Tensor | None = None) -> Tensor:
    """How many elements fall into each of some equal bins: torch.histc.

    Args:
        input: of any real dtype, also integers, which torch takes on CUDA only.
        bins: how many.
        min: the lower end; what is outside, and NaN, is not counted.
        max: the upper end, which the last bin holds too. Both 0: the range of the data. Else equal: the bins lie
            around that number, one wide altogether, where torch would take the range of the data.
        out: where to write the result.

    Returns:
        [bins] counts in the dtype of `input`.

    Raises:
        RuntimeError: whatever torch.histc raises.

    Determinism: exact: bins by torch's arithmetic, counts as integers, rounded once. It has no derivative, as torch's.

    Cost: one pass; another for the range of the data, which on CUDA waits for the device, as torch's does.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.histc(torch.tensor([0, 1, 1, 3]), bins=4, min=0, max=3)
        tensor([1, 2, 0, 1])
    """
    misfit = out is not None and (out.dtype != input.dtype or out.device != input.device)
    if misfit or not (_is_end(min) and _is_end(max)):
        return torch.histc(input, bins, min=min, max=max, **({} if out is None else {"out": out}))

    def compute(input: Tensor) -> Tensor:
        result = _around_one_value(input, bins, min) if min == max != 0 else None
        if result is None:
            # Integers as they are: the operator's ends are floats. It is what hides reading the range of the data.
            hides = _records(input) and (min == max or input.is_floating_point())
            result = (ops.histc if hides else h.histc_counts)(input, bins, min, max)
        if result is None:
            given = {} if out is None else {"out": out}
            return torch.histc(input, bins, min=min, max=max, **given)
        return result

    result = _counted(None, compute, input) if out is None else compute(input)
    if result is out:
        return out
    if out is None or not out.requires_grad:
        return result if out is None else write_resized(out, result)
    torch.autograd.graph.increment_version(out)
    with below_autograd():  # torch has no derivative here, and takes an out that requires one
        return write_resized(out, result)


def _records(input: Tensor) -> bool:
    """Whether one opaque operator has to serve: what it reads is no constant then, nor are edges, of which
    torch.jit.trace would hand a compiled operator an empty list at the second call.
    """
    return not has_data(input) or torch.jit.is_tracing()


def _is_end(value: Number) -> bool:
    """Whether it is one of the numbers that torch takes: real, and an integer of at most 64 bits."""
    return not isinstance(value, complex) and (isinstance(value, float) or -(2**63) <= value < 2**64)


def _around_one_value(input: Tensor, bins: int, value: float) -> Tensor | None:
    """histc of the bins that lie around `value`, one wide altogether; None: torch decides about the arguments."""
    if input.is_floating_point():
        if _records(input):
            return ops.histc(input, bins, value, value)
        return h.histc_counts(input, bins, *h.around(value, 0.5, input.dtype))
    if bins <= 0 or input.dtype not in h.COUNTED:
        return None
    hist = input.new_zeros(bins)
    hist[bins // 2] = (input == value).sum()
    return hist


@typed
def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> torch.return_types.histogram:
    """How many elements, or how much weight, falls into each bin, and the bins' edges: torch.histogram.

    Args:
        input: float32 or float64, on the CPU or on CUDA, where torch has no such function.
        bins: how many equal ones, or their rising edges.
        range: the ends of equal bins; None: the range of the data.
        weight: the shape and dtype of `input`.
        density: divide by the total and by the width of each bin.
        out: where to write the two results.

    Returns:
        (hist, bin_edges), as torch.histogram does.

    Raises:
        RuntimeError, TypeError: whatever torch.histogram raises.

    Determinism: exact; a density is an exact sum, rounded, then divided as torch does. It has no derivative.

    Cost: one pass; with weights that of an `index_add` of a column. On CUDA edges, the range of the data and a density
        wait for the device.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.histogram(torch.tensor([0.5, 1.5, 1.0]), 2, range=(0.0, 2.0)).hist
        tensor([1., 2.])
    """
    if out is not None and not (isinstance(out, (list, tuple)) and len(out) == 2):
        raise TypeError(f"histogram(): argument 'out' must be a tuple of two Tensors, not {type(out).__name__}")
    given = {"range": tuple(range)} if range is not None else {}
    if out is not None and not h.can_take(out, input):
        return torch.histogram(input, bins, weight=weight, density=density, out=out, **given)

    def compute(input: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        result = h.one_dimension(input, bins, range, weight, density, _by_counts(), _by_edges())
        if result is None:
            result = tuple(torch.histogram(input, bins, weight=weight, density=density, **given))
        return result

    result = _counted("histogram", compute, input, weight)
    if out is not None:
        result = tuple(write_resized(*pair) for pair in zip(out, result, strict=True))
    return torch.return_types.histogram(result)


def _by_counts() -> Callable:
    hides = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return ops.histogramdd_by_counts if hides else h.by_counts


def _by_edges() -> Callable:
    hides = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return ops.histogramdd_by_edges if hides else h.by_edges


@typed
def histogramdd(
    input: Tensor,  # [num_points, num_dims]
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> torch.return_types.histogramdd:
    """How many points, or how much weight, falls into each bin of several dimensions: torch.histogramdd.

    Args:
        input: [..., num_dims], float32 or float64; of at most 32 dimensions on CUDA, where torch has no such function.
        bins: how many in each dimension (one number: in all), or their rising edges.
        range: the ends in every dimension, 2 * num_dims numbers; None: those of the data.
        weight: the shape of `input` without its last dimension.
        density: divide by the total and by the volume of each bin.

    Returns:
        (hist, bin_edges), as torch.histogramdd does.

    Raises:
        RuntimeError, TypeError: whatever torch.histogramdd raises.

    Determinism: exact, as `histogram`.

    Cost: one pass; with weights that of an `index_add` of a column.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 1.0]]), [2, 1], range=[0.0, 1.0, 0.0, 1.0]).hist
        tensor([[1.],
                [1.]])
    """
    op = "histogramdd"
    by_edges = isinstance(bins, (list, tuple)) and len(bins) > 0 and all(isinstance(part, Tensor) for part in bins)

    def compute(input: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        result = None
        if is_integer(bins):
            result = _by_counts()(input, [bins] * input.shape[-1], range, weight, density, op) if input.dim() else None
        elif by_edges:
            hist = _by_edges()(input, list(bins), weight, density) if range is None else None
            result = None if hist is None else (hist, [edges.clone() for edges in bins])
        else:
            result = _by_counts()(input, list(bins), range, weight, density, op)
        if result is None:
            result = torch.histogramdd(input, bins, range=range, weight=weight, density=density)
        return result[0], *result[1]

    hist, *edges = _counted(op, compute, input, weight)
    return torch.return_types.histogramdd((hist, tuple(edges)))
