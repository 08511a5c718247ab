"""What a call costs in launches and temporary memory: both are promised, and neither needs a GPU to be seen."""

import numpy as np
import pytest
import reprocuda_emulation as emulation

from tests.emulation.problems import ALGORITHMS, ElementProblem, RowProblem

# A radix sort on a device is many launches by itself, but only the launchers' own are counted here.
SORT = "sort_pairs"


def launches(problem, **options) -> dict[str, int]:
    emulation.set_options(seed=1)
    emulation.reset_launch_counts()
    problem.run(**options)
    return emulation.launch_counts()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32", "bool"])
def test_small_problems_take_one_kernel(dtype):
    counts = launches(RowProblem.random(dtype, rows=900, targets=40, inner=64))
    assert sum(counts.values()) == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32", "bool"])
def test_fixed_point_takes_three_nodes(dtype):
    assert sum(launches(RowProblem.random(dtype, rows=900, targets=40), algorithm="fixed_point").values()) == 3
    elements = ElementProblem.random(dtype, shape=(40, 20), out_shape=(9, 20), dim=0)
    assert sum(launches(elements, algorithm="fixed_point").values()) == 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_private_bins_take_three_nodes(dtype):
    assert sum(launches(RowProblem.random(dtype, rows=900, targets=20), algorithm="bins").values()) <= 3


@pytest.mark.parametrize("planned", ["permutation", "sorted"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32", "bool"])
def test_a_plan_leaves_two_kernels_at_most(dtype, planned):
    for rows in (100, 3000):
        problem = RowProblem.random(dtype, rows=rows, targets=10, inner=64, planned=planned)
        counts = launches(problem, algorithm="rows")
        assert counts.pop("segments_reduce") == 1
        assert counts.pop("segments_merge", 0) <= 1
        assert counts == {}


def test_a_sort_is_done_once_and_only_where_nothing_else_serves():
    problem = RowProblem.random("float32", rows=2000, targets=10, inner=32)
    counts = launches(problem, algorithm="rows")
    assert counts[SORT] == 1
    assert sum(counts.values()) <= 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_shapes_alone_decide_what_is_launched(algorithm, dtype):
    tame, wild = (
        launches(RowProblem.random(dtype, kind, rows=900, targets=20, inner=3), algorithm=algorithm, force_exact=exact)
        for kind, exact in [("normal", False), ("any_finite", True)]
    )
    assert tame == wild


MIB = 1 << 20


def temporary_bytes(rows: int, targets: int, inner: int, **options) -> int:
    emulation.set_options(seed=1, detect_races=False)
    index = np.random.default_rng(0).integers(0, targets, rows)
    source = np.ones((rows, inner), np.float32)
    description = {"dtype": "float32", "src": source, "index": index, "num_rows": rows, "num_targets": targets}
    output, taken = emulation.accumulate_rows({**description, "inner": inner, "num_sms": 132, **options})
    wanted = np.repeat(np.bincount(index, minlength=targets), inner).astype(np.float32)
    np.testing.assert_array_equal(output.view(np.float32), wanted)
    emulation.set_options()
    return taken


@pytest.mark.parametrize("rows, targets, inner", [(1_500_000, 1000, 1), (200_000, 150_000, 4), (20_000, 3, 64)])
def test_sorting_takes_24_bytes_a_key_and_16_a_segment(rows, targets, inner):
    assert temporary_bytes(rows, targets, inner, algorithm="rows") <= max(32 * MIB, 24 * rows) + 16 * targets


@pytest.mark.parametrize("rows, targets", [(300_000, 2_500_000), (1_000_000, 1000)])
def test_fixed_point_takes_16_bytes_an_output_and_a_pool(rows, targets):
    assert temporary_bytes(rows, targets, 1, algorithm="fixed_point") <= 16 * MIB + 16 * targets + MIB // 16
