"""How by-index problems are solved: the libraries' test hooks, each a scope here, on every device that is loaded."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import reprocuda

STAGES = ["filter", "pairs", "superaccumulators"]  # from the cheapest to the last, as the CPU has them


def _set(algorithm: str, stage: str) -> None:
    torch.ops.reprocuda._set_forced_algorithm(algorithm)
    torch.ops.reprocuda._set_first_stage(STAGES.index(stage))
    if reprocuda.build_info()["cuda_loaded"]:
        torch.ops.reprocuda._set_forced_algorithm_cuda(algorithm)
        torch.ops.reprocuda._set_first_stage_cuda(STAGES.index(stage))


@contextmanager
def forced(algorithm: str = "auto", stage: str = "filter") -> Iterator[None]:
    """Inside, `algorithm` serves every problem and every output enters at `stage`; on CUDA the last two are one."""
    _set(algorithm, stage)
    try:
        yield
    finally:
        _set("auto", "filter")
