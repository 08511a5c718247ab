"""20 000 adversarial outputs an operator and dtype, each compared bit by bit with the sum that mathematics knows."""

import numpy as np
import pytest
import torch

import reprocuda
from tests import oracle
from tests.numerics.generators import KINDS, matrix
from tests.operators.bits import DTYPES, from_numpy_bits, to_numpy_bits
from tests.operators.forcing import STAGES, forced
from tests.operators.table import TORCH

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")

OUTPUTS = 20_000
FEATURES = 4
TERMS = 6


def numbers(dtype: str, seed: int, outputs: int = OUTPUTS, terms: int = TERMS) -> np.ndarray:
    """[outputs, terms] bits of contributions that are hard to sum, every kind of the generators in turn."""
    share = -(-outputs // len(KINDS))
    rows = np.concatenate([matrix(kind, dtype, share, terms, seed=seed) for kind in KINDS])[:outputs]
    return to_bits(rows, dtype)


def to_bits(doubles: np.ndarray, dtype: str) -> np.ndarray:
    """Doubles that are numbers of the dtype, as its bits."""
    if dtype == "bfloat16":
        return (doubles.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return doubles.astype(dtype).view(oracle.FORMATS[dtype].bits)


def laid_out(dtype: str, seed: int, features: int):
    """Contributions [rows, features], their targets [rows] in random order, what was there before [targets, features].

    Output (t, f) is the sum of one row of `numbers`: its last number waits in the target, the others are contributions.
    """
    table = numbers(dtype, seed).reshape(OUTPUTS // features, features, TERMS)
    before = table[:, :, -1]
    rows = np.moveaxis(table[:, :, :-1], 2, 1).reshape(-1, features)
    index = np.repeat(np.arange(len(table)), TERMS - 1)
    order = np.random.default_rng(seed).permutation(len(index))
    return before, rows[order], index[order]


def expected(before, rows, index, dtype: str, **how) -> np.ndarray:
    """The oracle's bits for every (target, feature)."""
    targets, features = before.shape if before is not None else (how.pop("targets"), rows.shape[1])
    flat = (index[:, None] * features + np.arange(features)).reshape(-1)
    initial = None if before is None else before.reshape(-1)
    sums = oracle.exact_segment_sums(rows.reshape(-1), flat, targets * features, dtype, initial=initial, **how)
    return sums.reshape(targets, features)


def assert_exact(got: torch.Tensor, want: np.ndarray, what: str) -> None:
    have = to_numpy_bits(got).reshape(want.shape)
    wrong = np.flatnonzero((have != want).reshape(-1))
    assert wrong.size == 0, (
        f"{what}: {wrong.size} of {want.size} outputs differ, first {wrong[0]}: "
        f"{have.reshape(-1)[wrong[0]]:x} is not {want.reshape(-1)[wrong[0]]:x}"
    )


def operators(before, rows, index, dtype):
    """Every operator that can express the same sums, in each of its forms."""
    x, s, i = from_numpy_bits(before, dtype), from_numpy_bits(rows, dtype), torch.from_numpy(index)
    elements = i[:, None].expand_as(s)
    columns = torch.arange(s.shape[1]).expand_as(s)
    plan = reprocuda.SegmentPlan.from_index(i, len(x))
    yield "index_add", lambda: reprocuda.index_add(x, 0, i, s)
    yield "index_add_", lambda: reprocuda.index_add_(x.clone(), 0, i, s)
    yield "index_add planned", lambda: reprocuda.index_add(x, 0, plan, s)
    yield "index_add dim 1", lambda: reprocuda.index_add(x.T, 1, i, s.T).T.contiguous()
    yield "scatter_add rows", lambda: reprocuda.scatter_add(x, 0, elements, s)
    yield "scatter_add", lambda: reprocuda.scatter_add(x, 0, elements.contiguous(), s)
    yield "scatter_add_", lambda: reprocuda.scatter_add_(x.clone(), 0, elements.contiguous(), s)
    yield "index_put rows", lambda: reprocuda.index_put(x, (i,), s, True)
    yield "index_put_ points", lambda: reprocuda.index_put_(x.clone(), (elements.contiguous(), columns), s, True)


@pytest.mark.parametrize("features", [1, FEATURES])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_into_a_target(dtype, features):
    before, rows, index = laid_out(dtype, seed=features, features=features)
    want = expected(before, rows, index, dtype)
    for name, operator in operators(before, rows, index, DTYPES[dtype]):
        assert_exact(operator(), want, f"{name} {dtype}")


@pytest.mark.parametrize("stage", STAGES[1:])
@pytest.mark.parametrize("features", [1, FEATURES, 50])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exact_fallback(dtype, features, stage):
    """Alone, and in 50 columns as runs of several vectors with a rest."""
    before, rows, index = laid_out(dtype, seed=3, features=features)
    want = expected(before, rows, index, dtype)
    with forced(stage=stage):
        for name, operator in operators(before, rows, index, DTYPES[dtype]):
            assert_exact(operator(), want, f"{name} {dtype} from {stage}")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_without_a_target(dtype, stage):
    """segment_sum, and the gradient of an embedding with and without division by the count."""
    before, rows, index = laid_out(dtype, seed=4, features=FEATURES)
    targets = len(before)
    s, i = from_numpy_bits(rows, DTYPES[dtype]), torch.from_numpy(index)
    plan = reprocuda.SegmentPlan.from_index(i, targets)
    want = expected(None, rows, index, dtype, targets=targets)
    want_mean = expected(None, rows, index, dtype, targets=targets, mean=True)
    with forced(stage=stage):
        assert_exact(reprocuda.segment_sum(s, plan), want, "segment_sum")
        assert_exact(reprocuda.segment_sum(s[plan.permutation], plan.offsets), want, "segment_sum of offsets")
        for scale, wanted in ((False, want), (True, want_mean)):
            weight = torch.zeros(targets, FEATURES, dtype=DTYPES[dtype], requires_grad=True)
            reprocuda.embedding(i, weight, scale_grad_by_freq=scale).backward(s)
            assert_exact(weight.grad, wanted, f"embedding scale_grad_by_freq={scale}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_reading(dtype):
    """index_select, gather, w[i] and take_along_dim, whose gradients begin at +0; called, and torch's own enabled."""
    before, rows, index = laid_out(dtype, seed=10, features=FEATURES)
    want = expected(np.zeros_like(before), rows, index, dtype)
    grad, i = from_numpy_bits(rows, DTYPES[dtype]), torch.from_numpy(index)
    elements = i[:, None].expand_as(grad).contiguous()
    columns = torch.arange(FEATURES).expand_as(grad)
    for name, read in {
        "index_select": lambda ns, w: ns.index_select(w, 0, i),
        "gather": lambda ns, w: ns.gather(w, 0, elements),
        "take_along_dim": lambda ns, w: ns.take_along_dim(w, elements, 0),
        "index rows": lambda ns, w: ns.index(w, (i,)),
        "index points": lambda ns, w: ns.index(w, (elements, columns)),
    }.items():
        for ns in (reprocuda, TORCH):
            w = torch.zeros(before.shape, dtype=DTYPES[dtype], requires_grad=True)
            with reprocuda.enabled(strict=False):
                read(ns, w).backward(grad)
            assert_exact(w.grad, want, f"{name} {dtype}")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("alpha", [-0.1, 3, 1e-3])
@pytest.mark.parametrize("features", [1, FEATURES])
@pytest.mark.parametrize("dtype", DTYPES)
def test_alpha_multiplies_exactly(dtype, features, alpha, stage):
    before, rows, index = laid_out(dtype, seed=5, features=features)
    rounded = float(alpha) if dtype == "float64" else float(np.float32(alpha))
    want = expected(before, rows, index, dtype, weights=rounded)
    x, s, i = (from_numpy_bits(before, DTYPES[dtype]), from_numpy_bits(rows, DTYPES[dtype]), torch.from_numpy(index))
    plan = reprocuda.SegmentPlan.from_index(i, len(x))
    with forced(stage=stage):
        assert_exact(reprocuda.index_add(x, 0, i, s, alpha=alpha), want, f"alpha={alpha}")
        assert_exact(reprocuda.index_add(x, 0, plan, s, alpha=alpha), want, f"alpha={alpha} planned")


@pytest.mark.parametrize("real", ["float16", "float32", "float64"])
def test_complex_numbers_are_pairs(real):
    before, rows, index = laid_out(real, seed=6, features=FEATURES)
    want = expected(before, rows, index, real)
    i = torch.from_numpy(index)

    def as_complex(bits):
        return torch.view_as_complex(from_numpy_bits(bits, DTYPES[real]).reshape(len(bits), -1, 2))

    got = reprocuda.index_add(as_complex(before), 0, i, as_complex(rows))
    assert_exact(torch.view_as_real(got).reshape(len(before), FEATURES), want, f"complex of {real}")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_complex_alpha_is_two_real_products(dtype, stage):
    before, rows, index = laid_out(dtype, seed=7, features=2)
    alpha = complex(-0.3, 1.7)
    real, imag = (
        (alpha.real, alpha.imag) if dtype == "float64" else (float(np.float32(p)) for p in (alpha.real, alpha.imag))
    )
    # (a + bi)(c + di) = (ac - bd) + (ad + bc)i: two contributions to either part
    parts = np.concatenate([rows, rows[:, ::-1]])
    weights = np.concatenate([np.tile([real, real], (len(rows), 1)), np.tile([-imag, imag], (len(rows), 1))])
    want = expected(before, parts, np.concatenate([index, index]), dtype, weights=weights.reshape(-1))

    def as_complex(bits):
        return torch.view_as_complex(from_numpy_bits(np.ascontiguousarray(bits), DTYPES[dtype]))

    with forced(stage=stage):
        got = reprocuda.index_add(as_complex(before), 0, torch.from_numpy(index), as_complex(rows), alpha=alpha)
    assert_exact(torch.view_as_real(got), want, "complex alpha")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_segments(dtype, stage):
    """One output with most of the rows, as a frequent token gives."""
    rows = numbers(dtype, seed=8, outputs=4000, terms=5).reshape(-1, 1)
    rng = np.random.default_rng(8)
    index = np.where(rng.random(len(rows)) < 0.9, 0, rng.integers(0, 50, len(rows)))
    finite = np.isfinite(oracle.to_double(rows, dtype)).reshape(-1)
    rows, index = rows[finite], index[finite]
    want = expected(None, rows, index, dtype, targets=50)
    plan = reprocuda.SegmentPlan.from_index(torch.from_numpy(index), 50)
    with forced(stage=stage):
        assert_exact(reprocuda.segment_sum(from_numpy_bits(rows, DTYPES[dtype]), plan), want, "a long segment")


def test_the_oracle_tells_wrong_sums():
    """torch's own sums, in the same harness, are wrong in many outputs: the test can fail."""
    before, rows, index = laid_out("float32", seed=9, features=FEATURES)
    want = expected(before, rows, index, "float32")
    native = torch.index_add(
        from_numpy_bits(before, torch.float32), 0, torch.from_numpy(index), from_numpy_bits(rows, torch.float32)
    )
    assert np.mean(to_numpy_bits(native) != want) > 0.1
