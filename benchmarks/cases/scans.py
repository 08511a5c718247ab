"""Prefix sums along a dimension of a contiguous tensor."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import torch

from benchmarks.cases.base import DETERMINISTIC, OURS, Case, num_copies, short, torch_deterministic
from benchmarks.exactness import round_once
from benchmarks.timing import Contestant

SAMPLES = 12


def exact_prefix(terms: torch.Tensor) -> float:
    """The exact sum of a slice, rounded once to its dtype."""
    values = terms.double().tolist()
    nearest = math.fsum(values)  # of float64
    if terms.dtype == torch.float64:
        return nearest
    values.append(-nearest)  # on which side of `nearest` the sum lies decides where that is a tie
    return round_once(Fraction(nearest) + Fraction(math.fsum(values)), terms.dtype)


def adversarial(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Terms over all exponents. The second half takes the first one back, the largest first, so that its prefixes are
    sums of what is small in the first.
    """
    info = torch.finfo(dtype)
    low, high = math.log2(info.tiny) - 8, math.log2(info.max) - 24
    exponents = torch.empty(shape, dtype=torch.float64).uniform_(low, high, generator=generator)
    signs = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1
    x = (torch.exp2(exponents) * signs).to(dtype)
    half = shape[0] // 2
    x[half : 2 * half] = -x[:half].gather(0, x[:half].abs().argsort(0, descending=True))
    return x


@dataclass
class Problem:
    x: torch.Tensor
    copies: list[tuple[torch.Tensor, torch.Tensor]]  # (out, x), rotated by the timer
    wanted: list[tuple[tuple[int, ...], float]]  # some prefixes, by position in slices(), with their exact sums

    def share_right(self, sums: torch.Tensor) -> float:
        found = slices(sums)
        return sum(found[at].item() == right for at, right in self.wanted) / len(self.wanted)


def slices(x: torch.Tensor) -> torch.Tensor:
    """Without complex numbers: their parts are a dimension of their own."""
    return torch.view_as_real(x).cpu() if x.is_complex() else x.cpu()


@dataclass(frozen=True)
class Cumsum(Case):
    sizes: tuple[int, ...]
    dim: int
    dtype: str = "float32"
    hard: bool = False
    goals: dict = field(default_factory=dict)

    @property
    def shape(self) -> str:
        sizes = ", ".join(map(short, self.sizes))
        return sizes + f" along {self.dim}" * (len(self.sizes) > 1) + " adversarial" * self.hard

    def make_problem(self, device: str) -> Problem:
        dtype = getattr(torch, self.dtype)
        generator = torch.Generator().manual_seed(sum(self.sizes))
        if self.hard:
            x = adversarial(self.sizes, dtype, generator)
        else:
            wide = torch.complex128 if dtype.is_complex else torch.float64
            x = torch.randn(self.sizes, dtype=wide, generator=generator).to(dtype)
        parts = slices(x)
        wanted = []
        for sample in range(SAMPLES):
            at = [int(torch.randint(size, (), generator=generator)) for size in parts.shape]
            at[self.dim] = self.sizes[self.dim] - 1 if sample == 0 else at[self.dim] % 100_000
            before = [slice(0, c + 1) if d == self.dim else c for d, c in enumerate(at)]
            wanted.append((tuple(at), exact_prefix(parts[tuple(before)])))
        x = x.to(device)
        copies = [(torch.empty_like(x), x.clone()) for _ in range(num_copies(device, 2 * x.nbytes))]
        return Problem(x, copies, wanted)

    def contestants(self, problem: Problem) -> list[Contestant]:
        def native(out, x):
            return torch.cumsum(x, self.dim, out=out)

        def ours(out, x):
            torch.ops.reprocuda.cumsum_out(x, self.dim, out)
            return out

        def contestant(name, run, exact, scope=None):
            def judge() -> tuple[str, float | None]:
                share = problem.share_right(run(torch.empty_like(problem.x), problem.x))
                return (f"only {share:.0%} of the sampled prefixes are right" if exact and share < 1 else "", share)

            def keep(copy: int) -> None:  # what is there costs nothing
                pass

            return Contestant(name, keep, lambda copy: run(*problem.copies[copy]), judge, *([scope] if scope else []))

        found = [contestant("cumsum", native, False), contestant(OURS, ours, True)]
        if problem.x.device.type == "cpu":  # on CUDA torch refuses
            found.insert(1, contestant(DETERMINISTIC, native, False, torch_deterministic))
        return found


LAYOUTS = (
    ((1_000_000,), 0), ((10_000_000,), 0), ((1000, 1000), 0), ((1000, 1000), 1), ((100_000, 16), 1),
)  # fmt: skip


def cases() -> list[Case]:
    goals = {2: {(OURS, "cumsum"): 3.0}}  # and at most 1 on the median case
    found: list[Case] = [
        Cumsum(sizes, dim, dtype, goals=goals)
        for sizes, dim in LAYOUTS
        for dtype in ("float32", "float64", "bfloat16", "complex64")
    ]
    hard = {2: {(OURS, "cumsum"): 40.0}}
    return found + [Cumsum((1_000_000,), 0, dtype, hard=True, goals=hard) for dtype in ("float32", "float64")]
