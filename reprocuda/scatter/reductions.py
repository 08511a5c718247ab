"""torch_scatter's scatter_*: elements reduced at the targets that an index in any order names."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import functional
from ..arguments.signatures import typed
from ..arguments.transforms import needs_autograd, needs_operators, transforms_active
from ..families.extrema import extremum
from ..families.reductions import Reduction, reduce_
from ..families.routes import ElementRoute
from ..functional.support import replace_with
from .support import align, check_out, reports_index, result_shape, size_of_result


@typed
@reports_index
def scatter_sum(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """The sum of the elements of `src` that `index` aims at each place along `dim`: torch_scatter.scatter_sum.

    Args:
        src: the elements, of any dtype that torch.scatter_add takes.
        index: int32 or int64: a vector along `dim`, or of the leading dimensions of `src`, along the rest of which it
            is broadcast.
        dim: the dimension along which elements move.
        out: what the sums are added to, in place; its gradient flows on.
        dim_size: the size of the result along `dim`. Without it and `out`, the largest index plus 1, which is read
            off the index: on CUDA that waits for the device.

    Returns:
        `out`, or a tensor like `src` but for dim_size along `dim`; places without elements are 0.

    Raises:
        RuntimeError, IndexError: shapes, dtypes or devices do not fit; a dimension or an index is out of range.

    Determinism: exact, both this and its derivatives.

    Cost: as reprocuda.scatter_add; an index that is broadcast names rows.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_sum(torch.tensor([[1., 2., 4.], [3., 5., 7.]]), torch.tensor([0, 2, 0]))
        tensor([[ 5.,  0.,  2.],
                [10.,  0.,  5.]])
    """
    return add("scatter_sum", src, index, dim, out, dim_size)


@typed
@reports_index
def scatter_add(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """`scatter_sum` by its other name: torch_scatter.scatter_add.

    Arguments, result and errors are those of `scatter_sum`.

    Determinism: exact, both this and its derivatives.

    Cost: as `scatter_sum`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_add(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 0]))
        tensor([5., 0., 2.])
    """
    return add("scatter_add", src, index, dim, out, dim_size)


def add(op: str, src: Tensor, index: Tensor, dim: int, out: Tensor | None, dim_size: int | None) -> Tensor:
    """`scatter_sum`, under the name `op`."""
    index, dim = align(op, src, index, dim)
    if out is None:
        return _added(src.new_zeros(result_shape(src, dim, size_of_result(op, index, dim_size))), dim, index, src)
    check_out(op, out, src, dim)
    return functional.scatter_add_(out, dim, index, src)


@typed
@reports_index
def scatter_mul(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """The product of the elements of `src` that `index` aims at each place along `dim`: torch_scatter.scatter_mul.

    Arguments, result and errors are those of `scatter_sum`; places without elements are 1, and `out` is one more
    factor. An element that is 0 gets the product of the others as its gradient, where torch_scatter gives 0; any other
    gets the result over itself, as in torch.

    Determinism: exact: the exact product, rounded once.

    Cost: as reprocuda.scatter_reduce.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_mul(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2]))
        tensor([1., 1., 8.])
    """
    op = "scatter_mul"
    if src.is_complex():
        raise RuntimeError(f"{op}(): src must be real, got {src.dtype}: products of complex numbers have no exact form")
    index, dim = align(op, src, index, dim)
    if out is None:
        ones = src.new_ones(result_shape(src, dim, size_of_result(op, index, dim_size)))
        return functional.scatter_reduce(ones, dim, index, src, "prod")
    check_out(op, out, src, dim)
    return functional.scatter_reduce_(out, dim, index, src, "prod")


@typed
@reports_index
def scatter_mean(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """The mean of the elements of `src` that `index` aims at each place along `dim`: torch_scatter.scatter_mean.

    Arguments, result and errors are those of `scatter_sum`; places without elements are 0. `out` is added to their sum
    and not counted, as torch_scatter has it. A mean of integers is rounded down.

    Determinism: exact: the exact sum over the exact number, rounded once.

    Cost: as `scatter_sum`; with `out`, of as many zeros again, and a sort of the index.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_mean(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2]))
        tensor([1., 0., 3.])
    """
    return mean_by_index("scatter_mean", src, index, dim, out, dim_size)


def mean_by_index(op: str, src: Tensor, index: Tensor, dim: int, out: Tensor | None, dim_size: int | None) -> Tensor:
    """`scatter_mean`, under the name `op`."""
    index, dim = align(op, src, index, dim)
    if out is None:
        zeros = src.new_zeros(result_shape(src, dim, size_of_result(op, index, dim_size)))
        return functional.scatter_reduce(zeros, dim, index, src, "mean", include_self=False)
    check_out(op, out, src, dim)
    if out.dtype == torch.bool:
        raise NotImplementedError(f"{op}(): src must be numbers, which have a mean, got {src.dtype}")
    route, reduction = ElementRoute(dim), Reduction("mean", counts_self=False)
    if needs_operators(op):
        return replace_with(out, route.reduce(out.clone(), src, (index,), reduction))
    return reduce_(route, out, src, (index,), reduction)


def counts(index: Tensor, src: Tensor, dim: int, size: int) -> Tensor:
    """How many elements each target gets: int64, with as many dimensions as `src`; of size 1 where `index`, as the user
    gave it, is broadcast.
    """
    shape = [1] * dim + list(index.shape) if index.dim() == 1 else list(index.shape)
    narrow = index.reshape(shape + [1] * (src.dim() - len(shape)))
    ones = torch.ones((), dtype=torch.int64, device=src.device).expand(narrow.shape)
    zeros = torch.zeros(result_shape(narrow, dim, size), dtype=torch.int64, device=src.device)
    return _added(zeros, dim, narrow, ones)


def _added(zeros: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """The zeros are not used elsewhere, so they are written in place; but vmap writes no batch into what has none."""
    add = functional.scatter_add if transforms_active() else functional.scatter_add_
    return add(zeros, dim, index, src)


@typed
@reports_index
def scatter_min(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The smallest of the elements of `src` that `index` aims at each place along `dim`, and where it is:
    torch_scatter.scatter_min.

    Arguments, results and errors are those of `scatter_max`, for the smallest. -0 counts as smaller than +0.

    Determinism: exact, both this and its derivatives.

    Cost: as `scatter_max`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_min(torch.tensor([5., 2., 2.]), torch.tensor([0, 2, 2]))
        (tensor([5., 0., 2.]), tensor([0, 3, 1]))
    """
    return extremum_by_index("scatter_min", src, index, dim, out, dim_size, largest=False)


