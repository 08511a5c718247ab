"""Plain writes through an index: of all that is aimed at one place the last in source order stands, bit for bit."""

import math
from fractions import Fraction

import pytest
import torch

import reprocuda
from tests.operators.table import TORCH
from tests.oracle import round_fraction, to_bits

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
DTYPES = [
    torch.uint8, torch.bool, torch.int16, torch.bfloat16, torch.int32, torch.float32, torch.int64, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def randint(bound, *shape):
    return torch.randint(min(bound, 0), abs(bound), shape)


def values(shape, dtype):
    """Any bits, the payloads of NaNs included."""
    if dtype == torch.bool:
        return torch.randint(2, shape).bool()
    count = torch.Size(shape).numel() * torch.empty((), dtype=dtype).element_size()
    return torch.randint(256, (count,), dtype=torch.uint8).view(dtype).reshape(shape)


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def written_one_by_one(x, places, source):
    """`source` to the flat places of `x`, in row-major order."""
    out = x.clone(memory_format=torch.contiguous_format)
    flat = out.reshape(-1)
    last = dict(zip(places.reshape(-1).tolist(), range(places.numel()), strict=True))  # the last of a key stands
    where, which = torch.tensor(list(last)), torch.tensor(list(last.values()))
    raw = flat.view(torch.uint8).reshape(flat.numel(), -1)
    raw[where] = bits(source.expand(places.shape)).reshape(places.numel(), -1)[which]
    return out


def places_along(x, dim, index):
    """The flat place of every element of `index` in `x`."""
    numbers = torch.arange(x.numel()).reshape(x.shape)
    cut = numbers[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))]
    return cut.gather(dim, index.long())


