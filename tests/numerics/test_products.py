"""Products: what a stage vouches for is the exact product rounded once; the last one settles them all."""

from fractions import Fraction

import numpy as np
import pytest
import reprocuda_numerics as numerics
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.numerics.generators import MODES, any_finite, beside_a_tie, nearest_of

SPLITS = [{}, {"chunk": 2}, {"chunk": 3, "reversed": True}, {"chunk": 1}]
DTYPES = list(oracle.FORMATS)


def exact_product(values: np.ndarray, dtype: str) -> np.ndarray:
    """[rows, terms] doubles; the bits of each row's product."""
    return np.array([oracle.exact_reduction(row, "prod", dtype) for row in values.tolist()], np.uint64)


def normal(rng, dtype, shape):
    return nearest_of(rng.standard_normal(shape), dtype)


def wide(rng, dtype, shape):
    return any_finite(rng, dtype, shape)


def small_integers(rng, dtype, shape):
    return rng.integers(-9, 10, shape).astype(np.float64)


def ties(rng, dtype, shape):
    """Few bits in all, so that products are ties or short of one by a last bit."""
    precision = oracle.FORMATS[dtype].fraction_bits + 1
    shift = rng.integers(1, precision, shape)
    return np.where(rng.integers(2, size=shape), 1 + np.ldexp(1.0, -shift), np.ldexp(1.0, shift % 7 - 3))


def beside_one(rng, dtype, shape):
    return 1 + rng.integers(-3, 4, shape) * 2.0 ** -oracle.FORMATS[dtype].fraction_bits


def special(rng, dtype, shape):
    drawn = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], shape)
    return np.where(rng.random(shape) < 0.8, normal(rng, dtype, shape), drawn)


KINDS = {kind.__name__: kind for kind in (normal, wide, small_integers, ties, beside_one, special)}


def matrix(kind: str, dtype: str, rows: int, terms: int) -> np.ndarray:
    return KINDS[kind](np.random.default_rng([rows, terms, *kind.encode(), *dtype.encode()]), dtype, (rows, terms))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_the_filters_certify_is_exact(dtype: str, kind: str):
    """Of few factors nothing but what lies beside a boundary is left; the interval cannot vouch for float64."""
    for terms in (1, 2, 5, 40):
        values = matrix(kind, dtype, 400, terms)
        want = exact_product(values, dtype)
        for split in SPLITS:
            filters = [numerics.compensated_product]
            filters += [numerics.interval_product] * (dtype != "float64")
            for filter_ in filters:
                certified, bits = filter_(values, dtype, **split)
                np.testing.assert_array_equal(bits[certified], want[certified])
                assert certified.mean() > 0.97 or kind == "beside_one"
            if dtype != "float64":
                assert certified.all() or kind == "beside_one"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_words_that_hold_everything_settle_everything(dtype: str, kind: str, mode: str):
    for terms in (1, 3, 30):
        values = matrix(kind, dtype, 100, terms)
        for split in ({}, {"chunk": 1}, {"chunk": 7}):
            settled, bits = numerics.exact_product(values, dtype, capacity=60, mode=mode, **split)
            assert settled.all()
            np.testing.assert_array_equal(bits, exact_product(values, dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_fewer_words_settle_is_exact(dtype: str, kind: str):
    for terms in (30, 300):
        values = matrix(kind, dtype, 60, terms)
        want = exact_product(values, dtype)
        for capacity in (4, 5, 8):
            for split in ({}, {"chunk": 1}, {"chunk": 17}):
                settled, bits = numerics.exact_product(values, dtype, capacity=capacity, **split)
                np.testing.assert_array_equal(bits[settled], want[settled])
                assert settled.all() or capacity < 8 or (kind == "ties" and dtype == "float64")


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1, max_size=12),
    st.integers(1, 5),
    st.sampled_from(DTYPES),
)
def test_any_factors(values, chunk, dtype):
    row = np.array([values])
    want = exact_product(row, dtype)
    for certified, bits in (
        numerics.compensated_product(row, dtype, chunk=chunk),
        numerics.exact_product(row, dtype, capacity=8, chunk=chunk),
    ):
        assert not certified[0] or bits[0] == want[0]
    assert numerics.exact_product(row, dtype, capacity=30, chunk=chunk)[1][0] == want[0]


@pytest.mark.parametrize("n", [60, 120, 180, 210, 300, 420])
def test_a_tie_that_is_missed_by_little(n: int):
    """By 2^-420 of it, which the filter and 8 words refuse, and 64 words settle."""
    values = beside_a_tie(n)
    want = exact_product(values, "float64")
    assert want[0] & 1 and not oracle.round_fraction(Fraction(2**53 + 3), "float64") & 1
    for certified, bits in (
        numerics.compensated_product(values, "float64"),
        numerics.exact_product(values, "float64", capacity=8),
        numerics.exact_product(values, "float64", capacity=8, chunk=3),
    ):
        assert bits[0] == want[0] if certified[0] else n >= 60
        assert not certified[0] or n <= 210
    settled, bits, asked = numerics.product_until_settled(values, "float64")
    assert settled[0] and bits[0] == want[0]
    assert len(asked) == (1 if n <= 210 else 2)
    refused, *_ = numerics.product_until_settled(values, "float64", available=asked[0])
    assert refused[0] == (n <= 210)
    settled, bits, fewer = numerics.product_until_settled(values, "float64", available=20)  # a second round has more
    assert settled[0] and bits[0] == want[0]
    assert fewer == asked[:1] if n <= 210 else fewer == [asked[0], 20] and asked[1] > 20


@pytest.mark.parametrize("bits_in_all", [48_000, 190_000, 400_000])
def test_long_products(bits_in_all: int):
    """As many words as a product has bits, somewhat fewer, and few: the exact result, or a refusal."""
    rng = np.random.default_rng(bits_in_all)
    factors = bits_in_all // 53
    scaled = rng.integers(2**52, 2**53, (2, factors)).astype(np.float64) * 2.0**-52.5
    beside = beside_a_tie(420, copies=bits_in_all // 420)
    for values in (*scaled[:, None], beside, np.hstack([beside, scaled[:1, :9]])):
        want = exact_product(values, "float64")
        settled, bits, asked = numerics.product_until_settled(values, "float64")
        assert settled[0]
        assert bits[0] == want[0]
        assert len(asked) <= 2
        for capacity in (bits_in_all // 32 + 60, bits_in_all // 32 - 60, 64, 8):
            for chunk in (1 << 30, values.shape[1] // 3):
                settled, bits = numerics.exact_product(values, "float64", capacity=capacity, chunk=chunk)
                assert bits[0] == want[0] if settled[0] else capacity == 8


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_last_words_hold_everything(dtype: str):
    """However long the product, the last memory that is asked for holds it without cutting anything off."""
    form = oracle.FORMATS[dtype]
    largest = np.full((1, 3000), 2.0 - 2.0**-form.fraction_bits)  # all bits set: the longest significands there are
    for terms in (1, 2, 7, 64, 3000):
        row = largest[:, :terms]
        words = terms * (form.fraction_bits + 1) // 32 + 1
        settled, bits = numerics.exact_product(row, dtype, capacity=words)
        assert settled[0] and bits[0] == exact_product(row, dtype)[0]
