"""torch_scatter's functions: values against fractions and plain loops, bits for threads and orders, out=."""

import importlib
import itertools
import math

import numpy as np
import pytest
import torch

import reprocuda
from reprocuda.scatter import (
    gather_coo,
    gather_csr,
    scatter,
    scatter_add,
    scatter_log_softmax,
    scatter_logsumexp,
    scatter_max,
    scatter_mean,
    scatter_min,
    scatter_mul,
    scatter_softmax,
    scatter_std,
    scatter_sum,
    segment_coo,
    segment_csr,
    segment_max_coo,
    segment_max_csr,
    segment_mean_coo,
    segment_mean_csr,
    segment_min_coo,
    segment_min_csr,
    segment_sum_coo,
    segment_sum_csr,
)
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, assert_same_bits, threads, to_numpy_bits

TARGETS = 7
PACKAGE = importlib.import_module("reprocuda.scatter")
EXACT = {"sum": scatter_sum, "mean": scatter_mean, "prod": scatter_mul}
ALL_DTYPES = [*DTYPES.values(), torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", EXACT)
def test_exact_and_rounded_once(reduce, dtype):
    """By scatter, and sorted by segments (COO and CSR), against fractions."""
    generator, outputs = torch.Generator().manual_seed(0), 0
    empty = 1.0 if reduce == "prod" else 0.0
    for kind in KINDS:
        for columns in (1, 3, 40):
            for rows in (1, 12, 40):
                source = make(kind, (rows, columns), DTYPES[dtype], generator)
                index = torch.randint(TARGETS, (rows,), generator=generator)
                got = EXACT[reduce](source, index, 0, dim_size=TARGETS)
                results = [got]
                order = index.argsort(stable=True)
                if reduce != "prod":
                    pointers = torch.searchsorted(index[order], torch.arange(TARGETS + 1))
                    results.append(segment_coo(source[order], index[order], dim_size=TARGETS, reduce=reduce))
                    results.append(segment_csr(source[order], pointers, reduce=reduce))
                for result in results[1:]:
                    assert_same_bits(result, got)
                bits = to_numpy_bits(got)
                for target, column in itertools.product(range(TARGETS), range(columns)):
                    values = source[index == target, column].double().tolist()
                    start = [] if reduce == "mean" and values else [empty]  # sums begin at +0, products at 1
                    want = oracle.exact_reduction(values + start, reduce, dtype)
                    assert int(bits[target, column]) == want, (kind, values)
                outputs += bits.size
    assert outputs > 5000


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mean_with_out_is_rounded_once(dtype):
    """`out` is in the sum, and not in the number that it is divided by."""
    generator = torch.Generator().manual_seed(0)
    for kind in KINDS:
        for index in (torch.randint(TARGETS, (40,), generator=generator),
                      torch.randint(TARGETS, (40, 3), generator=generator)):  # fmt: skip
            source = make(kind, (40, 3), DTYPES[dtype], generator)
            out = make(kind, (TARGETS, 3), DTYPES[dtype], generator)
            full = (index if index.dim() == 2 else index[:, None].expand(40, 3)) * 3 + torch.arange(3)
            targets = torch.cat([torch.arange(TARGETS * 3), full.reshape(-1)]).numpy()
            numbers = torch.cat([out, source])
            counts = full.reshape(-1).bincount(minlength=TARGETS * 3).numpy()
            reached, kept = counts > 0, to_numpy_bits(out).reshape(-1)
            want = oracle.exact_segment_sums(
                to_numpy_bits(numbers).reshape(-1), targets, TARGETS * 3, dtype, divisor=counts.clip(1)
            )
            results = [scatter_mean(source, index, 0, out.clone())]
            if index.dim() == 1:
                order = index.argsort(stable=True)
                results.append(segment_mean_coo(source[order], index[order], out.clone()))
            elif dtype in ("float32", "float64"):
                parts = torch.complex(source, -source), torch.complex(out, -out)
                results.append(scatter_mean(parts[0], index, 0, parts[1]).real)
            for result in results:
                bits = to_numpy_bits(result.contiguous()).reshape(-1)
                assert (bits == np.where(reached, want, kept)).all(), kind


def rank(value: float, largest: bool):
    """Sorts numbers as they compete: NaN above all, +0 above -0."""
    number = 0.0 if math.isnan(value) else value
    sign = math.copysign(1, number) if number == 0 else 0
    return (math.isnan(value), number, sign) if largest else (math.isnan(value), -number, -sign)


def expected_extremum(src, index, dim, size, own, largest):
    src, index = src.movedim(dim, -1), index.movedim(dim, -1)
    values = torch.zeros(*src.shape[:-1], size, dtype=src.dtype) if own is None else own.movedim(dim, -1).clone()
    positions = torch.full(values.shape, src.shape[-1])
    for at in itertools.product(*map(range, src.shape[:-1])):
        for row in range(src.shape[-1]):
            target = (*at, int(index[at][row]))
            unclaimed = own is None and positions[target] == src.shape[-1]
            if unclaimed or rank(src[at][row].item(), largest) > rank(values[target].item(), largest):
                values[target], positions[target] = src[at][row], row
    if src.dtype.is_floating_point:
        values = torch.where(values.isnan() & (positions < src.shape[-1]), torch.nan, values)
    return values.movedim(-1, dim), positions.movedim(-1, dim)


def drawn(shape, dtype, generator):
    """Few different numbers, so that there are ties, with all that is special."""
    numbers = torch.randint(0 if dtype == torch.uint8 else -3, 4, shape, generator=generator).to(dtype)
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        chance = torch.rand(shape, generator=generator)
        return torch.where(chance < 0.1, limits.min, torch.where(chance > 0.9, limits.max, numbers)).to(dtype)
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan], dtype=dtype)
    which = special[torch.randint(6, shape, generator=generator)]
    return torch.where(torch.rand(shape, generator=generator) < 0.3, which, numbers)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_extrema_and_their_positions(dtype, largest):
    """Of ties the first; every way a problem can be solved: by slices, columns, ranges of targets, rows, groups."""
    generator = torch.Generator().manual_seed(0)
    function = scatter_max if largest else scatter_min
    for shape, dim in (((40,), 0), ((30, 3), 0), ((30, 9), 0), ((3, 20), 1), ((2, 20, 9), 1), ((1, 30, 2), -2)):
        for size, kind, with_out in itertools.product((1, 5, 50), ("elements", "vector", "leading"), (False, True)):
            src = drawn(shape, dtype, generator)
            front = dim % len(shape)
            narrow = {"vector": (shape[front],), "leading": shape[: front + 1], "elements": shape}[kind]
            index = torch.randint(size, narrow, generator=generator)
            placed = index.reshape([1] * front + [-1]) if kind == "vector" else index
            full = placed.reshape(list(placed.shape) + [1] * (len(shape) - placed.dim())).expand(shape)
            wide = [size if d == front else n for d, n in enumerate(shape)]
            out = drawn(wide, dtype, generator) if with_out else None
            want = expected_extremum(src, full, front, size, out, largest)
            for count in (1, 2):
                given = None if out is None else out.clone()
                with threads(count):
                    got = function(src, index.int() if count == 2 else index, dim, given, dim_size=size)
                assert_same_bits(got[0], want[0])
                assert torch.equal(got[1], want[1])
                assert given is None or given is got[0]