@typed
@reports_index
def scatter_max(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The largest of the elements of `src` that `index` aims at each place along `dim`, and where it is:
    torch_scatter.scatter_max.

    Args:
        src: the elements: real numbers of any dtype, or bools.
        index, dim, dim_size: as for `scatter_sum`.
        out: competes with the elements and takes the result, in place; where it is as large as they are it stands.

    Returns:
        The largest elements, 0 at places without any, and their positions along `dim`, int64: of equal elements the
        first, and src.size(dim) where there is none or `out` stands. The gradient goes to that one element.

    Raises:
        RuntimeError, IndexError: as `scatter_sum`.

    Determinism: exact, both this and its derivatives. A NaN wins over all numbers (torch_scatter passes over it), and
    +0 counts as larger than -0.

    Cost: on the CPU rows of at least 8 elements are grouped by target and read once; one column of many targets takes
    three passes in the order of memory, and 12 bytes a row; else one read of src for each thread's range of targets.
    On CUDA 3 launches (5 for numbers of 64 bits), one integer atomic an element or two, no sort, no temporary memory.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter_max(torch.tensor([5., 2., 2.]), torch.tensor([0, 2, 2]), dim_size=4)
        (tensor([5., 0., 2., 0.]), tensor([0, 3, 1, 3]))
    """
    return extremum_by_index("scatter_max", src, index, dim, out, dim_size, largest=True)


def extremum_by_index(
    op: str, src: Tensor, index: Tensor, dim: int, out: Tensor | None, dim_size: int | None, largest: bool
) -> tuple[Tensor, Tensor]:
    """`scatter_max` or `scatter_min`, under the name `op`."""
    index, dim = align(op, src, index, dim)
    if src.is_complex():
        raise RuntimeError(f"{op}(): complex numbers have no order, got src of {src.dtype}")
    if out is None:
        return extremum(src, dim, index, size_of_result(op, index, dim_size), None, largest)
    check_out(op, out, src, dim)
    own = out.clone() if needs_autograd(src, out) else out  # else a derivative would see what is written below
    values, positions = extremum(src, dim, index, out.shape[dim], own, largest)
    return out.copy_(values), positions


@typed
@reports_index
def scatter(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> Tensor:
    """The elements of `src` that `index` aims at each place along `dim`, reduced: torch_scatter.scatter.

    Not to be taken for reprocuda.scatter(input, dim, index, src), which is torch.scatter.

    Args:
        src, index, dim, out, dim_size: as for `scatter_sum`.
        reduce: "sum" or "add", "mul", "mean", "min", "max".

    Returns:
        What the function of that name returns, without the positions.

    Raises:
        ValueError: `reduce` is something else.
        RuntimeError, IndexError: as the function of that name.

    Determinism: exact, as the function of that name.

    Cost: as the function of that name.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.scatter(torch.tensor([1., 2., 4.]), torch.tensor([0, 2, 2]), reduce="max")
        tensor([1., 0., 4.])
    """
    if reduce not in _BY_NAME:
        raise ValueError(f"scatter(): reduce must be one of {', '.join(_BY_NAME)}, got {reduce!r}")
    result = _BY_NAME[reduce](src, index, dim, out, dim_size)
    return result[0] if isinstance(result, tuple) else result


_BY_NAME = {
    "sum": scatter_sum,
    "add": scatter_sum,
    "mul": scatter_mul,
    "mean": scatter_mean,
    "min": scatter_min,
    "max": scatter_max,
}
