"""Embedding bags on the emulated device: exact under hundreds of schedules, and the first of equal maxima."""

import numpy as np
import pytest
import reprocuda_emulation as emulation

from tests import oracle
from tests.emulation.problems import FLOATS, bits_type, random_bits

SCHEDULES = 200
ROWS = 9
KINDS = ("normal", "lognormal", "ties", "specials", "any_finite", "cancelling", "zeros_and_ones")


def bags(seed: int, sizes=(4, 0, 1, 40, 0, 7, 2)):
    """Rows and offsets."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return rng, rng.integers(0, ROWS, offsets[-1]), offsets


def numbers(rng, dtype, kind, shape):
    return np.ascontiguousarray(random_bits(rng, dtype, kind, shape))


def wanted_sums(table, rows, offsets, dtype, weights, mean):
    to = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    columns = [
        oracle.exact_segment_sums(
            np.ascontiguousarray(table[rows, f]), to, len(offsets) - 1, dtype, weights=weights, mean=mean
        )
        for f in range(table.shape[1])
    ]
    return np.stack(columns, 1)


def under_schedules(kernel: str, scenes):
    """scenes: (wanted bits, call(num_sms)) pairs."""
    emulation.reset_launch_counts()
    seeds = -(-SCHEDULES // len(scenes))
    for number, (wanted, call) in enumerate(scenes):
        for seed in range(number * seeds, (number + 1) * seeds):
            emulation.set_options(seed=seed)
            for got, bits in zip(call(1 + seed % 3), wanted, strict=True):
                np.testing.assert_array_equal(got, bits.reshape(-1).view(np.uint8), err_msg=f"{number}, {seed}")
    emulation.set_options()
    assert emulation.launch_counts()[kernel] >= SCHEDULES


@pytest.mark.parametrize("how", ["sum", "mean", "weights"])
def test_sums_whatever_the_schedule(how):
    scenes = []
    for dtype in FLOATS:
        for number, kind in enumerate(KINDS):
            rng, rows, offsets = bags(number)
            features = (1, 3, 20)[number % 3]
            table = numbers(rng, dtype, kind, (ROWS, features))
            weights = None
            if how == "weights":
                narrow = numbers(rng, dtype, KINDS[-number], (len(rows), 1))[:, 0]
                weights = np.ascontiguousarray(oracle.to_double(narrow, dtype))
            wanted = wanted_sums(table, rows, offsets, dtype, weights, how == "mean")

            def call(
                num_sms, dtype=dtype, table=table, rows=rows, offsets=offsets, weights=weights, exact=number % 2 == 1
            ):
                return (emulation.bag_sum(dtype, table, rows, offsets, weights, how == "mean", exact, num_sms),)

            scenes.append(((wanted,), call))
    under_schedules("segments_reduce", scenes)


def test_a_weighted_bag_of_many_blocks():
    scenes = []
    for dtype, kind in (("float32", "cancelling"), ("float64", "any_finite"), ("bfloat16", "lognormal")):
        rng, rows, offsets = bags(5, (3, 2500, 1))
        table = numbers(rng, dtype, kind, (ROWS, 3))
        weights = np.ascontiguousarray(oracle.to_double(numbers(rng, dtype, "normal", (len(rows), 1))[:, 0], dtype))
        wanted = wanted_sums(table, rows, offsets, dtype, weights, False)

        def call(num_sms, dtype=dtype, table=table, rows=rows, offsets=offsets, weights=weights):
            return (emulation.bag_sum(dtype, table, rows, offsets, weights, False, False, 8),)

        scenes.append(((wanted,), call))
    under_schedules("segments_merge", scenes)


def wanted_maxima(table, rows, offsets, dtype):
    """By Python's own comparisons: NaN above all, +0 above -0, the first of equals."""
    values = np.zeros((len(offsets) - 1, table.shape[1]), bits_type(dtype))
    argmax = np.zeros(values.shape, np.int64)
    form = oracle.FORMATS[dtype]
    doubles = oracle.to_double(table, dtype).reshape(table.shape)
    for bag in range(len(offsets) - 1):
        for f in range(table.shape[1]):
            named = rows[offsets[bag] : offsets[bag + 1]]
            if len(named) == 0:
                continue

            def rank(row, f=f):
                x = doubles[row, f]
                return (1, 0.0, 0) if np.isnan(x) else (0, x, 0 if np.signbit(x) else 1)

            best = max(named, key=rank)  # the first of equals
            values[bag, f] = form.nan if np.isnan(doubles[best, f]) else table[best, f]
            argmax[bag, f] = best
    return values, argmax


def test_maxima_whatever_the_schedule():
    scenes = []
    for dtype in FLOATS:
        for number, kind in enumerate(KINDS):
            rng, rows, offsets = bags(number)
            table = numbers(rng, dtype, kind, (ROWS, (1, 5, 33)[number % 3]))
            table[3] = table[5]  # equal rows

            def call(num_sms, dtype=dtype, table=table, rows=rows, offsets=offsets):
                return emulation.bag_maximum(dtype, table, rows, offsets, num_sms)

            scenes.append((wanted_maxima(table, rows, offsets, dtype), call))
    under_schedules("bags_maximum", scenes)


def test_products_of_rows_whatever_the_schedule():
    scenes = []
    for dtype in FLOATS:
        for number, kind in enumerate(KINDS):
            rng = np.random.default_rng(number)
            features = (1, 31, 70)[number % 3]
            left, right = (numbers(rng, dtype, kind, (ROWS, features)) for _ in range(2))
            left_rows, right_rows = rng.integers(0, ROWS, (2, 30))
            factors = oracle.to_double(right, dtype).reshape(right.shape)[right_rows]
            wanted = np.array(oracle.exact_sum(left[left_rows], factors, dtype=dtype), bits_type(dtype))
            wanted[right_rows == 2] = 0

            def call(num_sms, dtype=dtype, left=left, a=left_rows, right=right, b=right_rows, exact=number % 2 == 1):
                return (emulation.row_products(dtype, left, a, right, b, 2, exact, num_sms),)

            scenes.append(((wanted,), call))
    under_schedules("bags_row_products", scenes)


@pytest.mark.parametrize("bad", [ROWS, -1])
def test_a_row_out_of_range_is_named(bad):
    table = np.zeros((ROWS, 3), np.uint32)
    rows, offsets, good = np.array([1, bad, 2]), np.array([0, 1, 3]), np.array([1, 1, 1])
    named = f"row {bad} at position 1, of {ROWS} rows"
    with pytest.raises(emulation.KernelError, match=named):
        emulation.bag_sum("float32", table, rows, offsets, None, False, False, 1)
    with pytest.raises(emulation.KernelError, match=named):
        emulation.bag_maximum("float32", table, rows, offsets, 1)
    for left, right in ((rows, good), (good, rows)):
        with pytest.raises(emulation.KernelError, match=named):
            emulation.row_products("float32", table, left, table, right, -7, False, 1)


def test_offsets_that_fall_are_refused():
    table, rows = np.zeros((ROWS, 3), np.uint32), np.zeros(3, np.int64)
    for offsets in ([0, 2, 1, 3], [0, 4], [-1, 3]):
        with pytest.raises(emulation.KernelError, match="offsets do not rise"):
            emulation.bag_maximum("float32", table, rows, np.array(offsets), 1)
