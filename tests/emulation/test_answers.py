"""Every algorithm of the CUDA backend, on every shape and option of the canonical problems, gives the exact answer.

A forced algorithm may refuse a problem; what must not be refused is listed.
"""

import numpy as np
import pytest
import reprocuda_emulation as emulation

from tests.emulation.problems import (
    ALGORITHMS,
    FLOATS,
    INTEGERS,
    ElementProblem,
    RowProblem,
    bits_of_doubles,
    served_by,
)
from tests.numerics import generators

NEVER_REFUSED = ("auto", "rows")
SEEDS = range(2)


def check(problem, algorithm: str, *, must_serve: bool | None = None, **options):
    must_serve = algorithm in NEVER_REFUSED if must_serve is None else must_serve
    wanted = problem.answer()
    emulation.set_options(seed=0)
    if not served_by(problem, algorithm, **options):
        assert not must_serve, f"{algorithm} refuses"
        return
    for seed in SEEDS:
        emulation.set_options(seed=seed)
        np.testing.assert_array_equal(problem.run(algorithm=algorithm, **options), wanted, err_msg=f"seed {seed}")
    emulation.set_options()


@pytest.mark.parametrize("kind", generators.KINDS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_hard_sums(algorithm, dtype, kind):
    problem = RowProblem.random(dtype, kind, rows=150, targets=9, inner=3)
    check(problem, algorithm, must_serve=True)
    check(problem, algorithm, force_exact=True)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_integers_wrap_and_bools_are_ored(algorithm, dtype):
    alpha = None if dtype == "bool" else (0.0, 0.0, -3)
    check(RowProblem.random(dtype, rows=130, targets=11, inner=2), algorithm)
    check(RowProblem.random(dtype, rows=130, targets=11, inner=2, alpha=alpha, in_place=True), algorithm)
    check(RowProblem.random(dtype, rows=40, targets=70, inner=2, with_initial=False), algorithm)


SHAPES = {
    "one row": dict(rows=1, targets=3),
    "one target": dict(rows=300, targets=1),
    "one target, wide": dict(rows=70, targets=1, inner=40),
    "no rows": dict(rows=0, targets=5, inner=2),
    "no targets": dict(rows=0, targets=0, inner=2),
    "no columns": dict(rows=5, targets=4, inner=0),
    "more targets than rows": dict(rows=20, targets=600),
    "outer": dict(rows=30, targets=6, inner=4, outer=5),
    "outer, narrow": dict(rows=50, targets=4, inner=1, outer=33),
    "wide": dict(rows=25, targets=6, inner=300),
    "wide, odd": dict(rows=25, targets=6, inner=131),
    "int32 index": dict(rows=90, targets=8, inner=2, index_type=np.int32),
    "to one of many": dict(rows=200, targets=50, inner=2, index=np.full(200, 17)),
    "gaps": dict(rows=64, targets=200, inner=1, index=np.arange(64) // 8 * 25),
    "sorted": dict(rows=100, targets=30, inner=2, index=np.arange(100) * 30 // 100),
    "hot and cold": dict(rows=260, targets=40, inner=2, index=np.where(np.arange(260) % 13, 3, np.arange(260) % 40)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_shapes(dtype, algorithm, shape):
    check(RowProblem.random(dtype, "lognormal", **SHAPES[shape]), algorithm)
    check(RowProblem.random(dtype, "any_finite", **SHAPES[shape], with_initial=False), algorithm)
    check(RowProblem.random(dtype, "cancelling", **SHAPES[shape], in_place=True), algorithm)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_options(algorithm, dtype, exact):
    size = dict(rows=120, targets=10, inner=4)
    for kind in ("lognormal", "specials", "zeros_and_ones"):
        check(RowProblem.random(dtype, kind, **size, alpha=(0.1, 0.0, 1)), algorithm, force_exact=exact)
        check(RowProblem.random(dtype, kind, **size, reduce="mean", with_initial=False), algorithm, force_exact=exact)
        check(RowProblem.random(dtype, kind, **size, ignored_target=4), algorithm, force_exact=exact)
    for alpha in (0.0, -0.0, np.inf, np.nan, -1e-30, 1e30):
        check(RowProblem.random(dtype, "lognormal", **size, alpha=(alpha, 0.0, 1)), algorithm, force_exact=exact)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_complex_numbers(algorithm, dtype, exact):
    size = dict(rows=90, targets=6, inner=6, pairs=True)
    for kind in ("lognormal", "specials", "any_finite"):
        check(RowProblem.random(dtype, kind, **size), algorithm, force_exact=exact)
        check(RowProblem.random(dtype, kind, **size, alpha=(0.3, -1.7, 1)), algorithm, force_exact=exact)
        check(RowProblem.random(dtype, kind, **size, alpha=(2.0, 0.0, 1), in_place=True), algorithm, force_exact=exact)


PLANNED_SHAPES = [
    dict(rows=200, targets=15, inner=5),
    dict(rows=60, targets=90),
    dict(rows=0, targets=4),
    dict(rows=8, targets=2, outer=3),
]


@pytest.mark.parametrize("planned", ["permutation", "sorted"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "bool"])
def test_plans(dtype, algorithm, planned):
    for shape in PLANNED_SHAPES:
        check(RowProblem.random(dtype, "lognormal", **shape, planned=planned), algorithm)
        check(RowProblem.random(dtype, "any_finite", **shape, planned=planned, with_initial=False), algorithm)


ELEMENTS = {
    "along rows": dict(shape=(20, 6), out_shape=(7, 6), dim=0),
    "along columns": dict(shape=(6, 30), out_shape=(6, 4), dim=1),
    "in the middle": dict(shape=(3, 15, 4), out_shape=(5, 6, 4), dim=1),
    "one element": dict(shape=(1,), out_shape=(1,), dim=0),
    "no elements": dict(shape=(0, 4), out_shape=(3, 4), dim=0),
    "no outputs": dict(shape=(0, 4), out_shape=(0, 4), dim=0),
    "long": dict(shape=(900,), out_shape=(31,), dim=0),
    "int32 index": dict(shape=(12, 9), out_shape=(12, 5), dim=1, index_type=np.int32),
}


@pytest.mark.parametrize("shape", ELEMENTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
def test_elements(dtype, algorithm, shape):
    for kind in ("lognormal", "any_finite", "specials"):
        check(ElementProblem.random(dtype, kind, **ELEMENTS[shape]), algorithm)
    alone = ElementProblem.random(dtype, "cancelling", **ELEMENTS[shape], with_initial=False)
    check(alone, algorithm, force_exact=True)
    if dtype in ("float32", "float64"):
        check(ElementProblem.random(dtype, "lognormal", **ELEMENTS[shape], pairs=True, in_place=True), algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_elements_of_a_larger_source(algorithm):
    whole = ElementProblem.random("float32", "lognormal", shape=(9, 8, 7), out_shape=(4, 8, 7), dim=0)
    part = ElementProblem("float32", whole.src, whole.index[:5, :6, :3], whole.out_shape, 0, whole.initial)
    check(part, algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(25))
def test_anything(seed, algorithm):
    """Random shapes, options and data."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice([*FLOATS, *FLOATS, "int16", "bool"]))
    pairs = dtype in ("float32", "float64") and bool(rng.integers(2))
    problem = RowProblem.random(
        dtype, str(rng.choice(list(generators.KINDS))), seed=seed, pairs=pairs,
        rows=int(rng.integers(0, 400)), targets=int(rng.integers(1, 90)), outer=int(rng.integers(1, 4)),
        inner=int(rng.integers(1, 12)) * (1 + pairs), with_initial=bool(rng.integers(2)),
        alpha=(float(rng.standard_normal()), float(rng.standard_normal()), int(rng.integers(-9, 9)))
        if rng.integers(2) and dtype != "bool" else None,
        ignored_target=int(rng.integers(-1, 5)), index_type=rng.choice([np.int32, np.int64]),
    )  # fmt: skip
    check(problem, algorithm, force_exact=bool(rng.integers(2)), num_sms=int(rng.integers(1, 6)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("tiny", [-(2.0**-120), 2.0**-120, -(2.0**-300)])
@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 2048, 3000])
def test_a_tie_that_very_small_contributions_break(count, tiny, algorithm):
    """They are below all that two limbs hold; 2^10 of them are more than an output counts."""
    values = np.array([1.0, 2.0**-52, 2.0**-53, *[tiny] * count])
    src = bits_of_doubles(np.random.default_rng(count).permutation(values), "float64")
    problem = RowProblem("float64", src.reshape(1, -1, 1), np.zeros(src.size, np.int64), 1)
    assert problem.answer().view(np.float64)[0] == (1 + 2.0**-52 if tiny < 0 else 1 + 2.0**-51)
    check(problem, algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_carries_between_limbs_cancel(dtype, algorithm):
    """Every contribution reaches into the lower limb, where most additions carry or borrow; what stays is one unit."""
    rng = np.random.default_rng(3)
    large = 2.0**20 * rng.standard_normal(300).astype(np.float32).astype(np.float64)
    small = 2.0**-30 * rng.standard_normal(300).astype(np.float32).astype(np.float64)
    values = rng.permutation(np.concatenate([large, -large, small, -small, [-(2.0**-53)]]))
    src = bits_of_doubles(values, dtype)
    problem = RowProblem(dtype, src.reshape(1, -1, 1), np.zeros(src.size, np.int64), 1)
    assert (problem.answer() == bits_of_doubles(np.array([-(2.0**-53)]), dtype)).all()
    check(problem, algorithm)


@pytest.mark.parametrize("rows, targets", [(0, 3), (1, 1), (5, 0), (700, 40), (300, 900)])
def test_build_plan(rows, targets):
    rows = rows if targets else 0
    index = np.random.default_rng(rows).integers(0, max(targets, 1), rows)
    for index_type in (np.int32, np.int64):
        for seed in range(10):
            emulation.set_options(seed=seed)
            permutation, offsets = emulation.build_plan(index.astype(index_type), targets)
            assert permutation.tolist() == np.argsort(index, kind="stable").tolist()
            assert offsets.tolist() == [0, *np.cumsum(np.bincount(index, minlength=targets)).tolist()]
    emulation.set_options()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("bad", [-1, 9, 1 << 40])
def test_an_index_out_of_range_is_named_and_traps(algorithm, bad):
    problem = RowProblem.random("float32", rows=60, targets=9, index=np.where(np.arange(60) == 31, bad, 2))
    with pytest.raises(emulation.KernelError, match=rf"trapped(.|\n)*{bad}\b"):
        problem.run(algorithm=algorithm)