# shape of x, dimension, and for an element-wise index its shape
ALONG = [
    ((7,), 0, (200,)),
    ((50_000,), 0, (150_000,)),
    ((400_000,), 0, (150_000,)),
    ((9, 33), 0, (5000, 32)),
    ((3000, 11), 1, (2999, 50)),
    ((20, 13, 30), 1, (20, 300, 29)),
    ((6, 5, 4, 3), 2, (6, 5, 40, 3)),
]


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("case", ALONG, ids=str)
def test_scatter_is_a_loop(case, threads):
    shape, dim, index_shape = case
    torch.manual_seed(0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for dtype in (torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128):
            x, src = values(shape, dtype), values([n + 1 for n in index_shape], dtype)
            for index in (randint(shape[dim], *index_shape), randint(shape[dim], *index_shape[::-1]).int().permute(
                *range(len(shape) - 1, -1, -1))):  # fmt: skip
                read = src[tuple(slice(n) for n in index.shape)]
                want = bits(written_one_by_one(x, places_along(x, dim, index), read))
                assert torch.equal(bits(reprocuda.scatter(x, dim, index, src)), want)
                strided = x.transpose(0, -1).contiguous().transpose(0, -1)
                assert reprocuda.scatter_(strided, dim, index, src) is strided
                assert torch.equal(bits(strided), want)
                out = torch.empty_like(x)
                assert torch.equal(bits(reprocuda.scatter(x, dim, index, src, out=out)), want)
                with reprocuda.enabled():
                    assert torch.equal(bits(x.scatter(dim, index, src)), want)
                    assert torch.equal(bits(x.clone().scatter_(dim - len(shape), index, src)), want)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("case", ALONG, ids=str)
def test_rows_are_a_loop(case, threads):
    shape, dim, index_shape = case
    torch.manual_seed(0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        index = randint(shape[dim], index_shape[dim])
        source_shape = [n if d != dim else len(index) for d, n in enumerate(shape)]
        whole = index.reshape([-1 if d == dim else 1 for d in range(len(shape))]).expand(source_shape)
        for dtype in (torch.uint8, torch.float16, torch.float32, torch.complex128):
            x, source = values(shape, dtype), values(source_shape, dtype)
            want = bits(written_one_by_one(x, places_along(x, dim, whole), source))
            assert torch.equal(bits(reprocuda.index_copy(x, dim, index, source)), want)
            assert torch.equal(bits(reprocuda.index_copy_(x.clone(), dim, index, source)), want)
            assert torch.equal(bits(reprocuda.index_copy(x, dim, index, source, out=torch.empty_like(x))), want)
            assert torch.equal(bits(reprocuda.scatter(x, dim, whole, source)), want)
            negative = torch.where(torch.arange(len(index)) % 2 == 0, index, index - shape[dim])
            indices = [None] * dim + [negative]
            assert torch.equal(bits(reprocuda.index_put(x, indices, source)), want)
            with reprocuda.enabled():
                assert torch.equal(bits(x.index_copy(dim, index, source)), want)
                y = x.clone()
                y[(slice(None),) * dim + (negative,)] = source
                assert torch.equal(bits(y), want)
    finally:
        torch.set_num_threads(before)


POINTS = {
    "two": lambda: [randint(-40, 3000), randint(-50, 3000)],
    "apart": lambda: [randint(-40, 500), None, randint(-6, 500)],
    "broadcast": lambda: [randint(40, 300, 1), randint(50, 7).int()],
    "middle, two-dimensional": lambda: [None, randint(-50, 30, 9)],
    "no dimensions": lambda: [torch.tensor(-3)],
    "transposed": lambda: [randint(40, 60, 8).t(), randint(50, 60, 8).t()],
    "mask and index": lambda: [torch.arange(40) % 3 == 0, randint(50, 14)],
    "mask": lambda: [torch.arange(40) % 3 == 0],
    "nothing": lambda: [randint(40, 0)],
}


@pytest.mark.parametrize("name", POINTS)
def test_index_put_is_a_loop(name):
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float8_e4m3fn, torch.complex64):
        x, indices = values((40, 50, 6), dtype), POINTS[name]()
        key = tuple(slice(None) if index is None else index for index in indices)
        places = torch.arange(x.numel()).reshape(x.shape)[key]
        shape = places.shape
        reversed_dims = values(shape[::-1], dtype).permute(*range(len(shape) - 1, -1, -1))
        for source in (values(shape, dtype), values((), dtype), values(shape[-1:], dtype), reversed_dims):
            want = bits(written_one_by_one(x, places, source)) if places.numel() else bits(x)
            assert torch.equal(bits(reprocuda.index_put(x, indices, source)), want)
            strided = x.transpose(0, 2).contiguous().transpose(0, 2)
            assert torch.equal(bits(reprocuda.index_put_(strided, indices, source)), want)
            if dtype != torch.float8_e4m3fn:  # torch's own masked_fill has no such dtype
                with reprocuda.enabled():
                    y = x.clone()
                    y[key] = source
                    assert torch.equal(bits(y), want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype):
    x, source, index = values((5, 3), dtype), values((40, 3), dtype), randint(5, 40)
    want = bits(written_one_by_one(x, places_along(x, 0, index[:, None].expand(40, 3)), source))
    assert torch.equal(bits(reprocuda.index_copy(x, 0, index, source)), want)
    assert torch.equal(bits(reprocuda.index_put(x, (index,), source)), want)
    assert torch.equal(bits(reprocuda.scatter(x, 0, index[:, None].repeat(1, 3), source)), want)
    flat = (index[:, None] * 3 + torch.arange(3)).reshape(-1)
    assert torch.equal(bits(reprocuda.put(x, flat - 15, source.reshape(-1))), want)


def test_put_and_fill():
    x = torch.zeros(2, 3)
    index, source = torch.tensor([[5, -1], [0, 0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for base in (x, x.t().contiguous().t()):
        assert reprocuda.put(base, index, source).tolist() == [[4, 0, 0], [0, 0, 2]]
        assert reprocuda.put(base, index, source, True).tolist() == [[7, 0, 0], [0, 0, 3]]
        for call in (reprocuda.put_, torch.Tensor.put_):
            with reprocuda.enabled():
                assert call(base.clone(), index, source).tolist() == [[4, 0, 0], [0, 0, 2]]
                assert call(base.clone(), index, source, accumulate=True).tolist() == [[7, 0, 0], [0, 0, 3]]
    big = torch.tensor([1e8, 1.0, -1e8])
    with reprocuda.enabled():
        assert torch.zeros(1).put(torch.tensor([0, 0, 0]), big, accumulate=True).item() == 1
    for value in (3.0, torch.tensor(3.0)):
        assert reprocuda.index_fill(x, 1, torch.tensor([0, -1]), value).tolist() == [[3, 0, 3]] * 2
        assert reprocuda.index_fill_(x.clone(), -1, torch.tensor([1]), value).tolist() == [[0, 3, 0]] * 2


def test_scatter_of_a_number_and_by_reduction():
    index, big = torch.tensor([0, 0, 0, 1]), torch.tensor([1e8, 1.0, -1e8, 5.0])
    assert reprocuda.scatter(torch.zeros(3), 0, index, 7.0).tolist() == [7, 7, 0]
    assert reprocuda.scatter_(torch.zeros(3), 0, index, value=7).tolist() == [7, 7, 0]
    assert reprocuda.scatter(torch.zeros(3), 0, index, big, reduce="add").tolist() == [1, 5, 0]
    with pytest.raises(TypeError, match="expected one of the arguments 'src' and 'value', got neither"):
        reprocuda.scatter(torch.zeros(3), 0, index)
    tenth = torch.tensor(0.1)
    exact = (tenth.double() * 3).float()
    out = torch.empty(3)
    with reprocuda.enabled():
        assert torch.zeros(3).scatter(0, index, big, reduce="add").tolist() == [1, 5, 0]
        assert torch.zeros(3).scatter_(0, index, big, reduce="add").tolist() == [1, 5, 0]
        assert torch.scatter(torch.zeros(3), 0, index, big, reduce="add", out=out).tolist() == [1, 5, 0]
        assert torch.equal(torch.zeros(3).scatter(0, index, 0.1, reduce="add")[0], exact)
        assert torch.equal(torch.zeros(3).scatter_(0, index, 0.1, reduce="add")[0], exact)
        assert torch.ones(3).scatter(0, index, 2.0, reduce="multiply").tolist() == [8, 2, 1]
        large = torch.tensor([1e30, 1e30, 1e-30, 2.0])  # a partial product overflows, the product does not
        product = round_fraction(math.prod(map(Fraction, large[:3].tolist())), "float32")
        for call in (
            lambda: torch.ones(3).scatter(0, index, large, reduce="multiply"),
            lambda: torch.ones(3).scatter_(0, index, large, reduce="multiply"),
            lambda: torch.scatter(torch.ones(3), 0, index, large, reduce="multiply", out=out),
            lambda: reprocuda.scatter(torch.ones(3), 0, index, large, reduce="multiply"),
            lambda: reprocuda.scatter_(torch.ones(3), 0, index, large, reduce="multiply"),
        ):
            assert to_bits(call().numpy()).tolist() == [product, 0x40000000, 0x3F800000]


ERRORS = [
    (lambda ns, i: ns.scatter(torch.zeros(3), 0, i, torch.ones(2)), RuntimeError, (3, -1, 2**40)),
    (lambda ns, i: ns.scatter_(torch.zeros(3, 1), 0, i[:, None], torch.ones(2, 1)), RuntimeError, (3, -1, 2**40)),
    (lambda ns, i: ns.index_copy(torch.zeros(3), 0, i, torch.ones(2)), IndexError, (3, -1, -(2**40))),
    (lambda ns, i: ns.index_copy_(torch.zeros(3, 2), 0, i, torch.ones(2, 2)), IndexError, (3, -1, 2**40)),
    (lambda ns, i: ns.index_put(torch.zeros(3), (i,), torch.ones(2)), IndexError, (3, -4, 2**40)),
    (lambda ns, i: ns.index_put_(torch.zeros(3, 3), (i, i), torch.ones(2)), IndexError, (3, -4, -(2**63))),
    (lambda ns, i: ns.put_(torch.zeros(3), i, torch.ones(2)), IndexError, (3, -4, 2**40)),
    (lambda ns, i: ns.index_fill(torch.zeros(3), 0, i, torch.tensor(1.0)), IndexError, (3, -4, 2**40)),
]


@pytest.mark.parametrize(
    "name, call",
    [
        ("put", lambda i: reprocuda.put(torch.zeros(3), i, torch.ones(2))),
        ("put_", lambda i: reprocuda.put_(torch.zeros(3), i, torch.ones(2))),
        ("put_", lambda i: reprocuda.put_(torch.zeros(3, 2).t(), i * 9, torch.ones(2))),
        ("index_fill", lambda i: reprocuda.index_fill(torch.zeros(3), 0, i, torch.tensor(1.0))),
        ("index_fill_", lambda i: reprocuda.index_fill_(torch.zeros(3), 0, i, torch.tensor(1.0))),
    ],
)
def test_an_index_out_of_range_is_reported_by_the_function_that_was_called(name, call):
    with pytest.raises(IndexError, match=rf"^{name}\(\): index \d+ is out of bounds .* at position 1"):
        call(torch.tensor([0, 5]))


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_an_index_out_of_range_is_torchs_class_of_error(number):
    call, error, bad = ERRORS[number]
    for value in bad:
        index = torch.tensor([0, value])
        with pytest.raises(error):
            call(TORCH, index)
        with pytest.raises(error, match=rf"index {value} is out of bounds for dimension 0 with size 3, at position 1"):
            call(reprocuda, index)
        with reprocuda.enabled(), pytest.raises(error, match="out of bounds"):
            call(TORCH, index)


def test_nothing_is_written_when_an_index_is_bad():
    for count in (2, 200_000):
        x, index = torch.zeros(count), torch.arange(count)
        index[-1] = count
        for call in (
            lambda x, i: x.scatter_(0, i, torch.ones(len(i))),
            lambda x, i: x.index_copy_(0, i, torch.ones(len(i))),
            lambda x, i: x.index_put_((i,), torch.ones(len(i))),
            lambda x, i: x.put_(i, torch.ones(len(i))),
        ):
            with reprocuda.enabled(), pytest.raises((RuntimeError, IndexError)):
                call(x, index)
            assert not x.any()


def test_overlap_is_refused():
    index, alias = torch.tensor([0, 1]), torch.zeros(1).expand(3)
    shared = torch.zeros(4)
    with reprocuda.enabled():
        for call in (
            lambda ns: ns.scatter_(alias, 0, index, torch.ones(2)),
            lambda ns: ns.index_copy_(alias, 0, index, torch.ones(2)),
            lambda ns: ns.index_put_(alias, (index,), torch.ones(2)),
            lambda ns: ns.put_(alias, index, torch.ones(2)),
            lambda ns: ns.put_(alias, index, torch.ones(2), True),
            lambda ns: ns.scatter_(shared[:2], 0, index, shared[1:3]),
            lambda ns: ns.index_copy_(shared[:2], 0, index, shared[1:3]),
        ):
            for namespace in (reprocuda, TORCH):
                with pytest.raises(RuntimeError, match="memory"):
                    call(namespace)
    assert alias.tolist() == [0, 0, 0] and not shared.any()


def test_none_of_them_raises_under_the_deterministic_flag():
    index = torch.tensor([0, 0, 2])
    torch.use_deterministic_algorithms(True)
    try:
        with reprocuda.enabled():
            x = torch.arange(6.0)
            x[x > 2] = 1.0
            assert x.tolist() == [0, 1, 2, 1, 1, 1]
            y = torch.zeros(4, 2)
            y[[1, 3], :] = 2
            assert y.tolist() == [[0, 0], [2, 2], [0, 0], [2, 2]]
            z = torch.zeros(3, 2)
            z[[False, True, True]] = torch.tensor([5.0, 6.0])
            assert z.tolist() == [[0, 0], [5, 6], [5, 6]]
            src = torch.tensor([1.0, 2.0, 3.0])
            for result in (
                torch.zeros(3).scatter(0, index, src), torch.zeros(3).index_copy(0, index, src),
                torch.zeros(3).put(index, src), torch.zeros(3).index_put((index,), src),
            ):  # fmt: skip
                assert result.tolist() == [2, 0, 3]
            n = 100_000
            last = torch.zeros(3).index_put((torch.ones(n).long(),), torch.arange(n).float())
            assert last.tolist() == [0, n - 1, 0]
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_gradient_of_an_input_that_a_mask_broadcasts_is_an_exact_sum():
    mask = torch.zeros(5, 2, dtype=torch.bool)
    mask[4, 1] = True
    seed = torch.tensor([[1e8, 1], [1, 2], [-1e8, 3], [2**-30, 4], [0, 1e30]])
    for shape, want in (((2,), [1.0, 10.0]), ((1, 2), [[1.0, 10.0]]), ((1,), [11.0]), ((), 11.0)):
        x = torch.zeros(shape, requires_grad=True)
        result = reprocuda.masked_scatter(x, mask, torch.ones(1))
        assert torch.equal(result, torch.masked_scatter(x, mask, torch.ones(1)))
        assert torch.autograd.grad(result, x, seed)[0].tolist() == want
    x = torch.zeros(2)
    assert reprocuda.masked_scatter_(x, torch.tensor([False, True]), torch.ones(1)) is x and x.tolist() == [0, 1]
    for bad in (mask.float(), mask[:, :1].expand(5, 3), 3):
        with pytest.raises((RuntimeError, TypeError)) as wanted:
            torch.masked_scatter(x, bad, torch.ones(9))
        with pytest.raises(wanted.type):
            reprocuda.masked_scatter(x, bad, torch.ones(9))


def test_masked_scatter_under_enable_keeps_the_promise():
    x = torch.zeros(2, 3, requires_grad=True)
    source = torch.tensor([7.0, 8.0, 9.0], requires_grad=True)
    mask = torch.tensor([[False, True, False]])
    with reprocuda.enabled():
        result = x.masked_scatter(mask, source)
        result.sum().backward()
    assert result.tolist() == [[0, 7, 0], [0, 8, 0]]
    assert x.grad.tolist() == [[1, 0, 1], [1, 0, 1]] and source.grad.tolist() == [1, 1, 0]
    with pytest.raises(RuntimeError):
        torch.zeros(2, 3).masked_scatter(mask, source[:1].detach())


def test_dimensions_of_nothing_and_of_one():
    zero = torch.tensor(0)
    assert reprocuda.scatter(torch.tensor(1.0), 0, zero, torch.tensor(2.0)).item() == 2
    assert reprocuda.index_copy(torch.tensor(1.0), 0, zero, torch.tensor(2.0)).item() == 2
    assert reprocuda.index_copy(torch.zeros(2), 0, zero, torch.tensor(2.0)).tolist() == [2, 0]
    assert reprocuda.scatter(torch.zeros(3), 0, zero[None][:0], torch.ones(2)).tolist() == [0, 0, 0]
    assert reprocuda.index_copy(torch.zeros(0, 3), 0, zero[None][:0], torch.ones(0, 3)).shape == (0, 3)
    assert reprocuda.index_put(torch.zeros(3, 0), (torch.tensor([1, 1]),), torch.ones(2, 0)).shape == (3, 0)
