"""Reductions by index other than the sum, against fractions; their derivatives where a formula could go wrong."""

import contextlib
import functools
import math

import pytest
import torch

import reprocuda
from tests import oracle
from tests.numerics.generators import beside_a_tie
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, assert_same_bits, threads, to_numpy_bits
from tests.operators.forcing import STAGES, forced
from tests.processes import by_instruction_set

REDUCTIONS = ("sum", "mean", "prod", "amax", "amin")
TARGETS = 7


def check(got, x, index, source, reduce, include_self, dtype) -> int:
    bits, before = to_numpy_bits(got), to_numpy_bits(x)
    for column in range(x.shape[1]):
        where = index if index.dim() == 1 else index[:, column]
        for target in range(TARGETS):
            values = source[where == target, column].double().tolist()
            want = int(before[target, column])
            if values:
                own = [float(x[target, column])] if include_self else []
                want = oracle.exact_reduction(values + own, reduce, dtype)
            assert int(bits[target, column]) == want, (reduce, include_self, dtype, values[:8])
    return bits.size


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_exact_and_rounded_once(reduce, dtype):
    """By rows and by elements, from every stage on, of one column, of a few, and of more than a vector."""
    generator, outputs = torch.Generator().manual_seed(0), 0
    for kind in KINDS:
        for include_self in (True, False):
            for columns in (1, 3, 19):
                for stage in STAGES:
                    rows = 40 if stage == "filter" else 12
                    x = make(kind, (TARGETS, columns), DTYPES[dtype], generator)
                    source = make(kind, (rows, columns), DTYPES[dtype], generator)
                    for shape in ((rows,), (rows, columns)):
                        index = torch.randint(0, TARGETS, shape, generator=generator)
                        elements = index if index.dim() == 2 else index[:, None].expand(rows, columns)
                        for algorithm in ("auto", "rows", "bins"):
                            with forced(algorithm, stage):
                                got = reprocuda.scatter_reduce(
                                    x, 0, elements, source, reduce, include_self=include_self
                                )
                            outputs += check(got, x, index, source, reduce, include_self, dtype)
    assert outputs > 5000


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_many_targets_in_cells(reduce, dtype):
    """Cells are rounded several at a time; of neighbours some are touched, some not, some hard."""
    generator, rows, targets = torch.Generator().manual_seed(0), 900, 421
    for kind in KINDS:
        x = make(kind, (targets,), DTYPES[dtype], generator)
        source = make(kind, (rows,), DTYPES[dtype], generator)
        index = torch.randint(targets, (rows,), generator=generator)
        for include_self in (True, False):
            want = oracle.exact_segment_reductions(
                to_numpy_bits(source), index.numpy(), targets, dtype, reduce,
                initial=to_numpy_bits(x), include_self=include_self,
            )  # fmt: skip
            for algorithm in ("bins", "partition"):
                for stage in STAGES[:2]:
                    with forced(algorithm, stage):
                        got = reprocuda.scatter_reduce(x, 0, index, source, reduce, include_self=include_self)
                        in_place = x.clone()
                        reprocuda.scatter_reduce_(in_place, 0, index, source, reduce, include_self=include_self)
                    assert (to_numpy_bits(got) == want).all(), (kind, include_self, algorithm, stage)
                    assert (to_numpy_bits(in_place) == want).all(), (kind, include_self, algorithm, stage)


PROGRAM = """
import hashlib, torch, reprocuda
from tests.operators.bits import DTYPES, to_numpy_bits
from tests.operators.adversarial import KINDS, make
from tests.operators.reductions.test_reductions import REDUCTIONS
generator, digest = torch.Generator().manual_seed(5), hashlib.sha256()
for dtype in DTYPES.values():
    for kind in KINDS:
        for rows, columns, targets in ((3000, 1, 700), (400, 19, 50), (2000, 1, 3)):
            x, source = make(kind, (targets, columns), dtype, generator), make(kind, (rows, columns), dtype, generator)
            index = torch.randint(targets, (rows,), generator=generator)
            elements = torch.randint(targets, (rows, columns), generator=generator)
            for reduce in REDUCTIONS:
                for include_self in (True, False):
                    how = {"reduce": reduce, "include_self": include_self}
                    digest.update(to_numpy_bits(reprocuda.scatter_reduce(x, 0, elements, source, **how)).tobytes())
                    if reduce != "sum":
                        digest.update(to_numpy_bits(reprocuda.index_reduce(x, 0, index, source, **how)).tobytes())
                lengths = torch.bincount(index, minlength=targets)
                reduced = reprocuda.segment_reduce(source, reduce, lengths=lengths)
                digest.update(to_numpy_bits(reduced).tobytes())
print(digest.hexdigest())
"""


