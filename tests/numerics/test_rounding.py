"""round_to, and widening: exact or rounded once, whatever the floating-point mode."""

from fractions import Fraction

import numpy as np
import pytest
import reprocuda_numerics as numerics

from tests import oracle
from tests.numerics.generators import MODES

DTYPES = list(oracle.FORMATS)


def expected_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    return oracle.exact_sum(values.reshape(-1, 1), dtype=dtype).astype(np.uint64)


def neighbours(values: np.ndarray) -> np.ndarray:
    both = np.concatenate([np.nextafter(values, -np.inf), values, np.nextafter(values, np.inf)])
    return np.concatenate([both, -both])


def midpoints(dtype: str) -> np.ndarray:
    """The doubles half-way between numbers of the dtype: all of them, or a sample that keeps the interesting ends."""
    form = oracle.FORMATS[dtype]
    if form.bits is np.uint16:
        low = np.arange(form.infinity - 1, dtype=np.uint64)
    else:
        rng = np.random.default_rng(2)
        edges = [0, (1 << form.fraction_bits) - 300, form.infinity - 300]
        near = np.concatenate([np.arange(edge, edge + 299) for edge in edges]).astype(np.uint64)
        low = np.concatenate([near, rng.integers(0, form.infinity - 1, 6000, dtype=np.uint64)])
    below = oracle.to_double(low.astype(form.bits), dtype)
    above = oracle.to_double((low + np.uint64(1)).astype(form.bits), dtype)
    past_largest = above.max() + (above.max() - below.max()) / 2 if dtype != "float64" else above.max()
    return np.append((below + above) / 2, past_largest)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES[:3])
def test_around_every_breakpoint(dtype: str, mode: str):
    values = neighbours(midpoints(dtype))
    if mode != "nearest":
        values = values[::7]
    np.testing.assert_array_equal(numerics.round_to(values, dtype, mode), expected_bits(values, dtype))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_double(dtype: str, mode: str):
    rng = np.random.default_rng(3)
    values = rng.integers(0, 1 << 64, 20_000, dtype=np.uint64).view(np.float64)
    near_one = rng.standard_normal(2_000) * 10.0 ** rng.integers(-46, 40, 2_000)
    values = np.concatenate([values, near_one, [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -5e-324]])
    np.testing.assert_array_equal(numerics.round_to(values, dtype, mode), expected_bits(values, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_nan_becomes_the_quiet_one(dtype: str):
    payloads = np.array([0x7FF0000000000001, 0xFFF8000000000001, 0x7FFFFFFFFFFFFFFF], dtype=np.uint64).view(np.float64)
    assert set(numerics.round_to(payloads, dtype).tolist()) == {oracle.FORMATS[dtype].nan}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_widening_is_exact(dtype: str, mode: str):
    bits = np.arange(1 << 16, dtype=np.uint64)
    if dtype == "bfloat16" and mode == "flush":
        bits = bits[(bits & 0x7F80) != 0]  # a subnormal float is flushed by the conversion to double
    wide = numerics.widen(bits, dtype, mode)
    want = oracle.to_double(bits.astype(np.uint16), dtype)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(wide.view(np.uint64)[finite], want.view(np.uint64)[finite])
    np.testing.assert_array_equal(wide[~finite], want[~finite])
    assert Fraction(wide[1]) == oracle.fraction_of(int(bits[1]), dtype)
