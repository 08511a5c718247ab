"""Counting by value: how many points, or how much weight, falls into each bin."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

import reprocuda
from benchmarks.cases.base import DETERMINISTIC, OURS, Case, num_copies, short, torch_deterministic
from benchmarks.exactness import exact_sum, round_once
from benchmarks.timing import Contestant

SAMPLES = 12


@dataclass
class Problem:
    copies: list[tuple[torch.Tensor, torch.Tensor | None]]  # (points, weights), rotated by the timer
    wanted: dict[int, float]  # some bins, by position, with what is right there

    def share_right(self, counts: torch.Tensor) -> float:
        counts = counts.cpu()
        return sum(counts[at].item() == right for at, right in self.wanted.items()) / len(self.wanted)


@dataclass(frozen=True)
class Counting(Case):
    """Points spread evenly over the bins; of bincount integers."""

    function: str  # bincount, histc or histogram
    points: int
    bins: int
    dtype: str = "float32"  # of the weights where there are any, else of the points
    weighted: bool = False
    goals: dict = field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.function.capitalize()

    @property
    def shape(self) -> str:
        return f"{short(self.points)} into {short(self.bins)}" + " weighted" * self.weighted

    def make_problem(self, device: str) -> Problem:
        dtype = getattr(torch, self.dtype)
        generator = torch.Generator().manual_seed(self.points + self.bins)
        keys = torch.randint(0, self.bins, (self.points,), generator=generator)
        keys[-1] = self.bins - 1  # which is how bincount knows their number
        weights = None
        if self.weighted:
            weights = torch.randn(self.points, dtype=torch.float64, generator=generator).to(dtype)
        wanted = {}
        for at in torch.randint(0, self.bins, (SAMPLES,), generator=generator).tolist():
            inside = keys == at
            wanted[at] = int(inside.sum())
            if weights is not None:
                wanted[at] = round_once(exact_sum(weights[inside].double().tolist()), dtype)
        # In the middle of each bin, where all searches agree.
        points = keys if self.function == "bincount" else ((keys + 0.5) / self.bins).to(dtype)
        count = num_copies(device, points.nbytes + (0 if weights is None else weights.nbytes))
        copies = [
            (points.to(device).clone(), None if weights is None else weights.to(device).clone()) for _ in range(count)
        ]
        return Problem(copies, wanted)

    def _call(self, module: object) -> Callable:
        function = getattr(module, self.function)
        if self.function == "bincount":
            return lambda points, weights: function(points, weights)
        if self.function == "histc":
            return lambda points, weights: function(points, self.bins, 0, 1)
        return lambda points, weights: function(points, self.bins, range=(0.0, 1.0), weight=weights).hist

    def contestants(self, problem: Problem) -> list[Contestant]:
        def contestant(name, run, exact=False, scope=None):
            def judge() -> tuple[str, float | None]:
                share = problem.share_right(run(*problem.copies[0]))
                return (f"only {share:.0%} of the sampled bins are right" if exact and share < 1 else "", share)

            def keep(copy: int) -> None:  # nothing is written into
                pass

            return Contestant(name, keep, lambda copy: run(*problem.copies[copy]), judge, *([scope] if scope else []))

        native = self._call(torch)
        found = [contestant(self.function, native), contestant(OURS, self._call(reprocuda), exact=True)]
        if problem.copies[0][0].device.type == "cpu":  # on CUDA torch refuses
            found.insert(1, contestant(DETERMINISTIC, native, scope=torch_deterministic))
        return found


def cases() -> list[Case]:
    found: list[Case] = []
    for points, bins in ((100_000, 100), (100_000, 10_000), (10_000_000, 100), (1_000_000, 1_000_000)):
        for function, weighted in (("bincount", True), ("histc", False), ("histogram", False), ("histogram", True)):
            goals = {2: {(OURS, function): 3.0}}  # and at most 1 on the median case
            found += [
                Counting(function, points, bins, dtype, weighted, goals=goals)
                for dtype in (("float32", "float64") if weighted else ("float32",))
            ]
    return found
