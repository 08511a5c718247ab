"""Sparse tensors whose duplicates are added up, there and in dense ones, and products of a sparse with a dense one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import torch

import reprocuda
from benchmarks.cases.base import DETERMINISTIC, OURS, Case, short, torch_deterministic
from benchmarks.exactness import round_once
from benchmarks.timing import Contestant
from reprocuda import functional

SAMPLES = 12


@dataclass
class Problem:
    matrix: torch.Tensor  # [size, size] sparse, with dense dimensions where it is to be coalesced
    dense: torch.Tensor | None  # [size, features]
    wanted: list[tuple[tuple[int, ...], float]]  # some results (values of a sparse one), by position, exact
    copies: tuple[None] = (None,)  # nothing is written into

    def share_right(self, result: torch.Tensor) -> float:
        found = result.values() if result.is_sparse else result
        return sum(float(found[at]) == right for at, right in self.wanted) / len(self.wanted)


@dataclass(frozen=True)
class Sparse(Case):
    size: int
    entries: int
    features: int
    dtype: str = "float32"
    goals: dict = field(default_factory=dict)

    @property
    def shape(self) -> str:
        return ", ".join(map(short, (self.entries, self.features, self.size)))

    def draw(self, *shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Generator]:
        generator = torch.Generator().manual_seed(self.size + self.features)
        indices = torch.randint(self.size, (2, self.entries), generator=generator)
        return indices, self.numbers(generator, self.entries, *shape), generator

    def numbers(self, generator: torch.Generator, *shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator).to(getattr(torch, self.dtype))

    def beside_native(self, problem: Problem, name: str, native: Callable, ours: Callable) -> list[Contestant]:
        def contestant(name: str, run: Callable, exact: bool, *scope: Callable) -> Contestant:
            def judge() -> tuple[str, float | None]:
                share = problem.share_right(run())
                return (f"only {share:.0%} of the sampled results are right" if exact and share < 1 else "", share)

            return Contestant(name, lambda copy: None, lambda copy: run(), judge, *scope)

        found = [contestant(name, native, False), contestant(OURS, ours, True)]
        if problem.matrix.device.type == "cpu":
            found.insert(1, contestant(DETERMINISTIC, native, False, torch_deterministic))
        return found


@dataclass(frozen=True)
class Coalesce(Sparse):
    def make_problem(self, device: str) -> Problem:
        shape = (self.features,) if self.features > 1 else ()
        indices, values, generator = self.draw(*shape)
        wanted = []
        places, entry_of = torch.unique(indices[0] * self.size + indices[1], return_inverse=True)
        for place in torch.randint(places.shape[0], (SAMPLES,), generator=generator).tolist():
            terms = values[entry_of == place].reshape(-1, self.features)[:, -1]
            at = (place, self.features - 1) if shape else (place,)
            wanted.append((at, round_once(sum(map(Fraction, terms.double().tolist())), values.dtype)))
        size = (self.size, self.size, *shape)
        return Problem(torch.sparse_coo_tensor(indices, values, size, check_invariants=True).to(device), None, wanted)

    def contestants(self, problem: Problem) -> list[Contestant]:
        matrix = problem.matrix
        return self.beside_native(problem, "coalesce", matrix.coalesce, lambda: functional.coalesce(matrix))


@dataclass(frozen=True)
class ToDense(Sparse):
    """Rows of `features` dense values, by one index."""

    def make_problem(self, device: str) -> Problem:
        indices, values, generator = self.draw(self.features)
        wanted = []
        for row in torch.randint(self.size, (SAMPLES,), generator=generator).tolist():
            terms = values[indices[0] == row][:, -1].double().tolist()
            wanted.append(((row, self.features - 1), round_once(sum(map(Fraction, terms), Fraction(0)), values.dtype)))
        size = (self.size, self.features)
        matrix = torch.sparse_coo_tensor(indices[:1], values, size, check_invariants=True)
        return Problem(matrix.to(device), None, wanted)

    def contestants(self, problem: Problem) -> list[Contestant]:
        def ours() -> torch.Tensor:
            with reprocuda.enabled():
                return problem.matrix.to_dense()

        return self.beside_native(problem, "to_dense", problem.matrix.to_dense, ours)


@dataclass(frozen=True)
class SparseMm(Sparse):
    layout: str = "coo"
    reduce: str = "sum"  # "mm" is another kernel of torch's than the reduction by "sum"

    @property
    def family(self) -> str:
        return f"SparseMm {self.layout} {self.reduce}"

    def make_problem(self, device: str) -> Problem:
        indices, values, generator = self.draw()
        dense = self.numbers(generator, self.size, self.features)
        coo = torch.sparse_coo_tensor(indices, values, (self.size, self.size), check_invariants=True).coalesce()
        rows, columns = coo.indices()
        wanted = []
        for row in torch.randint(self.size, (SAMPLES,), generator=generator).tolist():
            inside = rows == row
            factors = coo.values()[inside].double().tolist(), dense[columns[inside], -1].double().tolist()
            products = [Fraction(a) * Fraction(b) for a, b in zip(*factors, strict=True)]
            total = sum(products) / (max(len(products), 1) if self.reduce == "mean" else 1)
            wanted.append(((row, self.features - 1), round_once(Fraction(total), dense.dtype)))
        matrix = coo if self.layout == "coo" else coo.to_sparse_csr()
        return Problem(matrix.to(device), dense.to(device), wanted)

    def contestants(self, problem: Problem) -> list[Contestant]:
        matrix, dense = problem.matrix, problem.dense
        reduce = () if self.reduce == "mm" else (self.reduce,)
        return self.beside_native(
            problem,
            "sparse.mm",
            lambda: torch.sparse.mm(matrix, dense, *reduce),
            lambda: functional.sparse_mm(matrix, dense, *reduce),
        )


def cases() -> list[Case]:
    def goals(name: str) -> dict:
        return {2: {(OURS, name): 3.0}}  # and at most 1 on the median case

    found: list[Case] = [
        Coalesce(size, 1_000_000, features, goals=goals("coalesce"))
        for size, features in ((300, 1), (100_000, 1), (300, 16), (100_000, 16))
    ]
    found += [ToDense(size, 100_000, 16, goals=goals("to_dense")) for size in (3000, 100_000)]
    for features in (1, 16, 64):
        for layout, reduce in (("coo", "mm"), ("csr", "mm"), ("csr", "sum"), ("csr", "mean")):
            found.append(
                SparseMm(100_000, 1_000_000, features, goals=goals("sparse.mm"), layout=layout, reduce=reduce)
            )
    for features, dtype in ((4, "float32"), (7, "float32"), (1, "float64"), (5, "float64"), (16, "float64")):
        found.append(SparseMm(100_000, 1_000_000, features, dtype, goals("sparse.mm"), layout="csr", reduce="mm"))
    return found
