"""Rows that are grouped already, reduced; and the largest or smallest by index with its position."""

import functools
from dataclasses import dataclass, replace

import torch

import reprocuda
from benchmarks.cases.base import OURS, Case, torch_scatter
from benchmarks.cases.by_index import ByIndex, Problem, make_problem
from benchmarks.exactness import Sample
from benchmarks.timing import Contestant

AMAX = {"max": "amax", "min": "amin"}


@dataclass(frozen=True)
class SegmentReducing(ByIndex):
    """segment_reduce of segments about equally long, none empty; with `slices`, along axis 1, each slice its own."""

    slices: int = 1

    @property
    def family(self) -> str:
        return f"SegmentReduce {self.reduce}"

    @property
    def shape(self) -> str:
        return super().shape + f" in {self.slices} slices" * (self.slices > 1)

    def make_problem(self, device: str) -> Problem:
        generator = torch.Generator().manual_seed(self.rows + self.features)
        rows, segments = self.rows // self.slices, self.segments // self.slices
        index = torch.randint(segments, (self.slices, rows), generator=generator)
        index[:, :segments] = torch.arange(segments)
        index = (index.sort().values + torch.arange(self.slices)[:, None] * segments).flatten()
        shape = (self.rows,) if self.features == 1 else (self.rows, self.features)
        # Near 1, so that products neither overflow nor vanish.
        src = (torch.rand(shape, generator=generator) + 0.5).to(getattr(torch, self.dtype))
        sample = Sample.draw(index, src.reshape(self.rows, -1), self.segments, AMAX.get(self.reduce, self.reduce), None)
        problem = Problem(index.to(device), src.to(device), self.segments, sample)
        return replace(problem, copies=[(problem.fresh()[:0], problem.src)])  # nothing is written into

    def contestants(self, problem: Problem) -> list[Contestant]:
        lengths = torch.bincount(problem.index, minlength=self.segments)
        sliced = self.slices > 1
        lengths = lengths.reshape(self.slices, -1) if sliced else lengths

        def run(function, out, src):
            data = src.reshape(self.slices, -1, *src.shape[1:]) if sliced else src
            result = function(data, self.reduce, lengths=lengths, axis=int(sliced))
            return result.flatten(0, 1) if sliced else result

        add = functools.partial(self.contestant, problem)
        return [
            add("segment_reduce", functools.partial(run, torch.segment_reduce)),
            add(OURS, functools.partial(run, reprocuda.segment_reduce), promise="exact"),
        ]


@dataclass(frozen=True)
class ScatterExtremum(ByIndex):
    """scatter_max and scatter_min, beside torch_scatter's; scatter_reduce does not say where it is."""

    @property
    def family(self) -> str:
        return f"Scatter {self.reduce}"

    def make_problem(self, device: str) -> Problem:
        return make_problem(replace(self, reduce=AMAX[self.reduce]), device)

    def contestants(self, problem: Problem) -> list[Contestant]:
        rows, name = problem.index, AMAX[self.reduce]
        spread = rows if self.features == 1 else rows[:, None].expand(-1, self.features)
        order = torch.arange(self.rows, device=rows.device)
        order = order if self.features == 1 else order[:, None].expand(-1, self.features)
        ours_ = getattr(reprocuda.scatter, f"scatter_{self.reduce}")

        def values_only(out, src):
            return out.scatter_reduce_(0, spread, src, name)

        def and_positions(out, src):
            values = out.scatter_reduce_(0, spread, src, name)
            mine = torch.where(src == values.gather(0, spread), order, self.rows)
            torch.full(values.shape, self.rows).scatter_reduce_(0, spread, mine, "amin")
            return values

        def ours(out, src):
            return ours_(src, rows, 0, out)[0]

        add = functools.partial(self.contestant, problem)
        found = [add("scatter_reduce_", values_only), add(OURS, ours, promise="exact")]
        if rows.device.type == "cpu":
            found.insert(1, add("scatter_reduce_ twice", and_positions))
        if torch_scatter is not None:
            theirs = getattr(torch_scatter, f"scatter_{self.reduce}")
            found.append(add("torch_scatter", lambda out, src: theirs(src, rows, 0, out)[0]))
        return found


def cases() -> list[Case]:
    found: list[Case] = []
    goals = {2: {(OURS, "segment_reduce"): 3.0}}  # and at most 1 on the median case
    for shape in ((1_000_000, 1, 100_000), (1_000_000, 16, 100_000), (200_000, 256, 20_000)):
        for reduce in ("sum", "mean", "max", "min", "prod"):
            for slices in (1, 10):
                found.append(SegmentReducing(*shape, reduce=reduce, slices=slices, goals=goals))
    goals = {2: {(OURS, "scatter_reduce_"): 3.0, (OURS, "scatter_reduce_ twice"): 1.0, (OURS, "torch_scatter"): 0.2}}
    for shape in ((1_000_000, 16, 100_000), (200_000, 256, 10_000), (1_000_000, 1, 10_000), (1_000_000, 1, 1_000_000)):
        for reduce in AMAX:
            found.append(ScatterExtremum(*shape, reduce=reduce, goals=goals))
    return found
