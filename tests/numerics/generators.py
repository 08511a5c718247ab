"""Seeded contributions that are hard to sum: [rows, terms] doubles, each exactly a number of the dtype."""

from __future__ import annotations

import math

import numpy as np
import sympy

from tests import oracle

MODES = ["nearest", "down", "up", "zero", "flush"]


def nearest_of(values: np.ndarray, dtype: str) -> np.ndarray:
    """Some number of the dtype close to each double, by truncation of bits: good enough to generate data."""
    if dtype == "bfloat16":
        bits = np.clip(values, -1e38, 1e38).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(np.float64)
    largest = np.finfo(dtype).max
    return np.clip(values, -largest, largest).astype(dtype).astype(np.float64)


def any_finite(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    form = oracle.FORMATS[dtype]
    size = rng.integers(0, form.infinity, shape, dtype=np.uint64)
    sign = rng.integers(0, 2, shape, dtype=np.uint64) * np.uint64(form.sign)
    return oracle.to_double((size | sign).astype(form.bits), dtype)


def normal(rng, dtype, shape):
    return nearest_of(rng.standard_normal(shape), dtype)


def lognormal(rng, dtype, shape):
    return nearest_of(np.exp(4 * rng.standard_normal(shape)) * rng.choice([-1.0, 1.0], shape), dtype)


def cancelling(rng, dtype, shape):
    """The second half takes back the first, but for one term: exactly, or by a neighbouring number."""
    values = any_finite(rng, dtype, shape) if rng.integers(2) else lognormal(rng, dtype, shape)
    half = shape[1] // 2
    values[:, half : 2 * half] = -values[:, :half]
    keep = rng.integers(0, 2, shape[0]).astype(bool)
    values[keep, -1] = any_finite(rng, dtype, (shape[0], 1))[keep, 0]
    return rng.permuted(values, axis=1)


def ties(rng, dtype, shape):
    """A number, half a unit of its last place in two pieces, and sometimes a whisker that breaks the tie."""
    form = oracle.FORMATS[dtype]
    half_range = 20 if dtype == "float16" else 80
    exponent = rng.integers(-half_range // 8, half_range // 8, shape[0]).astype(np.float64)
    head = (1 + rng.integers(0, 1 << form.fraction_bits, shape[0]) * 2.0**-form.fraction_bits) * 2.0**exponent
    values = np.zeros(shape)
    values[:, 0] = head
    values[:, 1] = 2.0 ** (exponent - form.fraction_bits - 2)
    values[:, 2] = values[:, 1] * rng.choice([1.0, -3.0, 1.0], shape[0])
    whisker = 2.0**form.unit_exponent if dtype != "float64" else 2.0**-300
    values[:, 3] = whisker * rng.choice([0.0, 0.0, 1.0, -1.0], shape[0])
    values *= rng.choice([-1.0, 1.0], (shape[0], 1))
    return rng.permuted(values, axis=1)


def subnormal(rng, dtype, shape):
    form = oracle.FORMATS[dtype]
    size = rng.integers(0, 1 << (form.fraction_bits + 1), shape, dtype=np.uint64)
    sign = rng.integers(0, 2, shape, dtype=np.uint64) * np.uint64(form.sign)
    return oracle.to_double((size | sign).astype(form.bits), dtype)


def overflow_edge(rng, dtype, shape):
    """Sums of numbers near the largest that end near the largest."""
    form = oracle.FORMATS[dtype]
    bits = form.infinity - 1 - rng.integers(0, 3, shape, dtype=np.uint64)
    values = oracle.to_double(bits.astype(form.bits), dtype)
    values[:, 1::2] *= -1
    if shape[1] > 3:
        unit = float(oracle.fraction_of(form.infinity - 1, dtype) - oracle.fraction_of(form.infinity - 2, dtype))
        values[:, 1] = unit * rng.choice([0.0, 0.25, 0.5, 1.0], shape[0])
        values[:, 3] = unit * rng.choice([0.0, -(2.0**-6), -0.5], shape[0])
    return rng.permuted(values, axis=1)


def zeros_and_ones(rng, dtype, shape):
    """Few distinct values, both zeros among them, so that exact zeros of every origin are common."""
    tiny = 2.0 ** oracle.FORMATS[dtype].unit_exponent
    values = rng.choice([-0.0, -0.0, -0.0, 0.0, 1.0, -1.0, tiny, -tiny], shape)
    values[: shape[0] // 4] = -0.0
    values[: shape[0] // 8, -1] = 0.0
    return values


def specials(rng, dtype, shape):
    values = any_finite(rng, dtype, shape)
    where = rng.random(shape) < 0.15
    where[np.arange(shape[0]), rng.integers(0, shape[1], shape[0])] = True
    return np.where(where, rng.choice([np.inf, np.inf, -np.inf, np.nan], shape), values)


KINDS = {
    f.__name__: f
    for f in [
        normal, lognormal, cancelling, ties, subnormal, any_finite, overflow_edge, zeros_and_ones, specials,
    ]
}  # fmt: skip


def matrix(kind: str, dtype: str, rows: int, terms: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, rows, terms, *kind.encode(), *dtype.encode()])
    return np.ascontiguousarray(KINDS[kind](rng, dtype, (rows, terms)))


def _prime_factors(number: int) -> list[float]:
    primes = [p for p, power in sympy.factorint(number).items() for _ in range(power)]
    assert max(primes) < 2**53
    return [float(p) for p in primes]


def beside_a_tie(n: int, copies: int = 1) -> np.ndarray:
    """Factors of (2^53 + 3) * (2^n - 1)^copies: below a tie of float64 that would go up, by copies * 2^-n of it."""
    mersenne = [f for d in sympy.divisors(n) if d > 1 for f in _prime_factors(int(sympy.cyclotomic_poly(d, 2)))]
    assert math.prod(map(int, mersenne)) == 2**n - 1
    return np.array([_prime_factors(2**53 + 3) + mersenne * copies])
