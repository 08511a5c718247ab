"""segment_reduce, by torch's name and arguments: rows that are grouped already, by lengths or offsets, reduced."""

from __future__ import annotations

import torch
from torch import Tensor

from ..arguments.alpha import Number
from ..arguments.irregular import torch_or_refuse
from ..arguments.signatures import typed
from ..families.segments import reduce_segments


@typed
def segment_reduce(
    data: Tensor,  # [..., num_rows, ...]
    reduce: str,
    *,
    lengths: Tensor | None = None,  # [..., num_segments]
    indices: Tensor | None = None,
    offsets: Tensor | None = None,  # [..., num_segments + 1]
    axis: int = 0,
    unsafe: bool = False,
    initial: Number | None = None,
) -> Tensor:
    """Each segment of consecutive rows along `axis`, reduced: torch.segment_reduce.

    Args:
        data: float16, bfloat16, float32 or float64.
        reduce: "sum", "mean", "max", "min" or "prod"; "amax" and "amin" are the same as "max" and "min".
        lengths: int32 or int64: how many rows each segment has; the leading dimensions are those of `data`.
        indices: None, as torch has it.
        offsets: int32 or int64, in place of lengths, which are not looked at then: where each segment starts, and the
            last ends. Rows outside of all segments are passed over.
        axis: the last dimension of lengths or offsets.
        unsafe: lengths need not cover `data`.
        initial: one more member of each segment, and what an empty one is; a mean does not count it. Without it, an
            empty segment is 0 (sum), 1 (prod), NaN (mean), -inf (max) or inf (min).

    Returns:
        A tensor like `data`, but for num_segments along `axis`.

    Raises:
        RuntimeError, NotImplementedError: whatever torch.segment_reduce raises; lengths or offsets that fall or leave
            `data`, which torch does not always look at. On CUDA, as in compiled code, offsets and unsafe lengths are
            not read, which would wait for the device, but bounded by `data`; see `check_indices`. Other lengths that
            do not cover `data` are a device assert in code compiled for CUDA.

    Determinism: exact. The members of a segment may come in any order. In derivatives, a factor of a product gets
        result / factor, as in torch: rounded twice, and 0, inf or NaN where the result is.

    Cost: O(data + result), and for a mean with an initial value other than 0 a copy of both; nothing is sorted or
        searched, and on CUDA lengths wait for the device as torch's do.

    Example:
        >>> import torch, reprocuda
        >>> data = torch.tensor([1e8, 1.0, -1e8, 5.0])
        >>> reprocuda.segment_reduce(data, "sum", lengths=torch.tensor([3, 0, 1]))
        tensor([1., 0., 5.])
    """
    try:
        return reduce_segments(data, reduce, lengths, indices, offsets, axis, unsafe, initial)
    except ValueError as reason:
        keywords = {"lengths": lengths, "indices": indices, "offsets": offsets, "axis": axis, "unsafe": unsafe}
        native = torch.segment_reduce
        return torch_or_refuse("segment_reduce", reason, native, data, reduce, **keywords, initial=initial)
