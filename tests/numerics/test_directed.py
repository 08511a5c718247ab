"""The software directed operations, against the machine's rounding modes and against fractions."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import reprocuda_numerics as numerics
from hypothesis import example, given
from hypothesis import strategies as st

OPERATIONS = [f"{name}_{direction}" for name in ("add", "div") for direction in ("rd", "ru")]
LARGEST = math.ldexp(2 - 2.0**-52, 1023)
EDGES = [0.0, 5e-324, 2.5e-323, 2.0**-1022 - 5e-324, 2.0**-1022, 2.0**-969, 2.0**-511, 1e-160, 1 - 2.0**-53, 1.0,
         1 + 2.0**-52, 3.0, 2.0**53, 2.0**53 + 2, 1e160, 2.0**512, 2.0**970, 2.0**971, LARGEST / 2, 2.0**1023, LARGEST,
         math.nextafter(LARGEST, 0), math.inf, math.nan]  # fmt: skip


def pairs() -> tuple[np.ndarray, np.ndarray]:
    grid = np.array(list(product(EDGES + [-x for x in EDGES], repeat=2)))
    rng = np.random.default_rng(4)
    anything = rng.integers(0, 1 << 64, (40_000, 2), dtype=np.uint64).view(np.float64)
    close = rng.standard_normal((20_000, 2)) * 2.0 ** rng.integers(-60, 60, (20_000, 2))
    opposite = close * [1, -1]
    opposite[::3, 1] = -opposite[::3, 0]
    tiny = rng.integers(0, 1 << 54, (10_000, 2), dtype=np.uint64).view(np.float64)
    tiny *= rng.choice([-1.0, 1.0], (10_000, 2))
    tiny_factor = np.column_stack([tiny[:, 0], close[:10_000, 1]])
    huge = LARGEST * (1 - rng.random((10_000, 2)) * 2.0 ** rng.integers(-54, 0, (10_000, 2)))
    huge[:, 1] *= rng.choice([-1.0, 1.0, 1e-16, -1e-16], 10_000)
    both = np.concatenate([grid, anything, close, opposite, tiny, tiny_factor, huge, huge[:, ::-1]])
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_same_bits_as_the_machine(operation: str):
    a, b = pairs()
    ours, machine = numerics.directed(operation, a, b), numerics.machine_directed(operation, a, b)
    nan = np.isnan(machine)
    np.testing.assert_array_equal(np.isnan(ours), nan)
    np.testing.assert_array_equal(ours.view(np.uint64)[~nan], machine.view(np.uint64)[~nan])


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite)
@example(LARGEST, LARGEST)
@example(-LARGEST, math.nextafter(LARGEST, 0))
@example(5e-324, 0.25)
def test_encloses_the_exact_result_tightly(a: float, b: float):
    exact = {"add": Fraction(a) + Fraction(b)}
    if b:
        exact["div"] = Fraction(a) / Fraction(b)
    for name, value in exact.items():
        low = float(numerics.directed(f"{name}_rd", [a], [b])[0])
        high = float(numerics.directed(f"{name}_ru", [a], [b])[0])
        assert low <= value <= high
        assert low == high or math.nextafter(low, math.inf) == high
        assert (low == high) == (low not in (-math.inf, math.inf) and Fraction(low) == value)
