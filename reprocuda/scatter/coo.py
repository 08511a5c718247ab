"""torch_scatter's segment_*_coo and gather_coo: elements that are grouped already, by a sorted index.

The first dimensions of `src` are those of the index, the last of which runs along the elements. An index that is not
sorted is served all the same.
"""

from __future__ import annotations

from torch import Tensor

from ..arguments.signatures import typed
from .reductions import add, extremum_by_index, mean_by_index
from .support import check_index, gathered, last_dim, named, reports_index, restated, values


@typed
@reports_index
def segment_sum_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Tensor:
    """The sum of each segment's elements, named by a sorted index: torch_scatter.segment_sum_coo.

    Args:
        src: [*index.shape, ...], of any dtype that torch can add by index.
        index: int32 or int64, sorted along its last dimension; of size 1 in those before where it is the same for all.
        out: what the sums are added to, in place.
        dim_size: how many segments there are; without it and `out`, the largest index plus 1.

    Returns:
        `out`, or a tensor like `src` but for dim_size in the place of index.shape[-1]; empty segments are 0.

    Raises:
        RuntimeError, IndexError: as `scatter_sum`.

    Determinism: exact, both this and its derivatives.

    Cost: as `scatter_sum`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_sum_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        tensor([3., 0., 4.])
    """
    index, dim = _coo("segment_sum_coo", src, index)
    return add("segment_sum_coo", src, index, dim, out, dim_size)


@typed
@reports_index
def segment_add_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Tensor:
    """`segment_sum_coo` by its other name: torch_scatter.segment_add_coo.

    Arguments, result and errors are those of `segment_sum_coo`.

    Determinism: exact, both this and its derivatives.

    Cost: as `scatter_sum`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_add_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        tensor([3., 0., 4.])
    """
    index, dim = _coo("segment_add_coo", src, index)
    return add("segment_add_coo", src, index, dim, out, dim_size)


@typed
@reports_index
def segment_mean_coo(src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None) -> Tensor:
    """The mean of each segment's elements, named by a sorted index: torch_scatter.segment_mean_coo.

    Arguments, result and errors are those of `segment_sum_coo`; empty segments are 0, and `out` is treated as by
    `scatter_mean`.

    Determinism: exact, as `scatter_mean`.

    Cost: as `scatter_mean`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_mean_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        tensor([1.5000, 0.0000, 4.0000])
    """
    index, dim = _coo("segment_mean_coo", src, index)
    return mean_by_index("segment_mean_coo", src, index, dim, out, dim_size)


@typed
@reports_index
def segment_min_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The smallest of each segment's elements and where it is, by a sorted index: torch_scatter.segment_min_coo.

    Arguments and errors are those of `segment_sum_coo`, results and ties those of `scatter_min`.

    Determinism: exact.

    Cost: as `scatter_max`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_min_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        (tensor([1., 0., 4.]), tensor([0, 3, 2]))
    """
    index, dim = _coo("segment_min_coo", src, index)
    return extremum_by_index("segment_min_coo", src, index, dim, out, dim_size, largest=False)


@typed
@reports_index
def segment_max_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The largest of each segment's elements and where it is, by a sorted index: torch_scatter.segment_max_coo.

    Arguments and errors are those of `segment_sum_coo`, results and ties those of `scatter_max`.

    Determinism: exact.

    Cost: as `scatter_max`.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_max_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        (tensor([2., 0., 4.]), tensor([1, 3, 2]))
    """
    index, dim = _coo("segment_max_coo", src, index)
    return extremum_by_index("segment_max_coo", src, index, dim, out, dim_size, largest=True)


@typed
@reports_index
def segment_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None, reduce: str = "sum"
) -> Tensor:
    """Each segment's elements, named by a sorted index, reduced: torch_scatter.segment_coo.

    Args:
        src, index, out, dim_size: as for `segment_sum_coo`.
        reduce: "sum" or "add", "mean", "min", "max".

    Returns:
        What the function of that name returns, without the positions.

    Raises:
        ValueError: `reduce` is something else.
        RuntimeError, IndexError: as the function of that name.

    Determinism: exact, as the function of that name.

    Cost: as the function of that name.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.segment_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]), reduce="max")
        tensor([2., 0., 4.])
    """
    return named("segment_coo", _COO, reduce)(src, index, out, dim_size)


@typed
def gather_coo(src: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """The element of `src` that each entry of a sorted index names: torch_scatter.gather_coo.

    Args:
        src: [..., num_segments, ...].
        index: int32 or int64 [..., num_elements], with the leading dimensions of `src`.
        out: where to write the result.

    Returns:
        `out`, or a tensor like `src` but for num_elements in the place of num_segments.

    Raises:
        RuntimeError, IndexError: shapes do not fit; an index is out of range.

    Determinism: exact: nothing is summed here, and the gradient is an exact sum.

    Cost: one read by index: torch's index_select where the index is the same for all slices, else its gather.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.gather_coo(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 2]))
        tensor([1., 1., 4.])
    """
    op = "gather_coo"
    check_index(op, "index", index, src)
    dim = last_dim(op, "index", index, src)
    for d in range(dim):
        if index.shape[d] not in (1, src.shape[d]):
            raise RuntimeError(f"{op}(): index has size {index.shape[d]} in dimension {d}, src has {src.shape[d]}")
    try:
        return gathered(op, src, index, dim, out)
    except (IndexError, RuntimeError) as error:
        size = src.shape[dim]
        raise restated(op, index, error, f"dimension {dim} with size {size}", size) from None


def _coo(op: str, src: Tensor, index: Tensor) -> tuple[Tensor, int]:
    """The index with as many dimensions as src, and the dimension along which it runs."""
    check_index(op, "index", index, src)
    dim = last_dim(op, "index", index, src)
    return index.reshape(list(index.shape) + [1] * (src.dim() - index.dim())), dim


_COO = {
    "sum": segment_sum_coo,
    "add": segment_sum_coo,
    "mean": segment_mean_coo,
    "min": values(segment_min_coo),
    "max": values(segment_max_coo),
}
