"""torch's autocast rule for scatter_add and index_put: of two floating types, the wider. torch itself has it on CUDA
only.
"""

from __future__ import annotations

import torch
from torch import Tensor

_CAST_TYPES = (torch.float16, torch.bfloat16, torch.float32)


def widest(base: Tensor, src: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the wider of their types, under autocast; as they are where autocast is off or has no say."""
    if base.dtype == src.dtype or not torch.is_autocast_enabled(base.device.type):
        return base, src
    if base.dtype not in _CAST_TYPES or src.dtype not in _CAST_TYPES:
        return base, src
    dtype = torch.promote_types(base.dtype, src.dtype)
    return base.to(dtype), src.to(dtype)
