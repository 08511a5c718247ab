"""scatter_reduce and index_reduce on the emulated device: the exact answer whatever the schedule, for every reduction,
dtype and algorithm that serves it, self counted or not.
"""

import itertools

import numpy as np
import pytest
import reprocuda_emulation as emulation

from tests.emulation.problems import (
    ALGORITHMS,
    FLOATS,
    INTEGERS,
    ElementProblem,
    Problem,
    RowProblem,
    bits_of_doubles,
    bits_type,
    served_by,
)
from tests.numerics.generators import beside_a_tie

REDUCTIONS = ("sum", "mean", "prod", "amax", "amin")
KINDS = ("normal", "any_finite", "specials", "zeros_and_ones", "cancelling")
SCHEDULES = 200


def check(problem: Problem, algorithm: str = "auto", *, must_serve: bool = False, seeds=range(2), **options):
    wanted = problem.answer()
    emulation.set_options(seed=0)
    if not served_by(problem, algorithm, **options):
        assert not must_serve and algorithm != "auto", f"{algorithm} refuses"
        return
    for seed in seeds:
        emulation.set_options(seed=seed)
        got = problem.run(algorithm=algorithm, **{"num_sms": 1 + seed % 3, **options})
        np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")
    emulation.set_options()


def algorithms_of(reduce: str, dtype: str) -> set[str]:
    """What must serve it, beside auto."""
    if reduce in ("amax", "amin") or (reduce == "prod" and dtype in INTEGERS):
        return {"fixed_point"}
    if reduce == "prod":
        return {"rows"}
    if dtype in INTEGERS:
        return {"fixed_point", "small"} | ({"rows"} if reduce == "sum" else set())
    return {"rows", "fixed_point", "bins", "small"}


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "reduce, dtype", [pair for pair in itertools.product(REDUCTIONS, [*FLOATS, *INTEGERS]) if pair != ("mean", "bool")]
)
def test_every_reduction(reduce, dtype, algorithm, include_self):
    how = dict(reduce=reduce, include_self=include_self)
    must_serve = algorithm == "auto" or algorithm in algorithms_of(reduce, dtype)
    for kind in KINDS if dtype in FLOATS else KINDS[:1]:
        for exact in (False, True):
            rows = RowProblem.random(dtype, kind, rows=120, targets=30, inner=3, **how)
            check(rows, algorithm, must_serve=must_serve, force_exact=exact)
        for problem in (
            RowProblem.random(dtype, kind, rows=40, targets=50, outer=3, in_place=True, **how),
            RowProblem.random(dtype, kind, rows=90, targets=5, with_initial=False, ignored_target=2, **how),
            ElementProblem.random(dtype, kind, shape=(30, 4), out_shape=(9, 4), dim=0, **how),
            ElementProblem.random(dtype, kind, shape=(3, 40), out_shape=(3, 60), dim=1, in_place=True, **how),
        ):
            check(problem, algorithm)


