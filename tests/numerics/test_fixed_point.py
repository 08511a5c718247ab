"""128-bit fixed point: rounded once, and certified only where every candidate rounds alike."""

import math
from fractions import Fraction

import numpy as np
import pytest
import reprocuda_numerics as numerics
from hypothesis import example, given
from hypothesis import strategies as st

from tests import oracle
from tests.numerics.generators import MODES

DTYPES = list(oracle.FORMATS)
MASK = 2**64 - 1


def words(units: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([u >> 64 for u in units]), np.array([u & MASK for u in units], dtype=np.uint64)


def sample(dtype: str, size: int, seed: int) -> tuple[list[int], list[int]]:
    """Integers of every length, many of them ties of the dtype, with exponents that reach both ends of its range."""
    rng = np.random.default_rng(seed)
    form = oracle.FORMATS[dtype]
    units = []
    for _ in range(size):
        length = int(rng.integers(1, 127))
        value = int.from_bytes(rng.bytes(16), "little") >> (128 - length)
        if rng.integers(2):
            cut = max(0, length - form.fraction_bits - 2)
            value = (value >> cut | 1) << cut
        units.append(-value if rng.integers(2) else value)
    largest = (1 << (form.exponent_bits - 1)) - 1
    low = max(form.unit_exponent - 130, -1200)
    return units, rng.integers(low, largest + 3, size).tolist()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounds_once(dtype: str, mode: str):
    units, exponents = sample(dtype, 4000, 10)
    units += [-(2**127), 2**127 - 1, 1, -1]
    exponents += [-100, -100, -20, -20]
    got = numerics.round_fixed(*words(units), exponents, False, dtype, mode)
    for u, e, bits in zip(units, exponents, got.tolist(), strict=True):
        assert bits == oracle.round_fraction(Fraction(u) * Fraction(2) ** e, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sticky_fraction_breaks_ties_upwards(dtype: str):
    precision = oracle.FORMATS[dtype].fraction_bits + 1
    units, exponents = sample(dtype, 4000, 11)
    chosen = [(u, e) for u, e in zip(units, exponents, strict=True) if abs(u) >= 2 ** (precision + 2)]
    units, exponents = [u for u, _ in chosen], [e for _, e in chosen]
    got = numerics.round_fixed(*words(units), exponents, True, dtype)
    for u, e, bits in zip(units, exponents, got.tolist(), strict=True):
        for fraction in (Fraction(1, 2**70), Fraction(1, 2), 1 - Fraction(1, 2**70)):
            assert bits == oracle.round_fraction((u + fraction) * Fraction(2) ** e, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_certificates(dtype: str):
    units, exponents = sample(dtype, 4000, 12)
    rng = np.random.default_rng(13)
    below, above = (rng.integers(0, 2 ** rng.integers(0, 62, 4000)) for _ in range(2))
    below[::5] = above[::5] = 0
    below[1::5] = 0
    certified, bits = numerics.certify_fixed(*words(units), exponents, below, above, False, dtype)
    assert certified[::5].all()
    for i, (u, e) in enumerate(zip(units, exponents, strict=True)):
        scale = Fraction(2) ** e
        candidates = {oracle.round_fraction((u + d) * scale, dtype) for d in (-int(below[i]), 0, int(above[i]))}
        if certified[i]:
            assert candidates == {bits[i]}
        else:
            assert len(candidates) > 1
    assert 0.3 < certified.mean() < 0.99


def test_zeros():
    for u, below, above, all_negative_zero, certified, bits in [
        (0, 0, 0, True, True, 0x80000000),
        (0, 0, 0, False, True, 0),
        (0, 0, 1, False, True, 0),  # every candidate rounds to +0
        (0, 1, 0, False, False, None),  # 0 gives +0, -1 gives -0
        (0, 1, 1, False, False, None),
        (1, 1, 1, False, True, 0),
        (-3, 1, 1, False, True, 0x80000000),
    ]:
        got, result = numerics.certify_fixed(*words([u]), [-300], [below], [above], all_negative_zero, "float32")
        assert got[0] == certified, (u, below, above)
        assert bits is None or result[0] == bits, (u, below, above)


finite = st.floats(allow_nan=False, allow_infinity=False)
short = st.integers(-(2**70), 2**70).map(lambda n: n * 2.0**-60)


@pytest.mark.parametrize("x", [1.0, 3.0, -1.75, 2.0**53 - 1])
def test_adds_exactly_at_every_distance(x: float):
    for exponent in range(-135, 70):
        check_addition(2**125 - 1, exponent, x)


@given(st.integers(-(2**126) + 1, 2**126 - 1), st.integers(-300, 100), st.one_of(finite, short))
def test_adds_exactly_or_not_at_all(units: int, exponent: int, x: float):
    check_addition(units, exponent, x)


@given(st.integers(0, 2**53 - 1), st.integers(-1200, 73), st.booleans(), st.integers(0, 63))
@example(1, -1, False, 0)
@example(2**53 - 1, -64, True, 18)
@example(2**46, 18, True, 63)
@example(0, -1200, True, 63)
def test_cuts_off_towards_zero(significand: int, shift: int, negative: bool, unit_bits: int):
    cut_off, high, low = numerics.truncate_scaled(significand, shift, negative, unit_bits)
    exact = significand * Fraction(2) ** shift
    units = math.floor(exact / 2**unit_bits) * 2**unit_bits
    assert high * 2**64 + low == (-units if negative else units)
    assert cut_off == (units != exact)


def check_addition(units: int, exponent: int, x: float):
    fits, high, low = numerics.add_exactly(units >> 64, units & MASK, x, exponent)
    term = Fraction(x) / Fraction(2) ** exponent
    assert fits == (term.denominator == 1 and abs(term) < 2**126)
    assert high * 2**64 + low == units + (int(term) if fits else 0)
