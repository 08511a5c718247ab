"""Numbers on which sums, products and extrema go wrong in different ways: `make` draws them, `KINDS` names them."""

from __future__ import annotations

import math

import torch

KINDS = ("normal", "small integers", "wide", "extreme", "beside one", "special")


def make(kind: str, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    def integers(low, high):
        return torch.randint(low, high, shape, generator=generator).double()

    normal = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "normal":
        return normal.to(dtype)
    if kind == "small integers":  # ties, zeros
        return integers(-9, 10).to(dtype)
    if kind == "wide":
        return (normal * 2.0 ** integers(-40, 41)).to(dtype)
    if kind == "extreme":  # overflow, gradual underflow
        top = 1000 if dtype == torch.float64 else 127
        return (normal * 2.0 ** integers(-top - 40, top)).to(dtype)
    if kind == "beside one":
        return (1 + integers(-3, 4) * torch.finfo(dtype).eps).to(dtype)
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1, -1, 3], dtype=torch.float64)
    drawn = special[integers(0, 8).long()]
    return torch.where(torch.rand(shape, generator=generator) < 0.8, normal, drawn).to(dtype)
