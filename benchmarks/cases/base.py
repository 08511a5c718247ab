"""What every case is, and the names that rows of the tables are found by."""

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import Any

import torch

import reprocuda
from benchmarks.timing import Contestant

try:
    import torch_scatter
except ImportError:
    torch_scatter = None
if hasattr(torch_scatter, "__reprocuda_shim__"):  # ours under that name
    torch_scatter = None

OURS = "reprocuda"
ALL_NAN = "reprocuda, all NaN"
FORCED_EXACT = "reprocuda, all exact fallback"  # entered at its first stage, pairs of doubles
FORCED_WIDE = "reprocuda, all by superaccumulators"  # which is what they cannot prove
PLANNED = "reprocuda, plan reused"
DETERMINISTIC = "native deterministic"
COLD_CACHE_BYTES = 256 * 2**20  # on a GPU, buffers rotate over at least this much memory


@contextmanager
def torch_deterministic():
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


class Case(ABC):
    """A call of one shape and dtype: `contestants` all make it, on what `make_problem` returns.

    A problem has `copies`, which the timer takes in turns; `goals` are
    threads -> {(contestant, baseline): largest ratio}.
    """

    dtype: str
    goals: dict

    @property
    def family(self) -> str:
        return type(self).__name__

    @property
    @abstractmethod
    def shape(self) -> str:
        """As the table has it."""

    @abstractmethod
    def make_problem(self, device: str) -> Any:
        """The tensors, always the same."""

    @abstractmethod
    def contestants(self, problem: Any) -> list[Contestant]:
        """Everyone who solves the problem, the baselines first."""


def num_copies(device: str, bytes_: int) -> int:
    """Of a problem's tensors: on a GPU so many that no call finds them in a cache."""
    return min(1 + COLD_CACHE_BYTES // max(bytes_, 1), 64) if device == "cuda" else 1


def short(number: int) -> str:
    """1000000 as 1e6, 256 as 256."""
    scientific = f"{number:.0e}".replace("e+0", "e")
    return scientific if number >= 1000 and int(float(scientific)) == number else str(number)


def exists_on(device: str) -> bool:
    return device == "cpu" or (torch.cuda.is_available() and reprocuda.build_info()["cuda_loaded"])
