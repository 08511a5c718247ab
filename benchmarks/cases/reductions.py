"""Reductions by index other than the sum."""

import functools
import itertools
from dataclasses import dataclass

import torch

from benchmarks.cases.base import DETERMINISTIC, OURS, Case, torch_deterministic
from benchmarks.cases.by_index import ByIndex, Problem
from benchmarks.timing import Contestant


@dataclass(frozen=True)
class Reducing(ByIndex):
    """Other reductions than the sum, of rows or with `elements` of single elements; self is one more member."""

    elements: bool = False

    @property
    def family(self) -> str:
        return f"{'Scatter' if self.elements else 'Index'}Reduce {self.reduce}"

    def contestants(self, problem: Problem) -> list[Contestant]:
        rows = problem.index
        spread = rows if self.features == 1 else rows[:, None].repeat(1, self.features)
        name = "scatter_reduce_" if self.elements else "index_reduce_"
        index, ours_ = spread if self.elements else rows, getattr(torch.ops.reprocuda, name)

        def native(out, src):
            return getattr(out, name)(0, index, src, self.reduce)

        def ours(out, src):
            ours_(out, 0, index, src, self.reduce)
            return out

        add = functools.partial(self.contestant, problem)
        return [
            add(name, native),
            add(DETERMINISTIC, native, scope=torch_deterministic),
            add(OURS, ours, promise="exact"),
        ]


def cases() -> list[Case]:
    found: list[Case] = []
    shapes = [(1_000_000, 16, 100_000), (200_000, 256, 10_000), (1_000_000, 1, 10_000), (1_000_000, 1, 1_000_000)]
    for reduce, shape, elements in itertools.product(("mean", "prod", "amax", "amin"), shapes, (False, True)):
        name = "scatter_reduce_" if elements else "index_reduce_"
        goals = {2: {(OURS, name): 3.0}}  # and at most 1 on the median case
        for dtype in ("float32", "float64", "bfloat16") if reduce in ("mean", "prod") else ("float32",):
            found.append(Reducing(*shape, dtype=dtype, goals=goals, reduce=reduce, elements=elements))
    return found
