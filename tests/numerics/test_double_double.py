"""The fp64 filter: never certifies a wrong bit, classifies what is not finite, refuses what it cannot know."""

import math

import numpy as np
import pytest
import reprocuda_numerics as numerics
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.numerics.generators import KINDS, matrix

SPLITS = [{}, {"chunk": 2}, {"chunk": 3, "reversed": True}]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_certified_is_exact(kind: str):
    for terms in (4, 5, 13):
        values = matrix(kind, "float64", 2000, terms)
        for count in (1, 3, terms):
            want = oracle.exact_sum(values, count=count)
            for split in SPLITS:
                certified, bits = numerics.compensated_sum(values, count=count, **split)
                np.testing.assert_array_equal(bits[certified], want[certified])
                assert certified.all() or kind not in {"normal", "lognormal", "specials"} or count > 1
                assert certified.mean() > 0.99 or kind not in {"normal", "lognormal", "specials"}


@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e-150, 1e-154, 1e-160, 1e154])
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_exact_or_refused(kind: str, scale: float):
    values = matrix(kind, "float64", 2000, 6)
    weights = matrix("normal", "float64", 2000, 6)
    if kind in ("normal", "lognormal", "cancelling"):
        with np.errstate(over="ignore"):
            values, weights = values * scale, weights * scale
    want = oracle.exact_sum(values, weights=weights)
    for split in SPLITS:
        certified, bits = numerics.compensated_sum(values, weights, **split)
        np.testing.assert_array_equal(bits[certified], want[certified])
        assert certified.all() or kind != "normal" or scale not in (1.0, 1e-140)


def test_error_terms_below_the_last_subnormal_are_refused():
    # Two products of which only the rounding errors survive: where fp64 cannot hold those, their sum is a unit off.
    rng = np.random.default_rng(14)
    size = 20_000
    exponent = rng.integers(-1080, -960, (size, 1))
    factors = 1 + rng.random((size, 4))
    factors[:, 2:] = np.ldexp(factors[:, 2:], exponent)
    products = factors[:, :2] * factors[:, 2:]
    values = np.column_stack([factors[:, 2:], -products])
    weights = np.column_stack([factors[:, :2], np.ones((size, 2))])
    certified, bits = numerics.compensated_sum(values, weights)
    want = oracle.exact_sum(values, weights=weights)
    np.testing.assert_array_equal(bits[certified], want[certified])
    assert certified[(np.abs(products) > 2.0**-968).all(axis=1)].mean() > 0.95


def test_infinities_are_contributions_or_nothing():
    largest = np.finfo(np.float64).max
    inf, nan = math.inf, math.nan
    for row, certified, bits in [
        ([inf, 1.0, -largest], True, 0x7FF0000000000000),
        ([largest, largest, -inf, largest], True, 0xFFF0000000000000),
        ([inf, -inf, 1.0], True, 0x7FF8000000000000),
        ([largest, nan, largest], True, 0x7FF8000000000000),
        ([largest, largest, -largest, -largest], False, None),  # a partial sum overflows, the sum is 0
        ([largest, largest, 1.0], False, None),
    ]:
        got, result = numerics.compensated_sum([row])
        assert got[0] == certified, row
        assert bits is None or result[0] == bits, row


def test_weights_of_zero_and_infinity():
    inf = math.inf
    for x, w, certified, bits in [
        (inf, 0.0, True, 0x7FF8000000000000),
        (-inf, 5e-324, True, 0xFFF0000000000000),
        (5e-324, inf, True, 0x7FF0000000000000),
        (1e200, 1e200, False, None),
        (1e-200, 1e-200, False, None),
        (-0.0, 1e-300, True, 0x8000000000000000),
        (1e-300, -0.0, True, 0x8000000000000000),
        (0.0, 1e-300, True, 0),
    ]:
        got, result = numerics.compensated_sum([[x]], [[w]])
        assert got[0] == certified, (x, w)
        assert bits is None or result[0] == bits, (x, w)


def test_a_tiny_negative_product_is_not_all_negative_zero():
    # w * x underflows to -0 in fp64, but the contribution is not -0.
    certified, _ = numerics.compensated_sum([[-1e-200, -0.0]], [[1e-200, 1.0]])
    assert not certified[0]


def test_large_counts():
    values = np.random.default_rng(6).standard_normal((3, 200_000))
    values[1] *= np.exp(3 * values[2])
    certified, bits = numerics.compensated_sum(values, chunk=5000)
    assert certified.all()
    np.testing.assert_array_equal(bits, oracle.exact_sum(values))
    np.testing.assert_array_equal(bits, oracle.to_bits(np.array([math.fsum(row) for row in values])))


@given(st.lists(st.floats(), min_size=1, max_size=10), st.integers(1, 11), st.booleans(), st.integers(1, 10))
def test_any_doubles(values: list[float], chunk: int, backwards: bool, count: int):
    certified, bits = numerics.compensated_sum([values], count=count, chunk=chunk, reversed=backwards)
    assert not certified[0] or bits[0] == oracle.exact_sum(np.array(values), count=count)