@pytest.mark.parametrize("columns", [1, 2, 5, 64, 300])
def test_extrema_of_large_problems(columns):
    """Enough work for several workers, few and many targets; one target that has nearly all."""
    generator = torch.Generator().manual_seed(columns)
    rows = 200_000 // columns
    for size in (3, 500, 50_000):
        for index in (
            torch.randint(size, (rows,), generator=generator),
            torch.randint(size, (rows, columns), generator=generator),
            (torch.rand(rows, generator=generator) ** 20 * size).long(),
        ):
            src = torch.randint(-1000, 1000, (rows, columns), generator=generator).float()
            full = (index if index.dim() == 2 else index[:, None]).expand(rows, columns)
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                numbers = src.to(dtype)
                start = torch.zeros(size, columns, dtype=dtype)
                want = start.scatter_reduce(0, full, numbers, "amax", include_self=False)
                with threads(2):
                    got, positions = scatter_max(numbers, index, 0, dim_size=size)
                with threads(1):
                    again, same = scatter_max(numbers, index, 0, dim_size=size)
                assert torch.equal(got, want) and torch.equal(again, want) and torch.equal(positions, same)
                is_mine = numbers == want.gather(0, full)
                order = torch.arange(rows)[:, None].expand(rows, columns)
                first = torch.full((size, columns), rows).scatter_reduce(
                    0, full, torch.where(is_mine, order, rows), "amin"
                )
                assert torch.equal(positions, first)


