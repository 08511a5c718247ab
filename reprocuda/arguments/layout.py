"""How results lie in memory: as torch's do."""

from __future__ import annotations

from torch import Tensor


def laid_out_as(result: Tensor, like: Tensor) -> Tensor:
    """`result` with its dimensions in the order in memory of those of `like`, which has as many: what torch returns
    where its result begins as a copy. Where `like` repeats an element there is none, and `result` stays as it is.
    """
    if like.is_contiguous():
        return result
    if any(size > 1 and stride == 0 for size, stride in zip(like.shape, like.stride(), strict=True)):
        return result
    order = sorted(range(like.dim()), key=like.stride, reverse=True)
    back = sorted(range(like.dim()), key=order.__getitem__)
    return result.permute(order).contiguous().permute(back)
