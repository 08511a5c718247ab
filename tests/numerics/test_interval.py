"""The interval filter: encloses always, never certifies a wrong bit, and certifies what it must."""

from fractions import Fraction

import numpy as np
import pytest
import reprocuda_numerics as numerics
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.numerics.generators import KINDS, MODES, matrix

DTYPES = ["float16", "bfloat16", "float32"]
ALWAYS_CERTIFIED = {"normal", "lognormal", "subnormal", "specials"}


def certify(values: np.ndarray, dtype: str, count: int = 1, mode: str = "nearest", **how):
    lo, hi = numerics.interval_ends(values, **how)
    certified, bits = numerics.certify(lo, hi, dtype, count, mode)
    return certified, bits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_certified_is_exact(dtype: str, kind: str):
    for terms in (4, 5, 13):
        values = matrix(kind, dtype, 1500, terms)
        for count in (1, 3, terms):
            want = oracle.exact_sum(values, count=count, dtype=dtype)
            for how in ({}, {"chunk": 2}, {"chunk": 3, "reversed": True}, {"upward": True}):
                certified, bits = certify(values, dtype, count, **how)
                np.testing.assert_array_equal(bits[certified], want[certified])
                assert certified.all() or kind not in ALWAYS_CERTIFIED


@pytest.mark.parametrize("output", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_one_dtype_into_another(kind: str, output: str):
    values = matrix(kind, "float32", 1500, 6)
    certified, bits = certify(values, output)
    want = oracle.exact_sum(values, dtype=output)
    np.testing.assert_array_equal(bits[certified], want[certified])


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_exact_terms(kind: str):
    values = matrix(kind, "float32", 3000, 7)
    weights = matrix("any_finite" if kind != "normal" else "normal", "float32", 3000, 7, seed=1)
    with np.errstate(invalid="ignore"):
        certified, bits = certify(values * weights, "float32")
    want = oracle.exact_sum(values, weights=weights, dtype="float32")
    np.testing.assert_array_equal(bits[certified], want[certified])
    assert certified.all() or kind != "normal"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_certificates_depend_on_no_mode(dtype: str, mode: str):
    for kind in KINDS:
        lo, hi = numerics.interval_ends(matrix(kind, dtype, 500, 5))
        # Ends so small that a flushed comparison would take them for zero.
        lo = np.concatenate([lo, [-5e-324, 5e-324, -0.0, -5e-324]])
        hi = np.concatenate([hi, [5e-324, 1e-310, 5e-324, -0.0]])
        for count in (1, 3, 1000):
            for ours, reference in zip(
                numerics.certify(lo, hi, dtype, count, mode), numerics.certify(lo, hi, dtype, count), strict=True
            ):
                np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros(dtype: str):
    form = oracle.FORMATS[dtype]
    tiny = 2.0 ** (form.unit_exponent - 10)
    table = [  # lo, hi, certified, bits
        (-0.0, -0.0, True, form.sign),  # every contribution is -0
        (0.0, -0.0, True, form.sign),
        (-0.0, 0.0, True, 0),  # exact cancellation
        (0.0, 0.0, True, 0),
        (-tiny, tiny, False, None),
        (-tiny, 0.0, False, None),  # exactly zero gives +0, anything else -0
        (-0.0, tiny, True, 0),  # +0 either way
        (0.0, tiny, True, 0),
        (-2 * tiny, -tiny, True, form.sign),
        (tiny, 2 * tiny, True, 0),
    ]
    for lo, hi, certified, bits in table:
        got, result = numerics.certify([lo], [hi], dtype)
        assert got[0] == certified, (lo, hi)
        assert bits is None or result[0] == bits, (lo, hi)


def test_both_ends_must_round_alike():
    one, above = 1.0, 1 + 2.0**-24  # the tie goes down to 1, anything past it up
    past = np.nextafter(above, 2)
    assert numerics.certify([one], [above], "float32")[0][0]
    assert not numerics.certify([above], [past], "float32")[0][0]
    assert not numerics.certify([one], [past], "float32")[0][0]


def test_wide_spreads_are_refused_not_guessed():
    certified, _ = certify(np.array([[2.0**100, 1.0, -(2.0**100)]]), "float32")
    assert not certified[0]


def test_large_counts():
    rng = np.random.default_rng(5)
    values = rng.standard_normal((4, 200_000)).astype(np.float32)
    for dtype in DTYPES:
        certified, bits = certify(values, dtype, chunk=4096)
        assert certified.all()
        np.testing.assert_array_equal(bits, oracle.exact_sum(values, dtype=dtype))


floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(floats32, min_size=1, max_size=12), st.integers(1, 13), st.booleans())
def test_ends_enclose_any_sum(values: list[float], chunk: int, backwards: bool):
    lo, hi = numerics.interval_ends([values], chunk, backwards)
    exact = sum(map(Fraction, values))
    assert Fraction(lo[0]) <= exact <= Fraction(hi[0])
    certified, bits = numerics.certify(lo, hi, "float32")
    assert not certified[0] or bits[0] == oracle.exact_sum(np.float32(values))