def test_groups_without_members():
    """0, 1 for products, and the size of src for positions (C50)."""
    src, index = torch.tensor([3.0, 9, -2]), torch.tensor([0, 0, 2])
    values, positions = scatter_max(src, index, 0, dim_size=4)
    assert values.tolist() == [9, 0, -2, 0] and positions.tolist() == [1, 3, 2, 3]
    values, positions = scatter_min(src, index, 0, dim_size=4)
    assert values.tolist() == [3, 0, -2, 0] and positions.tolist() == [0, 3, 2, 3]
    assert scatter_sum(src, index, 0, dim_size=4).tolist() == [12, 0, -2, 0]
    assert scatter_mean(src, index, 0, dim_size=4).tolist() == [6, 0, -2, 0]
    assert scatter_mul(src, index, 0, dim_size=4).tolist() == [27, 1, -2, 1]
    for function in (scatter_std, scatter_logsumexp):
        assert function(src, index, 0, dim_size=4)[[1, 3]].tolist() == [0, 0]
    # torch_scatter takes the smallest number of a dtype for nothing
    lowest = torch.tensor([torch.iinfo(torch.int32).min], dtype=torch.int32)
    assert scatter_max(lowest, torch.tensor([0]))[1].tolist() == [0]
    assert scatter_max(torch.tensor([-math.inf]), torch.tensor([0]))[0].tolist() == [-math.inf]


def test_nothing_at_all():
    """No element, no column (C52)."""
    for shape, index in (((0,), torch.zeros(0, dtype=torch.long)), ((3, 0), torch.zeros(3, dtype=torch.long))):
        src = torch.zeros(shape)
        for reduce in ("sum", "mul", "mean", "min", "max"):
            got = scatter(src, index, 0, dim_size=2, reduce=reduce)
            assert got.shape == (2, *shape[1:]) and (got == (reduce == "mul")).all()
    assert scatter_max(torch.zeros(0), torch.zeros(0, dtype=torch.long), 0, dim_size=2)[1].tolist() == [0, 0]
    assert scatter_sum(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0,)
    assert segment_sum_csr(torch.zeros(0, 3), torch.tensor([0, 0, 0])).tolist() == [[0] * 3] * 2
    assert segment_csr(torch.zeros(4), torch.tensor([0])).shape == (0,)


def test_a_mean_of_many_halves_does_not_saturate():
    """C54"""
    for dtype in (torch.half, torch.bfloat16):
        src = torch.tensor([0.0, 1.0], dtype=dtype).repeat(50_000)
        index = torch.zeros(100_000, dtype=torch.long)
        assert scatter_mean(src, index).item() == 0.5 == segment_mean_coo(src, index).item()


def test_bools_and_integers():
    """A sum of bools is OR (C59); integers wrap around; means of integers are rounded down."""
    src = torch.ones(256, dtype=torch.bool)
    assert scatter_sum(src, torch.zeros(256, dtype=torch.long), dim_size=2).tolist() == [True, False]
    assert scatter_max(src, torch.zeros(256, dtype=torch.long))[0].tolist() == [True]
    numbers = torch.tensor([-3, -4, 5])
    assert scatter_mean(numbers, torch.tensor([0, 0, 1])).tolist() == [-4, 5]
    assert scatter_mean(numbers, torch.tensor([0, 0, 1]), out=torch.tensor([0, 4])).tolist() == [-4, 9]
    assert scatter_sum(torch.tensor([100, 100], dtype=torch.int8), torch.tensor([0, 0])).tolist() == [-56]


