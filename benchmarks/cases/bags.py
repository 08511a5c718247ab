"""Embedding bags: rows of a table in bags of one size, and what their gradients add up."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import torch
from torch.nn.functional import embedding_bag

import reprocuda
from benchmarks.cases.base import DETERMINISTIC, OURS, Case, short, torch_deterministic
from benchmarks.exactness import round_once
from benchmarks.timing import Contestant

SAMPLES = 12
MODES = ("sum", "mean", "max", "weights")


@dataclass
class Problem:
    indices: torch.Tensor  # [num_bags, bag_size]
    table: torch.Tensor
    weights: torch.Tensor | None
    seeds: torch.Tensor  # the gradient of the bags
    wanted: list[tuple[tuple[int, int], float]]  # some results, by position
    copies: tuple[None] = (None,)  # nothing is written into

    def share_right(self, result: torch.Tensor) -> float:
        return sum(float(result[at]) == right for at, right in self.wanted) / len(self.wanted)


@dataclass(frozen=True)
class EmbeddingBag(Case):
    num_rows: int
    features: int
    bag_size: int
    num_bags: int
    mode: str = "sum"  # or "weights": a sum with per_sample_weights
    backward: bool = False
    dtype: str = "float32"
    goals: dict = field(default_factory=dict)

    @property
    def family(self) -> str:
        return f"EmbeddingBag {self.mode}{' backward' * self.backward}"

    @property
    def shape(self) -> str:
        bags, size, features, rows = map(short, (self.num_bags, self.bag_size, self.features, self.num_rows))
        return f"{bags} bags of {size}, {features}, {rows}"

    def make_problem(self, device: str) -> Problem:
        generator = torch.Generator().manual_seed(self.num_rows + self.features)

        def numbers(*shape: int) -> torch.Tensor:
            return torch.randn(shape, dtype=torch.float64, generator=generator).to(getattr(torch, self.dtype))

        indices = torch.randint(self.num_rows, (self.num_bags, self.bag_size), generator=generator)
        table, seeds = numbers(self.num_rows, self.features), numbers(self.num_bags, self.features)
        weights = numbers(self.num_bags, self.bag_size) if self.mode == "weights" else None
        column = self.features - 1
        of_table = table[:, column]
        wanted = []
        for sample in torch.randint(self.num_bags, (SAMPLES,), generator=generator).tolist():
            at = int(indices[sample, 0]) if self.backward else sample
            if self.backward:
                value = self.exact_gradient(at, indices, seeds[:, column], weights, of_table)
            else:
                value = self.exact_value(at, indices, of_table, weights)
            wanted.append(((at, column), round_once(value, table.dtype)))
        moved = (tensor if tensor is None else tensor.to(device) for tensor in (indices, table, weights, seeds))
        return Problem(*moved, wanted)

    def exact_value(self, bag: int, indices: torch.Tensor, column: torch.Tensor, weights) -> Fraction:
        terms = [Fraction(x) for x in column[indices[bag]].double().tolist()]
        if self.mode == "max":
            return max(terms)
        if weights is not None:
            terms = [x * Fraction(w) for x, w in zip(terms, weights[bag].double().tolist(), strict=True)]
        return sum(terms) / (self.bag_size if self.mode == "mean" else 1)

    def exact_gradient(
        self, row: int, indices: torch.Tensor, column: torch.Tensor, weights, of_table: torch.Tensor
    ) -> Fraction:
        bags, places = (indices == row).nonzero(as_tuple=True)
        if self.mode == "max":  # all of it to the first of the largest
            first = of_table[indices[bags]].argmax(1) == places
            bags, places = bags[first], places[first]
        wide = torch.float64 if self.dtype == "float64" else torch.float32
        share = Fraction(float(torch.tensor(float(self.bag_size), dtype=wide).reciprocal()))
        factors = [share if self.mode == "mean" else 1] * len(bags)
        if weights is not None:
            factors = [Fraction(w) for w in weights[bags, places].double().tolist()]
        return sum((Fraction(x) * w for x, w in zip(column[bags].double().tolist(), factors, strict=True)), Fraction(0))

    def contestants(self, problem: Problem) -> list[Contestant]:
        mode = "sum" if self.mode == "weights" else self.mode

        def bags(function: Callable) -> Callable[[], torch.Tensor]:
            def run(
                table: torch.Tensor = problem.table, weights: torch.Tensor | None = problem.weights
            ) -> torch.Tensor:
                return function(problem.indices, table, mode=mode, per_sample_weights=weights)

            if not self.backward:
                return run
            leaves = [
                tensor.clone().requires_grad_() for tensor in (problem.table, problem.weights) if tensor is not None
            ]
            result = run(*leaves)
            return lambda: torch.autograd.grad(result, leaves, problem.seeds, retain_graph=True)[0]

        def contestant(name: str, run: Callable, exact: bool, *scope: Callable) -> Contestant:
            def judge() -> tuple[str, float | None]:
                share = problem.share_right(run())
                return (f"only {share:.0%} of the sampled results are right" if exact and share < 1 else "", share)

            return Contestant(name, lambda copy: None, lambda copy: run(), judge, *scope)

        found = [
            contestant("embedding_bag", bags(embedding_bag), False),
            contestant(OURS, bags(reprocuda.embedding_bag), True),
        ]
        if problem.table.device.type == "cpu":
            found.insert(1, contestant(DETERMINISTIC, bags(embedding_bag), False, torch_deterministic))
        return found


def cases() -> list[Case]:
    goals = {2: {(OURS, "embedding_bag"): 3.0}}  # and at most 1 on the median case
    found: list[Case] = []
    for mode in MODES:
        for num_rows, features in ((100_000, 8), (1_000_000, 8), (100_000, 64), (100_000, 128)):
            for bag_size, num_bags in ((10, 10_000), (50, 4000)):
                for backward in (False, True):
                    found.append(EmbeddingBag(num_rows, features, bag_size, num_bags, mode, backward, goals=goals))
        for dtype in ("bfloat16", "float64"):
            for backward in (False, True):
                found.append(EmbeddingBag(100_000, 64, 50, 4000, mode, backward, dtype, goals=goals))
    return found
