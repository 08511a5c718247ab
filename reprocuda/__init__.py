"""Sums by index that are exact: the same bits on every run, thread count, device and order of the contributions."""

from . import compiled  # noqa: F401 - registers what torch.compile needs of the operators
from ._library import build_info
from .checks import check_indices
from .functional import index_add, index_add_, index_put, index_put_, scatter_add, scatter_add_, segment_sum
from .plan import SegmentPlan
from .reading import embedding, gather, index, index_select, take_along_dim

__all__ = [
    "SegmentPlan",
    "build_info",
    "check_indices",
    "embedding",
    "gather",
    "index",
    "index_add",
    "index_add_",
    "index_put",
    "index_put_",
    "index_select",
    "scatter_add",
    "scatter_add_",
    "segment_sum",
    "take_along_dim",
]