SHAPES = {
    "one row": dict(rows=1, targets=3),
    "one target": dict(rows=300, targets=1),
    "one target, many units": dict(rows=2200, targets=2),
    "no rows": dict(rows=0, targets=5, inner=2),
    "no targets": dict(rows=0, targets=0, inner=2),
    "no columns": dict(rows=5, targets=4, inner=0),
    "wide, odd": dict(rows=25, targets=6, inner=67),
    "gaps": dict(rows=64, targets=200, inner=1, index=np.arange(64) // 8 * 25),
    "hot and cold": dict(rows=260, targets=40, inner=2, index=np.where(np.arange(260) % 13, 3, np.arange(260) % 40)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8"])
def test_shapes(dtype, reduce, shape):
    for include_self in (True, False):
        check(RowProblem.random(dtype, "lognormal", **SHAPES[shape], reduce=reduce, include_self=include_self))


@pytest.mark.parametrize("reduce", ["amax", "amin", "prod"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_contributions_that_leave_nothing_behind(dtype, reduce):
    """The least number there is, or a product of 1, is not the same as no contribution."""
    if dtype == "bool":
        least, others, numpy_dtype = int(reduce != "amax"), (0, 1), np.uint8
    else:
        info, numpy_dtype = np.iinfo(dtype), dtype
        least = {"prod": 1, "amax": info.min, "amin": info.max}[reduce]
        others = (info.min, info.max, 0, 1, 3)
    for initial in others:
        one, other = np.array([least, initial], numpy_dtype).view(bits_type(dtype))
        for include_self in (True, False):
            problem = RowProblem(
                dtype, np.full((1, 3, 1), one), np.array([0, 0, 2]), 5, np.full((1, 5, 1), other),
                reduce=reduce, include_self=include_self,
            )  # fmt: skip
            check(problem)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("planned", ["permutation", "sorted"])
@pytest.mark.parametrize("reduce", ["mean", "prod"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_plans(dtype, reduce, planned, include_self):
    """Segments that are known: empty ones too, one of many units, no rows at all."""
    for kind in KINDS:
        for shape in (dict(rows=120, targets=90, inner=3), dict(rows=1500, targets=2), dict(rows=0, targets=4)):
            how = dict(reduce=reduce, include_self=include_self, planned=planned)
            check(RowProblem.random(dtype, kind, **shape, **how), must_serve=True)


@pytest.mark.parametrize("chunks", [1, 40])
@pytest.mark.parametrize("n", [120, 210, 420])
def test_products_beside_a_tie(n, chunks):
    """Which filter and first words do not settle: by another kernel, in as many words as it takes."""
    factors = beside_a_tie(n, copies=chunks)[0]
    values = np.concatenate([factors, np.random.default_rng(0).standard_normal(50)])
    index = np.concatenate([np.full(factors.size, 1), np.full(50, 4)])
    order = np.random.default_rng(1).permutation(values.size)
    problem = RowProblem(
        "float64", bits_of_doubles(values[order], "float64").reshape(1, -1, 1), index[order], 6,
        bits_of_doubles(np.ones(6), "float64").reshape(1, -1, 1), reduce="prod",
    )  # fmt: skip
    emulation.reset_launch_counts()
    check(problem, "rows", seeds=range(12))
    assert emulation.launch_counts()["products_settle"] == 13


def float_scenes(reduce: str, algorithm: str, **size) -> list[tuple[Problem, dict]]:
    scenes = []
    for number, dtype in enumerate(FLOATS):
        for kind in ("normal", "specials", "any_finite"):
            how = dict(reduce=reduce, include_self=(number + len(kind)) % 2 == 0)
            problem = RowProblem.random(dtype, kind, inner=2, **size, **how)
            scenes.append((problem, {"algorithm": algorithm, "force_exact": len(scenes) % 3 == 2}))
    return scenes


def integer_scenes(reduce: str, dtypes=INTEGERS) -> list[tuple[Problem, dict]]:
    return [
        (RowProblem.random(dtype, rows=400, targets=30, inner=2, reduce=reduce, include_self=include_self), {})
        for dtype in dtypes
        for include_self in (True, False)
    ]


SCENES = {
    "segments_reduce": [
        *float_scenes("prod", "rows", rows=200, targets=20),
        *float_scenes("mean", "rows", rows=200, targets=20),
    ],
    "segments_merge": float_scenes("prod", "rows", rows=1500, targets=3),
    "products_settle": float_scenes("prod", "rows", rows=150, targets=40),
    "integer_atomics_accumulate": [
        *float_scenes("amax", "auto", rows=300, targets=9),
        *integer_scenes("amin"),
        *integer_scenes("prod"),
    ],
    "integer_atomics_finish": [
        *float_scenes("amin", "auto", rows=100, targets=90),
        *integer_scenes("amax"),
        *integer_scenes("prod"),
    ],
    "fixed_point_finish": [
        *float_scenes("mean", "fixed_point", rows=300, targets=40),
        *float_scenes("sum", "fixed_point", rows=200, targets=60),
    ],
    "bins_finish": [
        *float_scenes("mean", "bins", rows=300, targets=9),
        *float_scenes("sum", "bins", rows=100, targets=40),
    ],
    "small_accumulate": [
        *float_scenes("mean", "small", rows=300, targets=40),
        *float_scenes("sum", "small", rows=100, targets=60),
    ],
    "integer_finish": integer_scenes("mean", INTEGERS[:-1]),
}


@pytest.mark.parametrize("kernel", SCENES)
def test_one_bit_pattern_whatever_the_schedule(kernel):
    emulation.reset_launch_counts()
    scenes = SCENES[kernel]
    seeds = -(-SCHEDULES // len(scenes))
    for number, (problem, options) in enumerate(scenes):
        if kernel == "integer_finish":
            options = {"algorithm": "fixed_point"}
        check(problem, seeds=range(number * seeds, (number + 1) * seeds), **options)
    assert emulation.launch_counts()[kernel] >= SCHEDULES


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_few_launches_that_data_do_not_change(reduce):
    """Without the sort: a sum or a mean takes three nodes, an extreme likewise, a product five."""
    most = 6 if reduce == "prod" else 3
    counts = []
    for kind, exact in (("normal", False), ("any_finite", True)):
        problem = RowProblem.random("float32", kind, rows=5000, targets=600, reduce=reduce, include_self=False)
        emulation.reset_launch_counts()
        problem.run(force_exact=exact)
        launches = emulation.launch_counts()
        assert sum(count for kernel, count in launches.items() if kernel != "sort_pairs") <= most
        counts.append(launches)
    assert counts[0] == counts[1]
