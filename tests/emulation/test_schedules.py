"""Every kernel, under hundreds of schedules, gives one bit pattern, and it is the exact one."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reprocuda_emulation as emulation

from tests.emulation.problems import ElementProblem, Problem, RowProblem

KERNELS = Path(__file__).resolve().parents[2] / "csrc" / "kernels"
SCHEDULES_PER_KERNEL = 200
MEAN = {"reduce": "mean", "with_initial": False}
COMPLEX = {"alpha": (0.7, 0.3, 1), "pairs": True, "inner": 4}


@dataclass(frozen=True)
class Scene:
    """A problem and how to solve it."""

    problem: Problem
    options: dict[str, Any] = field(default_factory=dict)


def rows(dtype: str, kind: str, algorithm: str, *, rows=700, targets=7, inner=3, exact=False, **more) -> Scene:
    problem = RowProblem.random(dtype, kind, rows=rows, targets=targets, inner=inner, **more)
    return Scene(problem, {"algorithm": algorithm, "force_exact": exact})


def elements(dtype: str, kind: str, algorithm: str, *, exact=False, **more) -> Scene:
    problem = ElementProblem.random(dtype, kind, shape=(40, 12), out_shape=(9, 12), dim=0, **more)
    return Scene(problem, {"algorithm": algorithm, "force_exact": exact})


def float_scenes(algorithm: str, **more) -> list[Scene]:
    """Each float once as it comes and once by way of the fallback, which also takes what no filter certifies."""
    return [
        rows("float32", "normal", algorithm, **more),
        rows("bfloat16", "lognormal", algorithm, **more),
        rows("float16", "specials", algorithm, **more),
        rows("float64", "ties", algorithm, **more),
        rows("float32", "any_finite", algorithm, **more),
        rows("float64", "cancelling", algorithm, **more),
        rows("float32", "zeros_and_ones", algorithm, exact=True, **more),
        rows("bfloat16", "any_finite", algorithm, exact=True, **more),
        rows("float16", "normal", algorithm, exact=True, **more),
        rows("float64", "any_finite", algorithm, exact=True, **more),
        rows("float32", "lognormal", algorithm, **{**more, **COMPLEX}),
        rows("float32", "cancelling", algorithm, **MEAN, **more),
    ]


def integer_scenes(algorithm: str, **more) -> list[Scene]:
    return [rows(dtype, "normal", algorithm, **more) for dtype in ("int32", "bool", "int64", "uint8")]


SCENES: dict[str, list[Scene]] = {
    "grouping_row_pairs": integer_scenes("rows"),
    "grouping_element_pairs": [elements("float32", "lognormal", "rows"), elements("int16", "normal", "rows")],
    "grouping_offsets": [rows("float32", "normal", "rows", rows=500, targets=900, inner=1)],
    "segments_reduce": [*float_scenes("rows", rows=200, targets=20), *integer_scenes("rows")],
    "segments_merge": float_scenes("rows", rows=2200, targets=3),
    "fixed_point_prepare": [elements("float32", "any_finite", "fixed_point")],
    "fixed_point_accumulate": float_scenes("fixed_point"),
    "fixed_point_finish": [
        *float_scenes("fixed_point", rows=500, targets=90),
        rows("float32", "any_finite", "fixed_point", rows=1800, targets=500),  # several tiles of each sort
        rows("float64", "cancelling", "fixed_point", rows=1800, targets=500, exact=True),
        rows("float32", "lognormal", "fixed_point", rows=1500, targets=300, exact=True, **COMPLEX),
        elements("float32", "any_finite", "fixed_point", exact=True),
        elements("float64", "specials", "fixed_point", pairs=True),
    ],
    "bins_accumulate": float_scenes("bins"),
    "bins_finish": [*float_scenes("bins", rows=300, targets=30), elements("float32", "specials", "bins", exact=True)],
    "small_accumulate": [
        *float_scenes("small"),
        *integer_scenes("small"),
        elements("float32", "any_finite", "small"),
        elements("float64", "specials", "small", pairs=True),
    ],
    "integer_accumulate": integer_scenes("fixed_point"),
    "integer_finish": integer_scenes("fixed_point", rows=300, targets=400),
}


def kernels_in_source() -> set[str]:
    text = "".join(path.read_text() for path in KERNELS.glob("*.cuh"))
    return set(re.findall(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(", text))


def test_no_kernel_is_left_out():
    elsewhere = {  # below, and in test_*_kernels.py
        "linearize_index", "fingerprint_blocks", "fingerprint_finish", "overwrite_claim", "overwrite_copy",
        "products_settle", "integer_atomics_accumulate", "integer_atomics_finish",
        "scan_totals", "scan_filter", "scan_exact_totals", "scan_exact_starts", "scan_exact_prefixes",
        "extremum_claim", "extremum_positions", "extremum_finish", "histogram_find_bins", "histogram_count",
        "bags_maximum", "bags_row_products", "elementary_map",
        "running_totals", "running_groups", "running_carries", "running_prefixes",
    }  # fmt: skip
    assert kernels_in_source() - elsewhere == set(SCENES)


@pytest.mark.parametrize("kernel", SCENES)
def test_one_bit_pattern_whatever_the_schedule(kernel):
    emulation.reset_launch_counts()
    scenes = SCENES[kernel]
    seeds = -(-SCHEDULES_PER_KERNEL // len(scenes))
    for number, scene in enumerate(scenes):
        wanted = scene.problem.answer()
        for seed in range(number * seeds, (number + 1) * seeds):
            emulation.set_options(seed=seed)
            got = scene.problem.run(num_sms=1 + seed % 3, **scene.options)
            np.testing.assert_array_equal(got, wanted, err_msg=f"scene {number}, seed {seed}")
    emulation.set_options()
    assert emulation.launch_counts()[kernel] >= SCHEDULES_PER_KERNEL


def on_8_multiprocessors(scene: Scene) -> Scene:
    return Scene(scene.problem, {**scene.options, "num_sms": 8})


LONG_TARGET = {"rows": 12_000, "targets": 1, "exact": True}  # 23 units, of which 16 share a helper
LONG = {
    "bins, flushed several times": rows("float32", "any_finite", "bins", rows=140_000, targets=5, inner=1),
    "bins, with counts": rows("bfloat16", "lognormal", "bins", rows=140_000, targets=5, inner=1, **MEAN),
    "a queue of uncertain sums, filled twice": rows("float32", "normal", "rows", rows=3000, targets=3000, exact=True),
    "a target of many units": on_8_multiprocessors(rows("float32", "cancelling", "rows", **LONG_TARGET)),
    "a mean of many units": on_8_multiprocessors(rows("float64", "any_finite", "rows", **LONG_TARGET, **MEAN)),
    # 47 limbs an output, of 2^21 that fit.
    "a pool, filled twice": rows(
        "float64", "any_finite", "fixed_point", rows=120_000, targets=60_000, inner=1, exact=True
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_long_inputs(name):
    scene = LONG[name]
    wanted = scene.problem.answer()
    for seed in range(2):
        emulation.set_options(seed=seed)
        got = scene.problem.run(**{"num_sms": 1, **scene.options})
        np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")
    emulation.set_options()


def test_linearize_under_schedules():
    rng = np.random.default_rng(0)
    shape, dim_sizes, multipliers = (6, 50), (9, 1000), (4000, 2)
    row = rng.integers(-9, 9, (6, 1))
    column = rng.integers(-1000, 1000, (1, 50)).astype(np.int32)
    wanted = np.where(row < 0, row + 9, row) * 4000 + np.where(column < 0, column + 1000, column) * 2
    for seed in range(SCHEDULES_PER_KERNEL):
        emulation.set_options(seed=seed)
        got = emulation.linearize([row, column], [[1, 0], [0, 1]], dim_sizes, multipliers, shape)
        np.testing.assert_array_equal(got, wanted.reshape(-1))
    emulation.set_options()


@pytest.mark.parametrize("bad", [9, -10])
def test_linearize_names_an_index_out_of_range(bad):
    with pytest.raises(emulation.KernelError, match=f"index {bad} at position 2 is out of bounds"):
        emulation.linearize([np.array([1, 2, bad, 3])], [[1]], [9], [1], [4])
