"""Sums by index that are exact: the same bits on every run, thread count, device and order of the contributions."""

from . import compiled  # noqa: F401 - registers what torch.compile needs of the operators
from ._library import build_info
from .checks import check_indices
from .functional import index_add, index_add_, index_put, index_put_, scatter_add, scatter_add_, segment_sum
from .plan import SegmentPlan
from .reading import embedding, gather, index, index_select, take_along_dim
from .registry import registry
from .report import Status, status
from .scopes import CompileWarning, disable, enable, enabled

__all__ = [
    "CompileWarning",
    "SegmentPlan",
    "Status",
    "build_info",
    "check_indices",
    "disable",
    "embedding",
    "enable",
    "enabled",
    "gather",
    "index",
    "index_add",
    "index_add_",
    "index_put",
    "index_put_",
    "index_select",
    "registry",
    "scatter_add",
    "scatter_add_",
    "segment_sum",
    "status",
    "take_along_dim",
]
