"""Every way in which the library can solve a by-index problem, each a scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ALGORITHMS = ["auto", "rows", "bins", "partition", "small", "fixed_point"]
STAGES = ["filter", "pairs", "superaccumulators"]  # from the cheapest to the last


def force(algorithm: str, stage: str) -> None:
    torch.ops.reprocuda._set_forced_algorithm(algorithm)
    torch.ops.reprocuda._set_first_stage(STAGES.index(stage))


@contextmanager
def forced(algorithm: str = "auto", stage: str = "filter") -> Iterator[None]:
    """Inside, `algorithm` serves every problem or refuses it, and every output enters at `stage`."""
    force(algorithm, stage)
    try:
        yield
    finally:
        force("auto", "filter")
