"""The superaccumulator: always exact, for any split, order, mode and number of contributions."""

import math
from fractions import Fraction

import numpy as np
import pytest
import reprocuda_numerics as numerics
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.numerics.generators import KINDS, MODES, matrix

DTYPES = list(oracle.FORMATS)
FORMATS = {"Fp32Terms": "float32", "Fp32Products": "float32", "Fp64Terms": "float64", "Fp64Products": "float64"}


@pytest.mark.parametrize("output", DTYPES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_means(kind: str, format: str, output: str):
    values = matrix(kind, FORMATS[format], 600, 7)
    for count in (1, 7, 3 * 2**40 + 1):
        want = oracle.exact_sum(values, count=count, dtype=output)
        np.testing.assert_array_equal(numerics.exact_sum(values, format=format, dtype=output, count=count), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_16_bit_data(kind: str, dtype: str):
    values = matrix(kind, dtype, 3000, 9)
    for format in ("Fp32Terms", "Fp32Products"):
        for count in (1, 9):
            want = oracle.exact_sum(values, count=count, dtype=dtype)
            np.testing.assert_array_equal(numerics.exact_sum(values, format=format, dtype=dtype, count=count), want)


@pytest.mark.parametrize("output", DTYPES)
@pytest.mark.parametrize("format", ["Fp32Products", "Fp64Products"])
@pytest.mark.parametrize("kind", KINDS)
def test_products(kind: str, format: str, output: str):
    values = matrix(kind, FORMATS[format], 800, 5)
    for other in ("any_finite", "zeros_and_ones", "specials"):
        weights = matrix(other, FORMATS[format], 800, 5, seed=1)
        for count in (1, 5):
            want = oracle.exact_sum(values, weights=weights, count=count, dtype=output)
            got = numerics.exact_sum(values, weights, format=format, dtype=output, count=count)
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("count", [3, 5, 2**32 + 1, 2**62 - 2**30])
@pytest.mark.parametrize("format", FORMATS)
def test_means_that_are_ties_or_miss_one_by_a_whisker(format: str, count: int):
    dtype = FORMATS[format]
    fraction_bits = oracle.FORMATS[dtype].fraction_bits
    rng = np.random.default_rng(15)
    rows = 500
    head = 1 + rng.integers(0, 1 << fraction_bits, rows) * 2.0**-fraction_bits
    half_unit = np.full(rows, 2.0 ** -(fraction_bits + 1))
    # From what the first words of the sum show down to what only a remainder, or a digit below them, tells.
    whisker = rng.choice([0.0, 1.0, -1.0], rows) * 2.0 ** rng.integers(-145, -60, rows)
    # count times the tie, as its binary digits times its two parts: every contribution is a number of the dtype.
    digits = [1 << bit for bit in range(63) if count >> bit & 1]
    columns = [part * digit for part in (head, half_unit) for digit in digits]
    values = np.column_stack([*columns, whisker]) * rng.choice([-1.0, 1.0], (rows, 1))
    want = oracle.exact_sum(values, count=count, dtype=dtype)
    np.testing.assert_array_equal(numerics.exact_sum(values, format=format, dtype=dtype, count=count), want)


def test_doubles_agree_with_fsum():
    for kind in ("any_finite", "cancelling", "ties", "subnormal", "lognormal"):
        values = matrix(kind, "float64", 3000, 12) * (0.25 if kind != "subnormal" else 1.0)
        sums = np.array([math.fsum(row) for row in values])
        got = numerics.exact_sum(values, format="Fp64Terms", dtype="float64")
        nonzero = sums != 0
        np.testing.assert_array_equal(got[nonzero], oracle.to_bits(sums[nonzero]))


@pytest.mark.parametrize("format", FORMATS)
def test_every_split_order_and_normalisation(format: str):
    dtype = FORMATS[format]
    for kind in ("any_finite", "cancelling", "specials", "zeros_and_ones"):
        values = matrix(kind, dtype, 200, 12)
        want = oracle.exact_sum(values, dtype=dtype)
        rng = np.random.default_rng(7)
        for chunk in range(1, 13):
            shuffled = rng.permuted(values, axis=1)
            got = numerics.exact_sum(shuffled, format=format, dtype=dtype, chunk=chunk, normalize_every=1 + chunk % 4)
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", FORMATS)
def test_depends_on_no_mode(format: str, mode: str):
    dtype = FORMATS[format]
    for kind in ("any_finite", "subnormal", "ties", "zeros_and_ones"):
        values = matrix(kind, dtype, 300, 6)
        for count in (1, 6):
            want = oracle.exact_sum(values, count=count, dtype=dtype)
            got = numerics.exact_sum(values, format=format, dtype=dtype, count=count, mode=mode)
            np.testing.assert_array_equal(got, want)


def head_room_cases():
    largest32 = float(np.finfo(np.float32).max)
    largest64 = float(np.finfo(np.float64).max)
    for format, x, weight, doublings in [
        ("Fp32Terms", largest32, 1.0, 20),
        ("Fp32Products", largest32, largest32, 7),
        ("Fp64Terms", largest64, 1.0, 14),
        ("Fp64Products", largest64, largest64, 28),
    ]:
        for sign in (1.0, -1.0):
            yield format, sign * x, weight, doublings
            yield format, sign * 2.0 ** (-149 if "32" in format else -1074), weight, doublings
            yield format, sign * (1 + 2.0**-23), weight, doublings


@pytest.mark.parametrize("format, x, weight, doublings", list(head_room_cases()))
def test_head_room(format: str, x: float, weight: float, doublings: int):
    """2^31 - 2 additions without a normalize, and the documented number of the largest contributions in all."""
    times = 2**31 - 2
    for additions, doubling in ((times, 0), (times, doublings)):
        got = numerics.exact_repeated(weight, x, format, additions, doubling)
        assert got == oracle.round_fraction(Fraction(x) * Fraction(weight) * additions, "float64")


def test_large_counts():
    rng = np.random.default_rng(8)
    values = rng.standard_normal((2, 300_000)).astype(np.float32) * np.float32(2) ** rng.integers(-60, 60, (2, 300_000))
    for format in FORMATS:
        got = numerics.exact_sum(values, format=format, dtype="float32", chunk=10_007, normalize_every=1000)
        np.testing.assert_array_equal(got, oracle.exact_sum(values.astype(np.float32)))


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=8), st.integers(1, 2**62))
def test_any_products_over_any_count(terms: list[tuple[float, float]], count: int):
    values, weights = map(np.array, zip(*terms, strict=True))
    got = numerics.exact_sum([values], [weights], format="Fp64Products", dtype="float64", count=count)[0]
    assert got == oracle.exact_sum(values, weights=weights, count=count)


@given(st.lists(st.floats(width=32), min_size=1, max_size=10), st.integers(1, 2**62), st.sampled_from(DTYPES))
def test_any_floats_over_any_count(values: list[float], count: int, output: str):
    got = numerics.exact_sum([values], format="Fp32Terms", dtype=output, count=count)[0]
    assert got == oracle.exact_sum(np.array(values), count=count, dtype=output)


@pytest.mark.parametrize("format", FORMATS)
def test_fixed_point_values_join(format: str):
    rng = np.random.default_rng(9)
    size = 4000
    high = rng.integers(-(2**63), 2**63, size) >> rng.integers(0, 64, size)
    low = rng.integers(0, 2**64, size, dtype=np.uint64)
    exponent = rng.integers(-149, -20, size)
    initial = matrix("any_finite", "float32", size, 1)[:, 0]
    got = numerics.exact_fixed(high, low, exponent, initial, format, "float32")
    for i in range(size):
        units = int(high[i]) * 2**64 + int(low[i])
        exact = Fraction(units) * Fraction(2) ** int(exponent[i]) + Fraction(initial[i])
        assert got[i] == oracle.round_fraction(exact, "float32")