def test_bools_have_no_mean_and_out_stays():
    src, out = torch.tensor([True, True]), torch.tensor([True])
    index, pointers = torch.tensor([0, 0]), torch.tensor([0, 2])
    for call in (
        lambda **options: scatter_mean(src, index, **options),
        lambda **options: scatter(src, index, reduce="mean", **options),
        lambda **options: segment_mean_coo(src, index, **options),
        lambda **options: segment_coo(src, index, reduce="mean", **options),
        lambda **options: segment_mean_csr(src, pointers, **options),
        lambda **options: segment_csr(src, pointers, reduce="mean", **options),
    ):
        for options in ({}, {"out": out}):
            with pytest.raises(NotImplementedError):
                call(**options)
            assert out.item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_composites_of_more_halves_than_a_half_can_count(dtype):
    many = 70_000
    index, same = torch.zeros(many, dtype=torch.long), torch.zeros(many, dtype=dtype)
    apart = torch.where(torch.arange(many) % 2 == 0, 1, -1).to(dtype)
    for got, want in (
        (scatter_softmax(same, index), 1 / many),
        (scatter_log_softmax(same, index), -math.log(many)),
        (scatter_logsumexp(same, index), math.log(many)),
        (scatter_logsumexp(same, index, out=same[:1].clone()), math.log(many + 1)),
        (scatter_std(apart, index, unbiased=False), 1.0),
        (scatter_std(apart * 300, index, unbiased=False), 300.0),
        (scatter_std(apart, index, out=same[:1].clone(), unbiased=False), 1.0),
    ):
        assert got.dtype == dtype
        assert_same_bits(got, torch.full_like(got, want))
    leaf = same.clone().requires_grad_()
    gradient = torch.autograd.grad(scatter_logsumexp(leaf, index).sum(), leaf)[0]
    assert_same_bits(gradient, torch.full_like(gradient, 1 / many))


def test_a_count_that_the_dtype_does_not_hold():
    """The number of elements is never rounded to, and never wraps in, the dtype of the result."""
    index = torch.zeros(70_000, dtype=torch.long)
    mean = scatter_mean(torch.ones(70_000, dtype=torch.half) * 2**-12, index, out=torch.zeros(1, dtype=torch.half))
    assert mean.item() == torch.tensor(70_000 * 2**-12).half().div(70_000.0, rounding_mode=None).item()
    assert scatter_mean(torch.ones(257).bfloat16(), index[:257], out=torch.full((1,), 1.0).bfloat16()).item() == 1.0
    few = torch.zeros(200, dtype=torch.int8)
    few[:5] = 20
    assert scatter_mean(few, index[:200], out=torch.tensor([101], dtype=torch.int8)).item() == -1  # -55 / 200
    swinging = torch.tensor([1.0, -1.0], dtype=torch.half).repeat(35_000) * 2**-6
    deviation = scatter_std(swinging, index, unbiased=False)
    assert deviation.item() == 2**-6
    assert scatter_std(swinging, index, out=torch.zeros(1, dtype=torch.half), unbiased=False).item() == 2**-6


