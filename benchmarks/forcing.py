"""How by-index problems are solved: the libraries' test hooks, each a scope here, on every device that is loaded."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import reprocuda


def _set(algorithm: str, exact: bool) -> None:
    suffixes = ["", "_cuda"] if reprocuda.build_info()["cuda_loaded"] else [""]
    for suffix in suffixes:
        getattr(torch.ops.reprocuda, f"_set_forced_algorithm{suffix}")(algorithm)
        getattr(torch.ops.reprocuda, f"_set_force_exact{suffix}")(exact)


@contextmanager
def forced(algorithm: str = "auto", exact: bool = False) -> Iterator[None]:
    """Inside, `algorithm` serves every problem, and every output goes through the exact fallback if `exact`."""
    _set(algorithm, exact)
    try:
        yield
    finally:
        _set("auto", False)