def test_the_same_bits_by_every_instruction_set():
    assert len({*by_instruction_set(PROGRAM).values()}) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_products(dtype):
    """Thousands of factors, whose exponents go far beyond the format on the way; a product that is a tie."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(3000, generator=generator, dtype=torch.float64).abs() + 0.5
    factors = torch.cat([half * 2.0**14, (1 / half) * 2.0**-14]).to(DTYPES[dtype])
    for order in (torch.arange(6000), torch.randperm(6000, generator=generator)):
        got = reprocuda.scatter_reduce(
            torch.ones(1, dtype=DTYPES[dtype]), 0, torch.zeros(6000, dtype=torch.long), factors[order], "prod"
        )
        assert int(to_numpy_bits(got)[0]) == oracle.exact_reduction(factors.double().tolist(), "prod", dtype)
    # (1 + 2^-k)(1 + 2^-j) with k + j = precision is a tie but for the term in between.
    precision = oracle.FORMATS[dtype].fraction_bits + 1
    for k in range(1, precision):
        pair = torch.tensor([1 + 2.0**-k, 1 + 2.0 ** (k - precision)], dtype=torch.float64).to(DTYPES[dtype])
        for stage in STAGES:
            with forced(stage=stage):
                got = reprocuda.index_reduce(torch.ones(1, dtype=pair.dtype), 0, torch.tensor([0, 0]), pair, "prod")
            assert int(to_numpy_bits(got)[0]) == oracle.exact_reduction(pair.double().tolist(), "prod", dtype)


@pytest.mark.parametrize("n", [60, 110, 120, 210, 420])
@pytest.mark.parametrize("columns", [1, 2, 9])
def test_products_beside_a_tie(n, columns):
    """Missed by 2^-n of it: beyond a pair of doubles, beyond 8 words; by every way, one and many columns."""
    factors = torch.from_numpy(beside_a_tie(n)[0])
    want = oracle.exact_reduction(factors.tolist(), "prod", "float64")
    generator = torch.Generator().manual_seed(n)
    for copies in (1, 300):  # few targets and many
        index = torch.arange(copies).repeat_interleave(factors.numel())
        order = torch.randperm(index.numel(), generator=generator)
        source = factors.repeat(copies)[order, None].expand(-1, columns).contiguous()
        base, index = torch.ones(copies, columns, dtype=torch.float64), index[order]
        for algorithm in ("auto", "rows", "bins", *["partition"] * (columns == 1)):
            with forced(algorithm):
                by_rows = reprocuda.index_reduce(base, 0, index, source, "prod")
                by_elements = reprocuda.scatter_reduce(base, 0, index[:, None].expand_as(source), source, "prod")
            for got in (by_rows, by_elements):
                assert {int(bits) for bits in to_numpy_bits(got).flat} == {want}


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_threads_and_orders(reduce):
    generator = torch.Generator().manual_seed(1)
    index = torch.randint(50, (60_000,), generator=generator)
    source = torch.randn(60_000, generator=generator) + 1.5
    results = []
    for count in (1, 2, 16):
        order = torch.randperm(60_000, generator=generator)
        with threads(count):
            results.append(reprocuda.scatter_reduce(torch.ones(50), 0, index[order], source[order], reduce))
    assert_same_bits(results[0], results[1])
    assert_same_bits(results[0], results[2])


@pytest.mark.parametrize("zeros", [[], [1], [1, 2], [1, 2, 3]])
@pytest.mark.parametrize("own", [0.0, 1.5])
@pytest.mark.parametrize("include_self", [True, False])
def test_derivatives_of_products_with_zeros(zeros, own, include_self):
    """The product of the others, and its derivative in turn, however many factors are 0 (C83)."""
    source = torch.tensor([2.0, -3.0, 0.5, 4.0, 5.0], dtype=torch.float64)
    source[zeros] = 0.0
    x = torch.tensor([own, 3.0], dtype=torch.float64)
    index = torch.tensor([0, 0, 0, 0, 1])
    leaves = [x.requires_grad_(), source.requires_grad_()]
    for function in (reprocuda.scatter_reduce, reprocuda.index_reduce):

        def call(x, s):
            return function(x, 0, index, s, "prod", include_self=include_self)  # noqa: B023

        torch.autograd.gradcheck(call, leaves, check_forward_ad=True)
        if len(zeros) + (include_self and own == 0) < 3 or not zeros:
            torch.autograd.gradgradcheck(call, leaves)


@pytest.mark.parametrize("function", [reprocuda.scatter_reduce, reprocuda.index_reduce])
def test_ties_share_the_gradient(function):
    x = torch.tensor([5.0, 7.0], requires_grad=True)
    source = torch.tensor([5.0, 5.0, 1.0], requires_grad=True)
    index = torch.tensor([0, 0, 0])
    function(x, 0, index, source, "amax").sum().backward()
    assert torch.equal(x.grad, torch.tensor([1 / 3, 1.0]))
    assert torch.equal(source.grad, torch.tensor([1 / 3, 1 / 3, 0.0]))
    x, source = torch.zeros(3, requires_grad=True), torch.tensor([1.0, 5.0, 5.0], requires_grad=True)
    function(x, 0, index, source, "amax", include_self=False).sum().backward()
    assert x.grad.tolist() == [0, 1, 1] and source.grad.tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_an_index_smaller_than_src(reduce):
    """The part that the index does not reach has no influence: its gradient is 0 (C76)."""
    source = torch.arange(1.0, 6.0, dtype=torch.float64).requires_grad_()
    x, index = torch.full((3,), 2.5, dtype=torch.float64), torch.tensor([0, 1, 1])
    reprocuda.scatter_reduce(x, 0, index, source, reduce).sum().backward()
    assert source.grad[3:].tolist() == [0, 0]
    torch.autograd.gradcheck(lambda s: reprocuda.scatter_reduce(x, 0, index, s, reduce), source, check_forward_ad=True)


def test_reported_situations():
    """C50 to C60: groups without members, nothing to scatter, means of halves, NaN; C75: the forward derivative."""
    source, index = torch.tensor([3.0, 9.0, -2.0]), torch.tensor([0, 0, 2])
    for reduce, first in {"amax": 9, "amin": 3, "prod": 27, "mean": 6, "sum": 12}.items():
        got = reprocuda.scatter_reduce(torch.zeros(4), 0, index, source, reduce, include_self=False)
        assert got.tolist() == [first, 0, -2, 0]
    x, none = torch.ones(4, 5, 6), torch.zeros(4, 5, 0, dtype=torch.long)
    for reduce in REDUCTIONS:
        for include_self in (True, False):
            got = reprocuda.scatter_reduce(x, 2, none, torch.zeros(4, 5, 0), reduce, include_self=include_self)
            assert torch.equal(got, x)
    many = torch.zeros(100_000, dtype=torch.long)
    for dtype in (torch.half, torch.bfloat16):
        alternating = torch.tensor([0.0, 1.0]).repeat(50_000).to(dtype)
        for function in (reprocuda.scatter_reduce, reprocuda.index_reduce):
            assert function(torch.zeros(1, dtype=dtype), 0, many, alternating, "mean", include_self=False).item() == 0.5
    group, values = torch.tensor([0, 0, 1]), torch.tensor([math.nan, 5.0, -1.0])
    got = reprocuda.scatter_reduce(torch.full((2,), -9.0), 0, group, values, "amax")
    assert math.isnan(got[0]) and got[1] == -1

    def product(t):
        return reprocuda.scatter_reduce(
            torch.stack((t + 2, t + 3)), 0, torch.tensor([0, 0]), torch.stack((t + 4, t + 5)), "prod"
        ).sum()

    t = torch.tensor(0.0, dtype=torch.float64)
    assert torch.func.jvp(product, (t,), (torch.ones_like(t),))[1].item() == 39 == torch.func.grad(product)(t).item()


def test_a_mean_over_an_empty_segment_and_its_gradient():
    """C56: nothing is divided by 0, with torch's own function replaced and by ours."""
    lengths, want = torch.tensor([2, 0, 4]), [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    index = torch.repeat_interleave(torch.arange(3), lengths)

    def by_index(data):
        return reprocuda.scatter_reduce(torch.zeros(3).double(), 0, index, data, "mean", include_self=False)

    def by_segments(data):
        return torch.segment_reduce(data, "mean", lengths=lengths, initial=0.0)

    ours = functools.partial(reprocuda.segment_reduce, reduce="mean", lengths=lengths, initial=0.0)
    for mean in (by_index, by_segments, ours):
        data = torch.arange(1.0, 7.0, dtype=torch.float64).requires_grad_()
        with reprocuda.enabled():
            result = mean(data)
            assert result.tolist() == [1.5, 0.0, 4.5]
            assert torch.autograd.grad(result.sum(), data)[0].tolist() == want
        torch.autograd.gradcheck(mean, data)


@pytest.mark.parametrize("members", [1, 256, 257])
def test_sums_of_bools_are_or_however_many(members):
    """C59: a byte that is added to 256 times would be false again."""
    index, true = torch.zeros(members, dtype=torch.long), torch.ones(members, dtype=torch.bool)
    nothing = torch.zeros(2, dtype=torch.bool)
    for namespace, scope in ((reprocuda, contextlib.nullcontext), (torch, reprocuda.enabled)):
        with scope():
            sums = [
                namespace.scatter_add(nothing, 0, index, true),
                namespace.index_add(nothing, 0, index, true),
                namespace.index_put(nothing, (index,), true, accumulate=True),
                namespace.scatter_reduce(nothing, 0, index, true, "sum"),
                namespace.scatter_reduce(nothing, 0, index, true, "amax", include_self=False),
            ]
        assert [result.tolist() for result in sums] == [[True, False]] * len(sums)


def test_the_gradient_of_a_mean_of_more_than_float32_can_count():
    count = 2**24 + 1
    src = torch.zeros(count, requires_grad=True)
    index = torch.zeros(1, dtype=torch.int64).expand(count)
    got = reprocuda.scatter_reduce(torch.zeros(1), 0, index, src, "mean", include_self=False)
    (grad,) = torch.autograd.grad(got, src, torch.ones(1))
    assert grad[0] == 2.0**-24 - 2.0**-48 and grad.unique().numel() == 1
