"""Means with an initial value, which is in the sum and not in the number that it is divided by."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import reprocuda
from reprocuda import ops
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, assert_same_bits, from_numpy_bits, threads, to_numpy_bits

LENGTHS = torch.tensor([3, 0, 1, 9, 0, 7])
pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")


def expected_mean(data, lengths, initial, dtype):
    """The bits of (initial + the sum of each segment) / its length, by fractions; initial where it is empty."""
    segments, columns = len(lengths), data.shape[1]
    targets = torch.repeat_interleave(torch.arange(segments), lengths)
    targets = torch.cat([torch.arange(segments), targets])[:, None] * columns + torch.arange(columns)
    numbers = torch.cat([torch.full((segments, columns), initial, dtype=data.dtype), data])
    divisor = np.repeat(lengths.clamp(min=1).numpy(), columns)
    return oracle.exact_segment_sums(
        to_numpy_bits(numbers).reshape(-1), targets.reshape(-1).numpy(), segments * columns, dtype, divisor=divisor
    ).reshape(segments, columns)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mean_with_an_initial_value(dtype):
    """The exact sum over the exact number, rounded once; the initial value is in the sum only."""
    generator = torch.Generator().manual_seed(0)
    for kind in KINDS:
        for columns in (1, 3, 33):
            data = make(kind, (20, columns), DTYPES[dtype], generator)
            parts = torch.arange(20).split(LENGTHS.tolist())
            order = torch.cat([part[torch.randperm(len(part), generator=generator)] for part in parts])
            for initial in (1.5, -1e4, math.inf):
                want = expected_mean(data, LENGTHS, initial, dtype)
                for count, rows in ((1, data), (2, data[order])):
                    with threads(count), reprocuda.enabled():
                        got = reprocuda.segment_reduce(rows, "mean", lengths=LENGTHS, initial=initial)
                        assert_same_bits(torch.segment_reduce(rows, "mean", lengths=LENGTHS, initial=initial), got)
                    assert (to_numpy_bits(got) == want).all(), (kind, initial)


def test_no_mean_with_an_initial_value_overflows():
    tiny = 5e-324
    huge = torch.tensor([1.7e308, 1.7e308, -1e308], dtype=torch.float64)
    got = reprocuda.segment_reduce(huge, "mean", lengths=torch.tensor([2, 1]), initial=1.7e308)
    assert got.tolist() == [math.inf, float(Fraction(1.7e308) - Fraction(1e308))]
    got = reprocuda.segment_reduce(huge[:2], "mean", lengths=torch.tensor([2]), initial=-1e308)
    assert got.tolist() == [float((2 * Fraction(1.7e308) - Fraction(1e308)) / 2)]
    small = torch.full((3,), tiny, dtype=torch.float64)
    assert reprocuda.segment_reduce(small, "mean", lengths=torch.tensor([3]), initial=-tiny).tolist() == [tiny]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.int64])
def test_the_operator_and_its_derivatives(dtype):
    own, source = torch.arange(8).reshape(4, 2).to(dtype), torch.arange(10).reshape(5, 2).to(dtype) - 3
    permutation, offsets = torch.tensor([4, 1, 0, 2, 3]), torch.tensor([0, 2, 2, 4, 5])
    differs = dtype != torch.int64
    arguments = own.requires_grad_(differs), permutation, offsets, source.requires_grad_(differs)
    got = ops.mean_with_initial(*arguments)
    want = torch.tensor([[(0 + 5 - 1) / 2, (1 + 6 + 0) / 2], [2, 3], [(4 - 3 + 1) / 2, (5 - 2 + 2) / 2], [9, 11]])
    assert torch.equal(got, want.floor().to(dtype) if not differs else want.to(dtype))
    torch.library.opcheck(ops.mean_with_initial, arguments)
    if differs:
        for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
            assert check(lambda a, b: ops.mean_with_initial(a, permutation, offsets, b), (own, source))


def test_compiled_vmapped_and_forward():
    source, out = torch.randn(5, 2, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    index = torch.tensor([0, 2, 2, 0, 0])
    lengths = torch.tensor([2, 0, 3])
    for call in (
        lambda x, own: reprocuda.scatter.scatter_mean(x, index, 0, own.clone()),
        lambda x, own: reprocuda.segment_reduce(x, "mean", lengths=lengths, initial=0.3) + own,
    ):
        want = call(source, out)
        assert torch.equal(torch.compile(call, backend="aot_eager", fullgraph=True)(source, out), want)
        x = source.clone().requires_grad_()
        (mine,) = torch.autograd.grad(call(x, out).sum(), x)
        y = source.clone().requires_grad_()
        (compiled,) = torch.autograd.grad(torch.compile(call, backend="aot_eager")(y, out).sum(), y)
        assert torch.equal(mine, compiled)
        assert torch.equal(torch.func.vmap(call)(torch.stack([source, -source]), torch.stack([out, -out]))[0], want)
        assert torch.equal(torch.func.vjp(call, source, out)[1](torch.ones_like(want))[0], mine)
        assert torch.autograd.gradcheck(call, (x, out), check_forward_ad=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mean_with_initial_out_by_a_broadcast_index(dtype):
    """Whole rows, where the index is broadcast; else element by element. The same sums."""
    generator = torch.Generator().manual_seed(1)
    data = make("wide", (20, 3), DTYPES[dtype], generator)
    rows = torch.repeat_interleave(torch.arange(6), LENGTHS)
    order = torch.randperm(20, generator=generator)
    want = from_numpy_bits(expected_mean(data, LENGTHS, 1.5, dtype).reshape(-1), DTYPES[dtype]).reshape(6, 3)
    for dim in (0, 1):
        index, source = rows[order][:, None].expand(20, 3), data[order]
        out = torch.full((6, 3), 1.5, dtype=data.dtype)
        if dim == 1:
            index, source, out = index.t(), source.t(), out.t().contiguous()
        for given in (index, index.contiguous()):
            got = reprocuda.scatter.scatter_mean(source, given, dim, out=out.clone())
            assert_same_bits((got.t() if dim == 1 else got).contiguous(), want)
