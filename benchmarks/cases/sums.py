"""Sums by index."""

import functools
from dataclasses import dataclass

import torch

from benchmarks.cases.base import (
    ALL_NAN,
    DETERMINISTIC,
    FORCED_EXACT,
    FORCED_WIDE,
    OURS,
    PLANNED,
    Case,
    torch_deterministic,
    torch_scatter,
)
from benchmarks.cases.by_index import ByIndex, Problem
from benchmarks.forcing import forced
from benchmarks.timing import Contestant


@dataclass(frozen=True)
class IndexAdd(ByIndex):
    """index_add_ along dimension 0; with one feature, beside scatter_add_ too."""

    def contestants(self, problem: Problem) -> list[Contestant]:
        add = functools.partial(self.contestant, problem)
        index = problem.index

        def native(out, src):
            return out.index_add_(0, index, src)

        def ours(out, src):
            torch.ops.reprocuda.index_add_(out, 0, index, src)
            return out

        found = [
            add("index_add_", native),
            add(DETERMINISTIC, native, scope=torch_deterministic),
            add(OURS, ours, promise="exact"),
        ]
        if self.features == 1:
            found.insert(1, add("scatter_add_", lambda out, src: out.scatter_add_(0, index, src)))
        if torch_scatter is not None:
            scatter = torch_scatter.scatter_sum
            found.append(add("torch_scatter", lambda out, src: scatter(src, index, dim=0, dim_size=self.segments)))
        if self.variants:
            permutation, offsets = torch.ops.reprocuda.segment_plan(index, self.segments)

            def planned(out, src):
                torch.ops.reprocuda.index_add_planned_(out, 0, permutation, offsets, src)
                return out

            found += [
                add(PLANNED, planned, promise="exact"),
                add(ALL_NAN, ours, promise="nan", src=problem.nan()),
                add(FORCED_EXACT, ours, promise="exact", scope=functools.partial(forced, stage="pairs")),
                add(FORCED_WIDE, ours, promise="exact", scope=functools.partial(forced, stage="superaccumulators")),
            ]
        return found


@dataclass(frozen=True)
class ScatterAdd(ByIndex):
    """scatter_add_ with an index for every element: the same index in every column, but spelled out."""

    def contestants(self, problem: Problem) -> list[Contestant]:
        index = problem.index if self.features == 1 else problem.index[:, None].repeat(1, self.features)

        def native(out, src):
            return out.scatter_add_(0, index, src)

        def ours(out, src):
            torch.ops.reprocuda.scatter_add_(out, 0, index, src)
            return out

        add = functools.partial(self.contestant, problem)
        return [
            add("scatter_add_", native),
            add(DETERMINISTIC, native, scope=torch_deterministic),
            add(OURS, ours, promise="exact"),
        ]


@dataclass(frozen=True)
class EmbeddingBackward(ByIndex):
    """The dense gradient of an embedding table."""

    def contestants(self, problem: Problem) -> list[Contestant]:
        arguments = (problem.index, self.segments, -1, False)

        def native(_, src):
            grad = src.reshape(self.rows, self.features)
            return torch.ops.aten.embedding_dense_backward(grad, *arguments)

        def ours(_, src):
            grad = src.reshape(self.rows, self.features)
            return torch.ops.reprocuda.embedding_dense_backward(grad, *arguments)

        add = functools.partial(self.contestant, problem)
        return [
            add("embedding_dense_backward", native),
            add(DETERMINISTIC, native, scope=torch_deterministic),
            add(OURS, ours, promise="exact"),
        ]


# (rows, features, segments, Zipf) -> the largest ratio to index_add_ with 2 threads, and to scatter_add_ (one feature)
SHAPES = {
    (1_000_000, 16, 100_000, False): (0.4, None),
    (1_000_000, 64, 50_000, False): (0.65, None),
    (200_000, 256, 10_000, False): (0.9, None),
    (100_000, 768, 50_000, True): (0.65, None),
    (1_000_000, 1, 10_000, False): (1.0, 1.0),
    (1_000_000, 1, 1_000_000, False): (2.0, 3.0),
    (10_000_000, 1, 256, False): (1.0, 1.5),
}


def cases() -> list[Case]:
    found: list[Case] = []
    for (rows, features, segments, zipf), (goal, scatter_goal) in SHAPES.items():
        goals = {
            2: {(OURS, "index_add_"): goal, (FORCED_EXACT, "index_add_"): 5.0, (ALL_NAN, OURS): 1.5},
            1: {(OURS, "index_add_"): 1.0} if features > 1 else {},
        }
        if scatter_goal:
            goals[2][OURS, "scatter_add_"] = scatter_goal
        shape = (rows, features, segments, zipf)
        found.append(IndexAdd(*shape, goals=goals))
        found += [IndexAdd(*shape, dtype=dtype, variants=False) for dtype in ("bfloat16", "float64")]
        found.append(EmbeddingBackward(*shape, goals={2: {(OURS, "embedding_dense_backward"): 0.4}}))
    found.append(ScatterAdd(1_000_000, 16, 100_000))
    return found
