"""torch.segment_reduce, called and replaced: against fractions, torch's gradients, threads, orders, refusals."""

import math

import pytest
import torch

import reprocuda
from tests import oracle
from tests.operators.bits import DTYPES, assert_same_bits, threads, to_numpy_bits
from tests.operators.test_reductions import KINDS, make

REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}
EMPTY = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}
LENGTHS = torch.tensor([3, 0, 1, 9, 0, 7])
pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_exact_and_rounded_once(reduce, dtype):
    generator, outputs = torch.Generator().manual_seed(0), 0
    for kind in KINDS * 2:
        for initial in (None, 0.0, 1.5):
            if reduce == "mean" and initial:
                continue  # rounded twice
            for columns in (1, 5, 33):
                data = make(kind, (20, columns), DTYPES[dtype], generator)
                got = reprocuda.segment_reduce(data, reduce, lengths=LENGTHS, initial=initial)
                offsets = torch.cat([torch.zeros(1, dtype=torch.long), LENGTHS.cumsum(0)])
                assert_same_bits(reprocuda.segment_reduce(data, reduce, offsets=offsets, initial=initial), got)
                with reprocuda.enabled():
                    assert_same_bits(torch.segment_reduce(data, reduce, lengths=LENGTHS, initial=initial), got)
                bits = to_numpy_bits(got)
                for segment, column in ((s, c) for s in range(6) for c in range(columns)):
                    values = data[offsets[segment] : offsets[segment + 1], column].double().tolist()
                    # sums start at +0; a mean's start counts for nothing
                    start = EMPTY[reduce] if initial is None else initial
                    members = values if values and reduce == "mean" else [*values, start]
                    want = oracle.exact_reduction(members, REDUCTIONS[reduce], dtype)
                    assert int(bits[segment, column]) == want, (kind, initial, values)
                outputs += bits.size
    assert outputs > 2000


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("initial", [None, 0.0, 2.0, 3.0])
def test_values_and_gradients_are_torchs(reduce, initial):
    """Ties with the initial value too, whose gradient goes to the members; zeros among factors."""
    data = torch.tensor([3.0, 1, 3, 2, 0, 5, 4, 3, 3], dtype=torch.float64)
    for lengths in (torch.tensor([3, 2, 0, 4]), torch.tensor([9]), torch.tensor([2, 2, 2, 3], dtype=torch.int32)):
        for shape in ((9,), (9, 1)):
            results = []
            for function in (torch.segment_reduce, reprocuda.segment_reduce):
                x = data.clone().reshape(shape).requires_grad_()
                out = function(x, reduce, lengths=lengths, initial=initial)
                out.nan_to_num(0.0, 0.0, 0.0).square().sum().backward()
                results.append((out, x.grad))
            torch.testing.assert_close(results[1], results[0], equal_nan=True)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_derivatives(reduce):
    """Of both orders and directions, which torch does not have."""
    x = (torch.randperm(12, generator=torch.Generator().manual_seed(0)).double() / 4 + 0.3).requires_grad_()
    for keywords in (
        {"lengths": torch.tensor([3, 4, 5])},
        {"offsets": torch.tensor([1, 4, 4, 9]), "initial": 0.7},
    ):
        call = lambda x, k=keywords: reprocuda.segment_reduce(x, reduce, **k)  # noqa: E731
        torch.autograd.gradcheck(call, x, check_forward_ad=True)
        torch.autograd.gradgradcheck(call, x)


def test_a_mean_with_an_empty_segment():
    """C56"""
    x = torch.arange(1.0, 7.0, dtype=torch.float64).requires_grad_()
    out = reprocuda.segment_reduce(x, "mean", lengths=torch.tensor([2, 0, 4]), initial=0.0)
    out.sum().backward()
    assert out.tolist() == [1.5, 0, 4.5] and x.grad.tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_lengths_of_every_slice(reduce):
    data = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([[2, 0, 4], [1, 3, 2]])
    for initial in (None, 1.5):
        want = torch.segment_reduce(data, reduce, lengths=lengths, axis=1, initial=initial)
        got = reprocuda.segment_reduce(data, reduce, lengths=lengths, axis=1, initial=initial)
        torch.testing.assert_close(got, want, equal_nan=True)
        offsets = torch.tensor([[1, 2, 2, 4], [0, 3, 5, 5]])
        want = torch.segment_reduce(data, reduce, offsets=offsets, axis=1, initial=initial)
        got = reprocuda.segment_reduce(data, reduce, offsets=offsets, axis=1, initial=initial)
        torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_threads_and_orders(reduce):
    generator = torch.Generator().manual_seed(0)
    data, lengths = torch.randn(60_000, 2, generator=generator) + 1.5, torch.full((60,), 1000)
    results = []
    for count in (1, 2):
        order = torch.cat([1000 * s + torch.randperm(1000, generator=generator) for s in range(60)])
        with threads(count), reprocuda.enabled():
            results.append(torch.segment_reduce(data[order], reduce, lengths=lengths))
    assert_same_bits(*results)


def test_compiled_code():
    offsets = torch.tensor([0, 2, 2, 6])
    for reduce in REDUCTIONS:
        call = lambda x, r=reduce: reprocuda.segment_reduce(x, r, offsets=offsets)  # noqa: E731
        x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(torch.compile(call, backend="aot_eager")(x), call(x), equal_nan=True)


DATA = torch.arange(6.0)


@pytest.mark.parametrize(
    "keywords, error",
    [
        ({"lengths": torch.tensor([2, 3])}, "sum to data.size"),
        ({"lengths": torch.tensor([2, -1, 5])}, "negative"),
        ({}, "Either lengths or offsets"),
        ({"lengths": torch.tensor([[6]]), "axis": 0}, "data.dim"),
        ({"lengths": torch.tensor([2, -1, 5]), "unsafe": True}, r"rise within \[0, 6\]"),
        ({"lengths": torch.tensor([6]), "indices": torch.tensor([0])}, "indices"),
        ({"lengths": torch.tensor([7]), "unsafe": True}, r"rise within \[0, 6\]"),
        ({"offsets": torch.tensor([0, 7])}, r"rise within \[0, 6\]"),
        ({"offsets": torch.tensor([0, 4, 2])}, r"rise within \[0, 6\]"),
    ],
)
def test_refusals(keywords, error):
    for function in (reprocuda.segment_reduce, torch.segment_reduce):
        with reprocuda.enabled(), pytest.raises(RuntimeError, match=error):
            function(DATA, "sum", **keywords)


def test_lengths_that_do_not_cover_the_data():
    got = reprocuda.segment_reduce(DATA, "sum", lengths=torch.tensor([2, 3]), unsafe=True)
    assert got.tolist() == [1, 9]
