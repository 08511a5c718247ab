"""Running products and log-sum-exps along a dimension of a contiguous tensor, beside torch's, which round otherwise."""

import math
from dataclasses import dataclass, field

import torch

from benchmarks.cases.base import OURS, Case, num_copies, short
from benchmarks.cases.scans import LAYOUTS, SAMPLES
from benchmarks.timing import Contestant

COMPILED = {"cumprod": torch.ops.reprocuda.cumprod_out, "logcumsumexp": torch.ops.reprocuda.logcumsumexp_out}
# Of a right value: what the last digits of the dtype, and of float64 behind it, may miss.
TOLERANCE = {"float32": 1.2e-7, "bfloat16": 8e-3, "float64": 1e-9, "complex64": 1e-5}


def right_value(name: str, terms: list) -> complex | float:
    if name == "cumprod":
        return math.prod(terms)
    largest = max(terms)
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))


@dataclass
class Problem:
    x: torch.Tensor
    copies: list[tuple[torch.Tensor, torch.Tensor]]  # (out, x), rotated by the timer
    wanted: list[tuple[tuple[int, ...], complex | float]]  # some prefixes, by position

    def largest_error(self, result: torch.Tensor) -> float:
        result = result.cpu()
        return max(abs(result[at].item() - right) / abs(right) for at, right in self.wanted)


@dataclass(frozen=True)
class Running(Case):
    name: str
    sizes: tuple[int, ...]
    dim: int
    dtype: str = "float32"
    goals: dict = field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.name.capitalize()

    @property
    def shape(self) -> str:
        return ", ".join(map(short, self.sizes)) + f" along {self.dim}" * (len(self.sizes) > 1)

    def make_problem(self, device: str) -> Problem:
        dtype = getattr(torch, self.dtype)
        generator = torch.Generator().manual_seed(sum(self.sizes))
        # Factors near 1, so that a product of all of them is a number still; exponents within some ten of each other.
        x = torch.randn(self.sizes, generator=generator, dtype=torch.float64)
        x = (1 + x * 2.0**-12 if self.name == "cumprod" else 3 * x).to(dtype)
        wanted = []
        for sample in range(SAMPLES):
            at = [int(torch.randint(size, (), generator=generator)) for size in self.sizes]
            at[self.dim] = self.sizes[self.dim] - 1 if sample == 0 else at[self.dim] % 100_000
            before = [slice(0, c + 1) if d == self.dim else c for d, c in enumerate(at)]
            wide = torch.complex128 if dtype.is_complex else torch.float64
            wanted.append((tuple(at), right_value(self.name, x[tuple(before)].to(wide).tolist())))
        x = x.to(device)
        copies = [(torch.empty_like(x), x.clone()) for _ in range(num_copies(device, 2 * x.nbytes))]
        return Problem(x, copies, wanted)

    def contestants(self, problem: Problem) -> list[Contestant]:
        def native(out, x):
            return getattr(torch, self.name)(x, self.dim, out=out)

        def ours(out, x):
            COMPILED[self.name](x, self.dim, out)
            return out

        def contestant(name, run, limit):
            def judge() -> tuple[str, float | None]:
                error = problem.largest_error(run(torch.empty_like(problem.x), problem.x))
                return f"a sampled prefix is wrong by {error:.1e} of it" if error > limit else "", None

            return Contestant(name, lambda copy: None, lambda copy: run(*problem.copies[copy]), judge)

        return [
            contestant(self.name, native, math.inf),
            contestant(OURS, ours, TOLERANCE[self.dtype]),
        ]


def cases() -> list[Case]:
    def goals(name: str) -> dict:
        return {2: {(OURS, name): 3.0}}  # and at most 1 on the median case

    products = [
        Running("cumprod", sizes, dim, dtype, goals=goals("cumprod"))
        for sizes, dim in (*LAYOUTS, ((10_000, 4, 25), 1))
        for dtype in ("float32", "float64", "bfloat16", "complex64")
    ]
    logarithms = [
        Running("logcumsumexp", sizes, dim, dtype, goals=goals("logcumsumexp"))
        for sizes, dim in LAYOUTS
        if sizes != (10_000_000,)
        for dtype in ("float32", "float64", "bfloat16")
    ]
    return products + logarithms
