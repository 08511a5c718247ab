"""The benchmark's own judge: sampled outputs recomputed in whole numbers, so that no wrong result is timed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import torch

_SCALE = 1074  # every float64, and so every narrower float, is a multiple of 2**-1074
_FORMATS = {  # significand bits, exponent of the smallest subnormal
    torch.float64: (53, -1074),
    torch.float32: (24, -149),
    torch.bfloat16: (8, -133),
    torch.float16: (11, -24),
}


def round_once(value: Fraction, dtype: torch.dtype) -> float:
    """The nearest number of a dtype, ties to even. For values far below overflow."""
    precision, lowest = _FORMATS[dtype]
    top = abs(value.numerator).bit_length() - value.denominator.bit_length()
    top -= abs(value) < Fraction(2) ** top
    unit = max(top - precision + 1, lowest)
    return math.ldexp(round(value / Fraction(2) ** unit), unit)


def exact_sum(values: list[float]) -> Fraction:
    total = 0
    for value in values:
        numerator, denominator = value.as_integer_ratio()
        total += numerator << (_SCALE + 1 - denominator.bit_length())
    return Fraction(total, 1 << _SCALE)


def exact_product(values: list[float]) -> Fraction:
    parts = [Fraction(value) for value in values]
    while len(parts) > 1:  # by halves: products of numbers of like sizes are fast
        parts = [math.prod(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


EXACT: dict[str, Callable[[list[float]], Fraction]] = {
    "sum": exact_sum,
    "mean": lambda values: exact_sum(values) / len(values),
    "prod": exact_product,
    "amax": lambda values: Fraction(max(values)),
    "amin": lambda values: Fraction(min(values)),
}


@dataclass(frozen=True)
class Sample:
    """Some outputs of one problem, with the right value of each."""

    targets: torch.Tensor  # [num_samples]
    features: torch.Tensor  # [num_samples]
    right: torch.Tensor  # [num_samples]

    @classmethod
    def draw(
        cls, index: torch.Tensor, src: torch.Tensor, segments: int, reduce: str = "sum", start: float | None = 0.0
    ) -> "Sample":
        """Reductions of `start`, if any, and src [rows, features] by index [rows]."""
        count = min(max(300_000 * segments // len(index), 8), 64)  # whole numbers are slow
        index, src = index.cpu(), src.cpu()
        generator = torch.Generator().manual_seed(7)
        targets = torch.randint(segments, (count,), generator=generator)
        targets[0] = index.mode().values  # the fullest segment
        features = torch.randint(src.shape[1], (count,), generator=generator)
        order = index.argsort(stable=True)
        bounds = torch.searchsorted(index[order], torch.stack([targets, targets + 1]))
        own = [] if start is None else [start]
        right = [
            round_once(EXACT[reduce]([*own, *src[order[first:last], feature].double().tolist()]), src.dtype)
            for first, last, feature in zip(*bounds.tolist(), features.tolist(), strict=True)
        ]
        return cls(targets, features, torch.tensor(right, dtype=torch.float64).to(src.dtype))

    def values(self, result: torch.Tensor) -> torch.Tensor:
        return result.reshape(len(result), -1).cpu()[self.targets, self.features]

    def share_right(self, result: torch.Tensor) -> float:
        """The share of the sampled outputs that have exactly the right value (a zero's sign aside)."""
        return (self.values(result) == self.right).double().mean().item()

    def is_close(self, result: torch.Tensor) -> bool:
        """What may be asked of operators that do not promise exactness: the right problem was solved."""
        tolerance = {torch.float64: 1e-10, torch.float32: 1e-3, torch.bfloat16: 2.0, torch.float16: 0.5}[result.dtype]
        return torch.allclose(self.values(result).double(), self.right.double(), rtol=tolerance, atol=10 * tolerance)

    def is_nan(self, result: torch.Tensor) -> bool:
        """For input that is all NaN: NaN wherever anything was added."""
        return bool((self.values(result).isnan() | (self.right == 0)).all())
