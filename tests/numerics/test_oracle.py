"""The oracle against independent truths: fractions, math.fsum, and the machine's own conversions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle

DTYPES = list(oracle.FORMATS)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_agrees_with_the_machine(a: float, b: float):
    assert oracle.round_fraction(Fraction(a), "float64") == (oracle.to_bits(np.array([a]))[0] if a else 0)
    exact = Fraction(a) + Fraction(b)
    if exact:
        assert oracle.round_fraction(exact, "float64") == oracle.to_bits(np.array([a + b]))[0]
    for dtype in ("float16", "float32"):
        with np.errstate(over="ignore"):
            assert not a or oracle.round_fraction(Fraction(a), dtype) == oracle.to_bits(np.array([a]).astype(dtype))[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_number_of_16_bits_is_itself(dtype: str):
    form = oracle.FORMATS[dtype]
    for bits in range(1, form.infinity):
        value = oracle.fraction_of(bits, dtype)
        assert oracle.round_fraction(value, dtype) == bits
        assert oracle.round_fraction(-value, dtype) == bits | form.sign
    every = np.arange(form.infinity, dtype=np.uint16)
    doubles = oracle.to_double(every, dtype)
    assert [Fraction(x) for x in doubles.tolist()] == [oracle.fraction_of(bits, dtype) for bits in every]


@pytest.mark.parametrize("dtype", DTYPES)
def test_midpoints_go_to_the_even_neighbour(dtype: str):
    form = oracle.FORMATS[dtype]
    smallest_normal = 1 << form.fraction_bits
    for bits in [0, 1, 2, 3, smallest_normal - 1, smallest_normal, form.infinity // 2, form.infinity - 2]:
        low, high = oracle.fraction_of(bits, dtype), oracle.fraction_of(bits + 1, dtype)
        middle, whisker = (low + high) / 2, (high - low) / 2**70
        assert oracle.round_fraction(middle, dtype) == bits + (bits & 1)
        assert oracle.round_fraction(middle - whisker, dtype) == bits
        assert oracle.round_fraction(middle + whisker, dtype) == bits + 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_overflow_starts_half_a_unit_past_the_largest(dtype: str):
    form = oracle.FORMATS[dtype]
    largest = oracle.fraction_of(form.infinity - 1, dtype)
    half_unit = (largest - oracle.fraction_of(form.infinity - 2, dtype)) / 2
    assert oracle.round_fraction(largest + half_unit * Fraction(99, 100), dtype) == form.infinity - 1
    assert oracle.round_fraction(-largest - half_unit, dtype) == form.infinity | form.sign


def test_sums_agree_with_fsum_and_with_fractions():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((3000, 9)) * 10.0 ** rng.integers(-300, 290, (3000, 9))
    values[::2, 1] = -values[::2, 0]
    weights = rng.standard_normal((3000, 9)).astype(np.float32)
    sums = oracle.exact_sum(values)
    assert sums.tolist() == oracle.to_bits(np.array([math.fsum(row) for row in values])).tolist()
    weighted = oracle.exact_sum(values, weights=weights, count=7, dtype="float32")
    for row, factors, bits in zip(values[:300].tolist(), weights[:300].tolist(), weighted[:300], strict=True):
        exact = sum(Fraction(x) * Fraction(w) for x, w in zip(row, factors, strict=True)) / 7
        assert oracle.round_fraction(exact, "float32") == bits


def test_special_values():
    inf, nan = math.inf, math.nan
    rows = [
        ((1.0, nan), 0x7FC00000), ((inf, -inf), 0x7FC00000), ((inf, 3e38), 0x7F800000), ((-inf, 1.0), 0xFF800000),
        ((-0.0, -0.0), 0x80000000), ((-0.0, 0.0), 0), ((1.0, -1.0), 0), ((3e38, 3e38), 0x7F800000),
    ]  # fmt: skip
    for row, bits in rows:
        assert oracle.exact_sum(np.array(row, dtype=np.float32)) == bits
    assert oracle.exact_sum(np.array([3e38, 3e38], dtype=np.float32), count=2) == 0x7F61B1E6
    assert oracle.exact_sum(np.float32([0.0, 1.0]), weights=[inf, 1.0]) == 0x7FC00000
    assert oracle.exact_sum(np.float32([0.0, -0.0]), weights=[-1.0, 1.0]) == 0x80000000
    assert oracle.exact_sum(np.float32([-2.0, 1.0]), weights=[inf, 1.0]) == 0xFF800000
    assert oracle.exact_sum(np.float32([-1e-45]), count=4) == 0x80000000


def test_segments_keep_what_nothing_reaches():
    initial = np.array([0x7FC0_1234, 0x8000_0000, 0x3F80_0000], dtype=np.uint32)
    out = oracle.exact_segment_sums(np.float32([-0.0, 2.0]), [1, 2], 3, "float32", initial=initial)
    assert out.tolist() == [0x7FC0_1234, 0x8000_0000, 0x4040_0000]
    assert oracle.exact_segment_sums(np.float32([3, 5]), [1, 1], 2, mean=True).tolist() == [0, 0x4080_0000]
