"""Sums by index that are exact: the same bits on every run, thread count, device and order of the contributions."""

import importlib

from ._starting import is_run

if not is_run():  # which only starts another interpreter: half of its time would be spent here, for nothing
    from . import (
        checkpoint,
        data,
        functional,
        tracing,  # noqa: F401 - registers what torch.compile needs of the operators
    )
    from ._library import build_info
    from .arguments.checks import check_indices
    from .data import seed_worker
    from .dispatch.registry import registry
    from .dispatch.scopes import CompileWarning, disable, enable, enabled
    from .dispatch.status import Status, status
    from .functional import (
        bincount,
        coalesce,
        cumprod,
        cumprod_,
        cumsum,
        cumsum_,
        embedding,
        embedding_bag,
        gather,
        histc,
        histogram,
        histogramdd,
        index,
        index_add,
        index_add_,
        index_copy,
        index_copy_,
        index_fill,
        index_fill_,
        index_put,
        index_put_,
        index_reduce,
        index_reduce_,
        index_select,
        logcumsumexp,
        masked_scatter,
        masked_scatter_,
        put,
        put_,
        repeat_interleave,
        scatter_,
        scatter_add,
        scatter_add_,
        scatter_reduce,
        scatter_reduce_,
        segment_reduce,
        segment_sum,
        sparse_addmm,
        sparse_mm,
        take,
        take_along_dim,
    )
    from .plan import SegmentPlan
    from .scatter import FUNCTIONS as _torch_scatter
    from .scatter import install_shim as _install_shim
    from .toolkit.flags import ReproducibilityWarning
    from .toolkit.modes import Reproducible, deterministic, reproducible
    from .toolkit.nondeterminism import NondeterministicError
    from .toolkit.seeding import Seeds, fork_rng, rng_state, seed_everything, set_rng_state

    # Importing the package `scatter` has put it in the place of the function, whose attributes its functions become.
    scatter = functional.scatter
    for _function in (*_torch_scatter, _install_shim):
        setattr(scatter, _function.__name__, _function)

__all__ = [
    "AuditResult",
    "CompileWarning",
    "DoctorReport",
    "Manifest",
    "NondeterministicError",
    "Recorder",
    "ReproducibilityWarning",
    "Reproducible",
    "Seeds",
    "SegmentPlan",
    "Status",
    "audit",
    "bincount",
    "build_info",
    "check_indices",
    "checkpoint",
    "coalesce",
    "compare",
    "cumprod",
    "cumprod_",
    "cumsum",
    "cumsum_",
    "data",
    "deterministic",
    "disable",
    "doctor",
    "embedding",
    "embedding_bag",
    "enable",
    "enabled",
    "fork_rng",
    "gather",
    "histc",
    "histogram",
    "histogramdd",
    "index",
    "index_add",
    "index_add_",
    "index_copy",
    "index_copy_",
    "index_fill",
    "index_fill_",
    "index_put",
    "index_put_",
    "index_reduce",
    "index_reduce_",
    "index_select",
    "logcumsumexp",
    "manifest",
    "masked_scatter",
    "masked_scatter_",
    "put",
    "put_",
    "registry",
    "repeat_interleave",
    "reproducible",
    "rng_state",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "seed_everything",
    "seed_worker",
    "segment_reduce",
    "segment_sum",
    "set_rng_state",
    "sparse_addmm",
    "sparse_mm",
    "status",
    "take",
    "take_along_dim",
]

# What is loaded on first use, because importing it takes time: each name, and the module that has it (a module of that
# very name is itself the value).
_LAZY: dict[str, str] = {
    "AuditResult": "auditing.result",
    "DoctorReport": "inspection.doctor",
    "Manifest": "inspection.manifest",
    "Recorder": "auditing.recorder",
    "audit": "auditing.api",
    "auditing": "auditing",
    "compare": "auditing.diagnose",
    "doctor": "inspection.doctor",
    "manifest": "inspection.manifest",
    "integrations": "integrations",
    "reports": "reports",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_LAZY[name]}", __name__)
    value = module if _LAZY[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
