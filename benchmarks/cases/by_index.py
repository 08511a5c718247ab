"""Reductions by index: their tensors and their judge. A module a family beside this one has who solves them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from benchmarks.cases.base import Case, num_copies, short
from benchmarks.exactness import Sample
from benchmarks.timing import Contestant


@dataclass
class Problem:
    """The tensors of one case: src reduced by index, into an output that starts at `start`."""

    index: torch.Tensor  # [rows]
    src: torch.Tensor  # [rows, features], or [rows] where features is 1
    segments: int
    sample: Sample
    start: float = 0.0
    copies: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)  # (out, src), rotated by the timer

    def fresh(self) -> torch.Tensor:
        return self.src.new_full((self.segments, *self.src.shape[1:]), self.start)

    def nan(self) -> torch.Tensor:
        return torch.full_like(self.src, float("nan"))


def make_problem(case: "ByIndex", device: str) -> Problem:
    generator = torch.Generator().manual_seed(case.rows + case.features)
    dtype = getattr(torch, case.dtype)
    if case.zipf:  # the k-th segment has a share of 1 / k
        weights = 1 / torch.arange(1, case.segments + 1, dtype=torch.float64)
        index = torch.multinomial(weights, case.rows, replacement=True, generator=generator)
        index = torch.randperm(case.segments, generator=generator)[index]
    else:
        index = torch.randint(case.segments, (case.rows,), generator=generator)
    shape = (case.rows,) if case.features == 1 else (case.rows, case.features)
    src = torch.randn(shape, generator=generator).to(dtype)
    start = 0.0
    if case.reduce != "sum":  # near 1, so that products neither overflow nor vanish
        start, src = 1.0, (torch.rand(shape, generator=generator) + 0.5).to(dtype)
    sample = Sample.draw(index, src.reshape(case.rows, -1), case.segments, case.reduce, start)
    problem = Problem(index.to(device), src.to(device), case.segments, sample, start)
    footprint = problem.src.nbytes + problem.fresh().nbytes
    problem.copies = [(problem.fresh(), problem.src.clone()) for _ in range(num_copies(device, footprint))]
    return problem


@dataclass(frozen=True)
class ByIndex(Case):
    rows: int
    features: int
    segments: int
    zipf: bool = False
    dtype: str = "float32"
    variants: bool = True  # also all-NaN input, every output through the fallback, and a plan that is reused
    goals: dict = field(default_factory=dict)
    reduce: str = "sum"

    @property
    def shape(self) -> str:
        return ", ".join(map(short, (self.rows, self.features, self.segments))) + " Zipf" * self.zipf

    def make_problem(self, device: str) -> Problem:
        return make_problem(self, device)

    def contestant(self, problem: Problem, name: str, run: Callable, *, promise="close", src=None, scope=None):
        """`run(out, src)` does the work once and returns the result; `promise` is what it must hold to be timed."""

        def prepare(copy: int) -> None:
            out, _ = problem.copies[copy]
            out.fill_(problem.start)

        def call(copy: int) -> object:
            out, finite = problem.copies[copy]
            return run(out, finite if src is None else src)

        def judge() -> tuple[str, float | None]:
            result = run(problem.fresh(), problem.src if src is None else src)
            if promise == "nan":
                return ("" if problem.sample.is_nan(result) else "not NaN", None)
            share = problem.sample.share_right(result)
            kept = share == 1.0 if promise == "exact" else problem.sample.is_close(result)
            return ("" if kept else f"only {share:.0%} of the sampled outputs are right", share)

        return Contestant(name, prepare, call, judge, *([scope] if scope else []))