def test_out():
    """Added to, multiplied, competing; pointers overwrite it."""
    src, index = torch.tensor([1.0, 2, 4, 6]), torch.tensor([0, 0, 2, 2])
    pointers = torch.tensor([0, 2, 2, 4])

    def out():
        return torch.tensor([10.0, 20, -3])

    for function, want in (
        (scatter_sum, [13, 20, 7]),
        (scatter_add, [13, 20, 7]),
        (scatter_mul, [20, 20, -72]),
        (scatter_mean, [6.5, 20, 3.5]),
    ):
        given = out()
        assert function(src, index, out=given) is given and given.tolist() == want, function
    assert segment_sum_coo(src, index, given := out()) is given and given.tolist() == [13, 20, 7]
    assert segment_mean_coo(src, index, given := out()) is given and given.tolist() == [6.5, 20, 3.5]
    for function in (scatter_max, lambda src, index, out: segment_max_coo(src, index, out)):
        got, positions = function(src, index, out=(given := out()))
        assert got is given and got.tolist() == [10, 20, 6] and positions.tolist() == [4, 4, 3]
    got, positions = segment_min_coo(src, index, out())
    assert got.tolist() == [1, 20, -3] and positions.tolist() == [0, 4, 4]
    for function, want in (
        (segment_sum_csr, [3, 0, 10]),
        (segment_mean_csr, [1.5, 0, 5]),
        (lambda *arguments: segment_max_csr(*arguments)[0], [2, 0, 6]),
        (lambda *arguments: segment_min_csr(*arguments)[0], [1, 0, 4]),
    ):
        assert function(src, pointers, given := out()) is given and given.tolist() == want
    assert gather_coo(torch.tensor([1.0, 2, 4]), index, given := torch.empty(4)) is given
    assert given.tolist() == [1, 1, 4, 4]
    assert gather_csr(torch.tensor([1.0, 2, 4]), torch.tensor([1, 2, 2, 4]), given := torch.full((6,), 9.0)) is given
    assert given.tolist() == [9, 1, 4, 4, 9, 9]
    given = torch.tensor([0.0, 1, 2])
    want = [torch.tensor(members).logsumexp(0) for members in ([0.0, 1, 2], [1.0], [2.0, 4, 6])]
    # torch's logsumexp, rounded at every step.
    torch.testing.assert_close(scatter_logsumexp(src, index, out=given), torch.stack(want))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_composites(dtype):
    """Beside torch's own softmax, logsumexp and std of every group, which are rounded at every step."""
    generator = torch.Generator().manual_seed(0)
    src = (torch.randn(4, 60, generator=generator) * 5).to(dtype)
    index = torch.randint(6, (60,), generator=generator)
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-11, torch.bfloat16: 2e-2}[dtype]
    wide = src.double()
    for group in range(6):
        part = index == group
        inside = wide[:, part]
        for got, want in (
            (scatter_softmax(src, index)[:, part], inside.softmax(1)),
            (scatter_log_softmax(src, index)[:, part], inside.log_softmax(1)),
            (scatter_logsumexp(src, index)[:, group], inside.logsumexp(1)),
            (scatter_std(src, index)[:, group], inside.std(1)),
            (scatter_std(src, index, unbiased=False)[:, group], inside.std(1, unbiased=False)),
        ):
            torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)
    infinite = torch.tensor([-math.inf, -math.inf, 1.0, math.inf], dtype=dtype)
    assert scatter_logsumexp(infinite, torch.tensor([0, 0, 1, 1]), dim_size=3).tolist() == [-math.inf, math.inf, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_threads_and_orders(dtype):
    """The same bits for any number of threads and order of the elements; for softmax, at every element."""
    generator = torch.Generator().manual_seed(1)
    rows, size = 60_000, 50
    index = torch.randint(size, (rows,), generator=generator)
    src = torch.randn(rows, 2, generator=generator).to(dtype)
    first = {}
    for count in (1, 2, 16):
        order = torch.randperm(rows, generator=generator)
        back = order.argsort()
        with threads(count):
            results = {
                function.__name__: function(src[order], index[order], 0)
                for function in (scatter_sum, scatter_mean, scatter_mul, scatter_std, scatter_logsumexp)
            }
            results["max"] = scatter_max(src[order], index[order], 0)[0]
            results["min"] = scatter_min(src[order], index[order], 0)[0]
            results["softmax"] = scatter_softmax(src[order], index[order], 0)[back]
            results["log_softmax"] = scatter_log_softmax(src[order], index[order], 0)[back]
        for name, result in results.items():
            assert_same_bits(result, first.setdefault(name, result))


def test_a_nan_wins_and_its_position_is_told():
    """C60"""
    src, index = torch.tensor([math.nan, 5.0, -1, -2]), torch.tensor([0, 0, 1, 1])
    values, positions = scatter_max(src, index)
    assert math.isnan(values[0]) and positions.tolist() == [0, 2]


def test_called_and_as_a_package():
    """torch.scatter when called, torch_scatter's functions as attributes."""
    for name in PACKAGE.__all__:
        assert getattr(reprocuda.scatter, name) is getattr(PACKAGE, name)
    got = reprocuda.scatter(torch.zeros(3), 0, torch.tensor([1, 1]), torch.tensor([5.0, 7.0]))
    assert got.tolist() == [0, 7, 0]
    assert reprocuda.scatter is reprocuda.functional.scatter
