"""Signed zeros, infinities, NaN patterns, subnormals, overflow: the contract's table, bit for bit, each algorithm."""

import numpy as np
import pytest
import torch

import reprocuda
from tests import oracle
from tests.operators.bits import DTYPES, assert_same_bits, from_numpy_bits, threads, to_numpy_bits
from tests.operators.forcing import ALGORITHMS, STAGES, forced

INF, NAN = float("inf"), float("nan")
CANONICAL_NAN = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8000000000000}


def every_way(run):
    """Results of `run` by each algorithm that serves it, entered at each stage."""
    for algorithm in ALGORITHMS:
        for stage in STAGES:
            with forced(algorithm, stage):
                try:
                    yield f"{algorithm} from {stage}", run()
                except RuntimeError as refused:
                    assert algorithm != "auto", refused


SUMS = [
    ([], 1.0, 1.0),
    ([], -0.0, -0.0),
    ([-0.0, -0.0], -0.0, -0.0),
    ([-0.0, 0.0], -0.0, 0.0),
    ([-0.0], 0.0, 0.0),
    ([1.0, -1.0], -0.0, 0.0),
    ([-1.0, 1.0], 0.0, 0.0),
    ([INF, 1.0], 0.0, INF),
    ([INF, -INF], 0.0, NAN),
    ([-INF, -1.0], 0.0, -INF),
    ([NAN, INF], 0.0, NAN),
    ([-INF], INF, NAN),
    ([1.0], NAN, NAN),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_table(dtype):
    """All rows of the table at once, one target each, so that neighbours must not disturb each other."""
    torch_dtype = DTYPES[dtype]
    index = torch.tensor([target for target, (terms, _, _) in enumerate(SUMS) for _ in terms])
    source = torch.tensor([term for terms, _, _ in SUMS for term in terms], dtype=torch_dtype)
    x = torch.tensor([before for _, before, _ in SUMS], dtype=torch_dtype)
    want = torch.tensor([result for _, _, result in SUMS], dtype=torch_dtype)
    wide = [1, 5, 33]
    for features in wide:

        def columns(t):
            return t[:, None].expand(-1, features).contiguous()  # noqa: B023

        for name, got in every_way(lambda: reprocuda.index_add(columns(x), 0, index, columns(source))):
            assert_same_bits(got, columns(want), f"{dtype} index_add {features} {name}")
        for name, got in every_way(lambda: reprocuda.scatter_add(columns(x), 0, columns(index), columns(source))):
            assert_same_bits(got, columns(want), f"{dtype} scatter_add {features} {name}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_payloads(dtype):
    """A sum that is NaN has one pattern whatever went in; what gets no contribution keeps its own."""
    form = oracle.FORMATS[dtype]
    odd = np.array([form.nan | 5, form.sign | form.nan | 1, form.infinity | 1, form.nan], dtype=form.bits)
    x = from_numpy_bits(odd, DTYPES[dtype])
    index = torch.tensor([1, 2])
    for name, got in every_way(lambda: reprocuda.index_add(x, 0, index, torch.ones(2, dtype=x.dtype))):
        result = to_numpy_bits(got).tolist()
        assert result == [odd[0], CANONICAL_NAN[dtype], CANONICAL_NAN[dtype], odd[3]], f"{dtype} {name}"
    got = reprocuda.segment_sum(x, torch.tensor([0, 1, 1, 4]))
    assert to_numpy_bits(got).tolist() == [CANONICAL_NAN[dtype], 0, CANONICAL_NAN[dtype]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", [1, 16])
def test_all_nan(dtype, features):
    """Mixed-precision training produces whole steps of NaN."""
    source = torch.full((3000, features), NAN, dtype=DTYPES[dtype])
    index = torch.randint(40, (3000,))
    for name, got in every_way(
        lambda: reprocuda.index_add(torch.zeros(41, features, dtype=source.dtype), 0, index, source)
    ):
        want = np.full((41, features), CANONICAL_NAN[dtype])
        want[40] = 0
        assert np.array_equal(to_numpy_bits(got), want), f"{dtype} {name}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_flushing_denormals_does_not_reach_the_sums(dtype):
    tiny = 2.0 ** oracle.FORMATS[dtype].unit_exponent
    x = torch.tensor([tiny, -tiny, tiny], dtype=DTYPES[dtype]).repeat(2, 1)
    source = x.repeat(50, 1)
    index = torch.zeros(100, dtype=torch.long)

    def run():
        return reprocuda.index_add(x, 0, index, source)

    want = run()
    assert want[0, 0].item() == 101 * tiny
    if not torch.set_flush_denormal(True):
        pytest.fail("this CPU cannot flush denormals: the test shows nothing")
    try:
        for count in (1, 2):
            with threads(count):
                for name, got in every_way(run):
                    assert_same_bits(got, want, f"{name}, {count} threads")
        assert torch.tensor([tiny], dtype=torch.float64).mul(1.0).item() == 0 or dtype != "float64"
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float, torch.double, torch.cfloat, torch.cdouble])
def test_flushing_denormals_does_not_reach_alpha(dtype):
    """Neither its rounding to float32 nor the question whether it is one."""
    tiny = 2.0**-1070 if dtype in (torch.double, torch.cdouble) else 2.0**-140
    alphas = [tiny, -1.5 * tiny, *([complex(1, tiny)] if dtype.is_complex else [])]
    source = torch.tensor([INF if dtype == torch.half else torch.finfo(dtype).max], dtype=dtype)
    target = torch.zeros(1, dtype=dtype)

    def run():
        return torch.cat([reprocuda.index_add(target, 0, torch.tensor([0]), source, alpha=alpha) for alpha in alphas])

    want = run()
    assert not want.isnan().any() and want.abs().min() > 0
    if not torch.set_flush_denormal(True):
        pytest.fail("this CPU cannot flush denormals: the test shows nothing")
    assert_same_bits(run(), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_partial_sums_never_overflow(dtype):
    largest = torch.finfo(DTYPES[dtype]).max
    source = torch.tensor([largest, largest, -largest, -largest, 1.0], dtype=DTYPES[dtype])
    x = torch.zeros(2, dtype=DTYPES[dtype])
    for name, got in every_way(lambda: reprocuda.index_add(x, 0, torch.tensor([0, 0, 0, 0, 0]), source)):
        assert got.tolist() == [1, 0], f"{dtype} {name}"
    assert reprocuda.index_add(x, 0, torch.tensor([0, 0]), source[:2])[0] == INF
    weight = torch.zeros(2, 1, dtype=DTYPES[dtype], requires_grad=True)
    reprocuda.embedding(torch.tensor([0, 0]), weight, scale_grad_by_freq=True).backward(source[:2, None])
    assert weight.grad[0] == largest  # the mean fits although the sum does not


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_times_infinity_is_nan(dtype):
    source = torch.tensor([INF, 1.0], dtype=DTYPES[dtype])
    got = reprocuda.index_add(torch.zeros(2, dtype=source.dtype), 0, torch.tensor([0, 1]), source, alpha=0)
    assert to_numpy_bits(got).tolist() == [CANONICAL_NAN[dtype], 0]
    negative = reprocuda.index_add(
        torch.full((1,), -0.0, dtype=source.dtype), 0, torch.tensor([0]), source[1:], alpha=-0.0
    )
    assert torch.signbit(negative).item()


def test_deterministic_fill_does_not_show():
    """torch fills new tensors with NaN under its flag; no element may be left unwritten."""
    torch.use_deterministic_algorithms(True)
    for shape in ((5,), (5, 3), (5, 40)):
        x, index = torch.zeros(shape), torch.tensor([1, 1])
        source = torch.ones(2, *shape[1:])
        assert not reprocuda.index_add(x, 0, index, source).isnan().any()
        assert not reprocuda.segment_sum(source, torch.tensor([0, 0, 2, 2])).isnan().any()
        assert not reprocuda.index_put(x, (index,), source, True).isnan().any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("contribution", [INF, -INF, NAN])
@pytest.mark.parametrize("beside", [1.0, NAN])  # what the untouched neighbours keep
def test_a_target_whose_only_contribution_is_not_finite_is_touched(dtype, contribution, beside):
    before = torch.tensor([1.0, beside] * 32, dtype=DTYPES[dtype])
    source = torch.full((32,), contribution, dtype=DTYPES[dtype])
    want = before.clone()
    want[::2] = contribution
    for name, got in every_way(lambda: reprocuda.index_add(before, 0, torch.arange(0, 64, 2), source, alpha=0.1)):
        assert_same_bits(got, want, name)
