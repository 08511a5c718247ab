"""Sums by index that are exact: the same bits on every run, thread count, device and order of the contributions."""

import importlib

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

# What costs an import that not everybody needs: each name, and the module that has it (a module of that very name is
# itself the value). Loaded when first asked for.
_LAZY: dict[str, str] = {}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_LAZY[name]}", __name__)
    value = module if _LAZY[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
