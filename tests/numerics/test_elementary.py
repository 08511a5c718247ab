"""exp, log and sqrt beside mpmath: errors in units of the last place, correct rounding of narrow dtypes, special
values, and where the coefficients come from.
"""

import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import reprocuda_numerics as numerics

from tests import oracle

HEADER = Path(__file__).parents[2] / "csrc" / "numerics" / "elementary.h"
LARGEST = np.finfo(np.float64).max
mpmath.mp.prec = 140


def bits_to_doubles(bits):
    return np.asarray(bits, np.uint64).view(np.float64)


def arguments(name, count):
    """Random ones at every scale, and those where something changes."""
    rng = np.random.default_rng(5)
    tiny = rng.standard_normal(400) * 10.0 ** rng.integers(-17, -2, 400)
    near = np.concatenate([np.arange(-40, 41) * 2.0**-53, tiny])
    if name == "exp":
        bounds = np.array([709.782712893384, -708.3964185322641, -745.1332191019411, 0.0, -744.0, -720.0])
        steps = np.concatenate([np.nextafter(bounds, np.inf), bounds, np.nextafter(bounds, -np.inf)])
        halves = (np.arange(-1074, 1024) + 0.5) * np.log(2)  # where the nearest multiple of ln 2 changes
        spread = rng.standard_normal(count // 4) * 10.0 ** rng.integers(-20, 2, count // 4)
        wide, narrow = rng.uniform(-746, 710, count // 2), rng.uniform(-1, 1, count // 4)
        return np.concatenate([wide, narrow, spread, near, steps, halves])
    positive = rng.integers(1, 0x7FEFFFFFFFFFFFFF, count // 2, dtype=np.uint64).view(np.float64)
    subnormal = rng.integers(1, 1 << 52, count // 16, dtype=np.uint64).view(np.float64)
    ends = np.array([5e-324, 2.2250738585072014e-308, 2.225073858507201e-308, 1.0, LARGEST])
    roots = 2.0 ** (np.arange(-2100, 2000) / 2 + 0.0)
    roots = roots[(roots > 0) & np.isfinite(roots)]
    steps = np.concatenate([np.nextafter(roots, 0), roots, np.nextafter(roots, np.inf)])
    steps = steps[np.isfinite(steps) & (steps > 0)]
    return np.concatenate([positive, subnormal, rng.uniform(0.3, 3, count // 2), 1 + near, ends, steps])


def true_value(name, x):
    return getattr(mpmath, name)(mpmath.mpf(float(x)))


def error_in_ulps(got, want):
    """By the last place that a float64 has at `want`."""
    _, exponent = mpmath.frexp(want)
    unit = mpmath.ldexp(1, max(exponent - 53, -1074))
    return float(abs(mpmath.mpf(float(got)) - want) / unit)


@pytest.mark.parametrize("name, bound", [("exp", 0.7), ("log", 0.9)])
def test_error_in_double(name, bound):
    x = arguments(name, 100_000)
    assert len(x) >= 100_000
    got = bits_to_doubles(getattr(numerics, name)(x))
    worst, worst_subnormal = 0.0, 0.0
    for argument, value in zip(x, got, strict=True):
        want = true_value(name, argument)
        if abs(want) > LARGEST:
            assert value == np.inf
            continue
        error = error_in_ulps(value, want)
        if abs(want) < 2.0**-1022:
            worst_subnormal = max(worst_subnormal, error)
        else:
            worst = max(worst, error)
    assert worst < bound
    assert worst_subnormal < 1


def rounded_once(value, dtype):
    """The bits of the number of `dtype` that is nearest to a number of many bits, ties to even."""
    form = oracle.FORMATS[dtype]
    if value == 0:
        return 0
    sign = int(value < 0) << (np.dtype(form.bits).itemsize * 8 - 1)
    _, exponent = mpmath.frexp(abs(value))
    least = {"float16": -24, "bfloat16": -133, "float32": -149}[dtype]
    unit = max(exponent - 1 - form.fraction_bits, least)
    kept = int(mpmath.nint(mpmath.ldexp(abs(value), -unit)))  # to even
    return sign | min(((unit - least) << form.fraction_bits) + kept, form.infinity)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "log"])
def test_every_number_of_16_bits(name, dtype):
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = oracle.to_double(bits, dtype)
    got = getattr(numerics, name)(x, dtype)
    for argument, one in zip(x, got, strict=True):
        if np.isfinite(argument) and (name == "exp" or argument > 0):
            value = true_value(name, np.clip(argument, -800, 800) if name == "exp" else argument)
            assert int(one) == rounded_once(value, dtype), argument


@pytest.mark.parametrize("name", ["exp", "log"])
def test_float32_is_rounded_correctly(name):
    """But for about one argument in 2^28: none of these."""
    rng = np.random.default_rng(6)
    if name == "exp":
        x = np.concatenate([rng.uniform(-104, 89, 60_000), rng.standard_normal(40_000)])
    else:
        x = np.concatenate([np.exp(rng.uniform(-100, 88, 60_000)), rng.uniform(0.5, 2, 40_000)])
    x = x.astype(np.float32).astype(np.float64)
    got = getattr(numerics, name)(x, "float32")
    wrong = [a for a, one in zip(x, got, strict=True) if int(one) != rounded_once(true_value(name, a), "float32")]
    assert not wrong


def test_special_values():
    nan = 0x7FF8000000000000
    infinity, largest = float("inf"), float(LARGEST)
    x = np.array([0.0, -0.0, infinity, -infinity, np.nan, -np.nan, 710.0, largest, -746.0, -largest, -745.14, 1e-320])
    want = np.array([1, 1, infinity, 0, 0, 0, infinity, infinity, 0, 0, 0, 1.0]).view(np.uint64)
    want[4:6] = nan
    np.testing.assert_array_equal(numerics.exp(x), want)
    x = np.array([0.0, -0.0, infinity, -infinity, np.nan, -np.nan, -1.0, -5e-324, 1.0])
    want = np.array([-infinity, -infinity, infinity, 0, 0, 0, 0, 0, 0]).view(np.uint64)
    want[3:8] = nan
    np.testing.assert_array_equal(numerics.log(x), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_roots_are_rounded_correctly(dtype):
    rng = np.random.default_rng(7)
    form = oracle.FORMATS[dtype]
    bits = rng.integers(0, form.infinity, 20_000).astype(form.bits)
    x = oracle.to_double(bits, dtype)
    for argument, one in zip(x, numerics.sqrt(x, dtype), strict=True):
        assert int(one) == rounded_once(mpmath.sqrt(mpmath.mpf(float(argument))), dtype), argument


def test_roots_of_doubles_are_rounded_correctly():
    """Four times the argument lies between the squares of the sums with either neighbour."""
    rng = np.random.default_rng(8)
    x = np.concatenate([arguments("log", 20_000), rng.integers(0, 1 << 52, 999, dtype=np.uint64).view(np.float64)])
    for argument, root in zip(x.tolist(), bits_to_doubles(numerics.sqrt(x)).tolist(), strict=True):
        below, above = (Fraction(root) + Fraction(np.nextafter(root, end)) for end in (-np.inf, np.inf))
        assert argument == root == 0 or below**2 <= 4 * Fraction(argument) <= above**2
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -5e-324])
    want = np.array([0.0, -0.0, np.inf, np.nan, np.nan, np.nan, np.nan]).view(np.uint64)
    np.testing.assert_array_equal(numerics.sqrt(special), want)


def through_chebyshev_points(function, low, high, degree):
    """The coefficients, as float64, of the polynomial that meets `function` at the Chebyshev points of an interval."""
    centre, radius = (low + high) / 2, (high - low) / 2
    points = [centre + radius * mpmath.cos((2 * k + 1) * mpmath.pi / (2 * degree + 2)) for k in range(degree + 1)]
    newton = [function(point) for point in points]
    for order in range(1, degree + 1):
        for k in range(degree, order - 1, -1):
            newton[k] = (newton[k] - newton[k - 1]) / (points[k] - points[k - order])
    powers = []
    for point, coefficient in zip(reversed(points), reversed(newton), strict=True):
        shifted = [mpmath.mpf(0), *powers]
        powers = [a - point * b for a, b in zip(shifted, [*powers, mpmath.mpf(0)], strict=True)]
        powers[0] += coefficient
    return [float(c) for c in powers]


def in_header(name):
    text = re.search(rf"{name}\[?\]?\s*=\s*([^;]+);", HEADER.read_text()).group(1)
    return [float.fromhex(number) for number in re.findall(r"0x[0-9a-f.]+p[+-]\d+", text)]


def test_coefficients():
    with mpmath.workprec(200):
        radius = mpmath.log(2) / 2

        def rest_of_exp(r):
            return (mpmath.exp(r) - 1 - r) / r**2 if abs(r) > 1e-15 else mpmath.mpf(1) / 2 + r / 6

        def rest_of_log(z):
            s = mpmath.sqrt(z)
            return (mpmath.log((1 + s) / (1 - s)) - 2 * s) / (s * z)

        root = mpmath.sqrt(2)
        assert in_header("kExpCoefficients") == through_chebyshev_points(rest_of_exp, -radius, radius, 10)
        assert in_header("kLogCoefficients") == through_chebyshev_points(
            rest_of_log, mpmath.mpf(0), ((root - 1) / (root + 1)) ** 2, 6
        )
        high = mpmath.floor(mpmath.log(2) * 2**41) / 2**41
        assert in_header("kLn2High") == [float(high)]
        assert in_header("kLn2Low") == [float(mpmath.log(2) - high)]
