"""torch_scatter's composites: what is made of several reductions and elementwise steps.

Every sum in them is exact and every other step rounded once, so the order of the elements and the number of threads do
not matter. exp, log and sqrt are our own (families/elementary.py), so neither does the device. The 16-bit formats are
computed with in float32, where their sums do not overflow, and rounded at the end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .. import functional
from ..arguments.layout import laid_out_as
from ..arguments.signatures import typed
from ..families.elementary import exp, log, sqrt
from ..functional import reading
from .reductions import counts, scatter_sum
from .support import align, check_dim, check_index, check_out, reports_index, result_shape, size_of_result


@typed
@reports_index
def scatter_std(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    unbiased: bool = True,
) -> Tensor:
    """The standard deviation of the elements aimed at each place along `dim`: torch_scatter.scatter_std.

    Args:
        src: floating-point elements.
        index, dim, dim_size: as for `scatter_sum`.
        out: added to the sum of squares, and overwritten with the result, as torch_scatter has it.
        unbiased: divide by the number of elements less 1 (at least 1), not by their number.

    Returns:
        `out`, or a tensor like `src` but for dim_size along `dim`; 0 at places with fewer than two elements.

    Raises:
        RuntimeError, IndexError: as `scatter_sum`; a src that is not floating-point.

    Determinism: fixed order: the same bits whatever the order, the device and the number of threads, but each step, the
    mean, the squares, their sum and its root, is rounded.

    Cost: one `scatter_mean`, one `scatter_sum`, one read by index, and a count of each place's elements.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_std(torch.tensor([1., 3., 4.]), torch.tensor([0, 0, 2]))
        tensor([1.4142, 0.0000, 0.0000])
    """
    op = "scatter_std"
    if not src.is_floating_point():
        raise RuntimeError(f"{op}(): src must be floating-point, got {src.dtype}")
    where, dim = align(op, src, index, dim)
    if out is not None:
        check_out(op, out, src, dim)
        size = out.shape[dim]
    else:
        size = size_of_result(op, where, dim_size)
    wide = _at_least_float32(src)
    zeros = wide.new_zeros(result_shape(src, dim, size))
    if src.numel() == 0 and out is None:
        return _of_nothing(zeros, src)
    mean = functional.scatter_reduce(zeros, dim, where, wide, "mean", include_self=False)
    deviation = wide - reading.gather(mean, dim, where)
    start = None if out is None else _at_least_float32(out).clone()
    squares = scatter_sum(deviation * deviation, where, dim, start, size)
    divisor = counts(index, src, dim, size).sub_(1 if unbiased else 0).clamp_(min=1).to(torch.float64)
    # In float64: the dtype of src may not hold the number of elements.
    variance = (squares.to(torch.float64) / divisor).to(squares.dtype)
    result = sqrt(variance).to(src.dtype)
    return result if out is None else out.copy_(result)


@typed
@reports_index
def scatter_softmax(src: Tensor, index: Tensor, dim: int = -1, dim_size: int | None = None) -> Tensor:
    """The softmax of `src` within each group of elements that share an index: torch_scatter.scatter_softmax.

    Args:
        src: floating-point elements.
        index, dim: as for `scatter_sum`.
        dim_size: how many groups there are; without it the largest index plus 1.

    Returns:
        A tensor like `src`.

    Raises:
        ValueError: `src` is not floating-point.
        RuntimeError, IndexError: as `scatter_sum`.

    Determinism: fixed order: the same bits whatever the order, the device and the number of threads, but each step, the
    exponentials, their sum and the quotient, is rounded.

    Cost: one `scatter_reduce` without gradient, one `scatter_sum`, two reads by index.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_softmax(torch.tensor([1., 1., 4.]), torch.tensor([0, 0, 2]))
        tensor([0.5000, 0.5000, 1.0000])
    """
    op = "scatter_softmax"
    where, dim, size = _groups(op, src, index, dim, dim_size)
    wide = _at_least_float32(src)
    powers = exp(wide - reading.gather(_largest(wide, where, dim, size), dim, where))
    sums = scatter_sum(powers, where, dim, dim_size=size)
    return laid_out_as((powers / reading.gather(sums, dim, where)).to(src.dtype), src)


@typed
@reports_index
def scatter_log_softmax(
    src: Tensor, index: Tensor, dim: int = -1, eps: float = 1e-12, dim_size: int | None = None
) -> Tensor:
    """The logarithm of the softmax within each group along `dim`: torch_scatter.scatter_log_softmax.

    Arguments, result and errors are those of `scatter_softmax`; eps is added to the sum before its logarithm is taken.

    Determinism: fixed order, as `scatter_softmax`.

    Cost: as `scatter_softmax`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_log_softmax(torch.tensor([1., 1., 4.]), torch.tensor([0, 0, 2]))
        tensor([-0.6931, -0.6931,  0.0000])
    """
    op = "scatter_log_softmax"
    where, dim, size = _groups(op, src, index, dim, dim_size)
    dtype, src = src.dtype, _at_least_float32(src)
    centred = src - reading.gather(_largest(src, where, dim, size), dim, where)
    sums = scatter_sum(exp(centred), where, dim, dim_size=size)
    return (centred - reading.gather(log(sums + eps), dim, where)).to(dtype)


@typed
@reports_index
def scatter_logsumexp(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    eps: float = 1e-12,
) -> Tensor:
    """The logarithm of the sum of exponentials of the elements aimed at each place: torch_scatter.scatter_logsumexp.

    Args:
        src: floating-point elements.
        index, dim, dim_size: as for `scatter_sum`.
        out: one more element of each place, and overwritten with the result.
        eps: added to the sum before its logarithm is taken.

    Returns:
        `out`, or a tensor like `src` but for dim_size along `dim`. Places without elements are 0, or keep `out`.

    Raises:
        ValueError: `src` is not floating-point.
        RuntimeError, IndexError: as `scatter_sum`.

    Determinism: fixed order, as `scatter_softmax`.

    Cost: one `scatter_reduce` without gradient, one `scatter_sum`, one read by index, and a count of each place's
        elements.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_logsumexp(torch.tensor([0., 0., 4.]), torch.tensor([0, 0, 2]))
        tensor([0.6931, 0.0000, 4.0000])
    """
    op = "scatter_logsumexp"
    if out is not None:
        check_index(op, "index", index, src)
        check_out(op, out, src, check_dim(op, dim, src.dim()))
        dim_size = out.shape[dim]
    where, dim, size = _groups(op, src, index, dim, dim_size)
    if src.numel() == 0 and out is None:
        return _of_nothing(src.new_zeros(result_shape(src, dim, size)), src)
    dtype, src = src.dtype, _at_least_float32(src)
    own = None if out is None else _at_least_float32(out).clone()
    largest = _largest(src, where, dim, size, own)
    centre = torch.where(largest.isinf(), 0, largest)  # of infinities the difference would be NaN
    start = None if own is None else exp(own - centre).clone()
    sums = scatter_sum(exp(src - reading.gather(centre, dim, where)), where, dim, start, size)
    result = log(sums + eps) + centre
    # Not even eps may remain of a sum of nothing, or of exp(-inf).
    result = torch.where(largest == -torch.inf, largest, result)
    empty = counts(index, src, dim, size) == 0
    result = torch.where(empty, torch.zeros_like(result) if own is None else own, result).to(dtype)
    return result if out is None else out.copy_(result)


def _groups(op: str, src: Tensor, index: Tensor, dim: int, dim_size: int | None) -> tuple[Tensor, int, int]:
    if not src.is_floating_point():
        raise ValueError(f"{op}(): src must be floating-point, got {src.dtype}")
    where, dim = align(op, src, index, dim)
    return where, dim, size_of_result(op, where, dim_size)


def _of_nothing(zeros: Tensor, src: Tensor) -> Tensor:
    """What comes of a `src` without elements, whose gradient is not to be missing for that."""
    return zeros.to(src.dtype) + src.sum()


def _at_least_float32(values: Tensor) -> Tensor:
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def _largest(src: Tensor, index: Tensor, dim: int, size: int, own: Tensor | None = None) -> Tensor:
    """It cancels out, so its gradient is none."""
    src = src.detach()
    start = src.new_zeros(result_shape(src, dim, size)) if own is None else own.detach()
    return functional.scatter_reduce(start, dim, index, src, "amax", include_self=own is not None)
