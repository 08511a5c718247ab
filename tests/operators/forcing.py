"""Every way in which the library can solve a by-index problem, each a scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ALGORITHMS = ["auto", "rows", "bins", "partition", "small", "fixed_point"]


def force(algorithm: str, exact: bool) -> None:
    torch.ops.reprocuda._set_forced_algorithm(algorithm)
    torch.ops.reprocuda._set_force_exact(exact)


@contextmanager
def forced(algorithm: str = "auto", exact: bool = False) -> Iterator[None]:
    """Inside, `algorithm` serves every problem or refuses it; with `exact` every output takes the exact fallback."""
    force(algorithm, exact)
    try:
        yield
    finally:
        force("auto", False)
