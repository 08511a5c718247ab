"""Prefix sums: each against its own exact sum in rational arithmetic, in every layout, for any number of threads."""

import math
from fractions import Fraction

import pytest
import torch

import reprocuda

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def bits(tensor):
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def rounded(value, dtype):
    """A Fraction rounded once to nearest even, as a float that `dtype` holds exactly."""
    info = torch.finfo(dtype)
    digits = 1 - round(math.log2(info.eps))
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    lowest = round(math.log2(info.tiny))
    unit = Fraction(2) ** (max(exponent, lowest) - digits + 1)
    result = round(size / unit) * unit  # half to even
    if result > Fraction(info.max):
        return math.copysign(math.inf, value)
    return float(result) if value > 0 else -float(result)


def oracle(x):
    """Along the last dimension of a matrix without special values or zeros of sign -."""
    rows = []
    for row in x.tolist():
        total, prefixes = Fraction(0), []
        for value in row:
            total += Fraction(value)
            prefixes.append(rounded(total, x.dtype))
        rows.append(prefixes)
    return torch.tensor(rows, dtype=torch.float64).to(x.dtype)


def adversarial(dtype, rows, length, seed=0):
    """Terms over the whole range of exponents. The second half takes the first one back, the largest terms first,
    so that its prefixes are sums of what is small in the first.
    """
    generator = torch.Generator().manual_seed(seed)
    info = torch.finfo(dtype)
    low, high = math.log2(info.tiny) - 8, math.log2(info.max) - 14
    exponents = torch.empty(rows, length, dtype=torch.float64).uniform_(low, high, generator=generator)
    signs = torch.randint(0, 2, (rows, length), generator=generator) * 2.0 - 1
    x = (torch.exp2(exponents) * signs).to(dtype)
    half = length // 2
    order = x[:, :half].abs().argsort(1, descending=True)
    x[:, half : 2 * half] = -x[:, :half].gather(1, order)
    return x + 0.0  # no zero of sign -


@pytest.mark.parametrize("dtype", FLOATING)
def test_every_prefix_is_its_exact_sum(dtype):
    """For any number of threads, of which every shape is worth more than one."""
    before = torch.get_num_threads()
    x = adversarial(dtype, 7, 6000)
    expected = oracle(x)
    try:
        for threads in (1, 2, 16):
            torch.set_num_threads(threads)
            assert torch.equal(bits(reprocuda.cumsum(x, 1)), bits(expected))
            assert torch.equal(bits(reprocuda.cumsum(x.t(), 0)), bits(expected.t()))
            assert torch.equal(bits(reprocuda.cumsum(x.t().contiguous(), 0)), bits(expected.t()))
            for inner in (3, 19):
                in_middle = x.view(7, 6000, 1).expand(7, 6000, inner).contiguous()
                assert torch.equal(bits(reprocuda.cumsum(in_middle, 1)[..., inner - 1]), bits(expected))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", FLOATING)
def test_a_long_slice_has_the_same_bits_for_any_number_of_threads(dtype):
    before = torch.get_num_threads()
    plain = torch.randn(1, 70001, generator=torch.Generator().manual_seed(1)).to(dtype)
    hard = adversarial(dtype, 1, 70001)
    results = []
    try:
        for threads in (1, 2, 16):
            torch.set_num_threads(threads)
            results.append((reprocuda.cumsum(plain, 1), reprocuda.cumsum(hard, 1)))
    finally:
        torch.set_num_threads(before)
    for result in results:
        assert torch.equal(bits(result[0]), bits(results[0][0]))
        assert torch.equal(bits(result[1]), bits(results[0][1]))
    # The oracle from the front, and far inside, where chunks meet.
    assert torch.equal(bits(results[1][1][:, :5000]), bits(oracle(hard[:, :5000])))
    total = Fraction(0)
    for i, value in enumerate(hard[0].tolist()):
        total += Fraction(value)
        if i % 97 == 0 or i % 8752 < 8:
            assert results[2][1][0, i].item() == rounded(total, dtype), i


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("inner", [2, 3, 7, 8, 13, 17])
def test_few_columns(dtype, inner):
    for outer, length in [(1, 500), (9, 33), (20, 3), (1, 1)]:
        columns = adversarial(dtype, outer * inner, length)
        columns[::2] = torch.randn(columns[::2].shape, generator=torch.Generator().manual_seed(inner)).to(dtype)
        x = columns.view(outer, inner, length).transpose(1, 2).contiguous()
        expected = oracle(columns).view(outer, inner, length).transpose(1, 2)
        assert torch.equal(bits(reprocuda.cumsum(x, 1)), bits(expected))


def swinging(dtype, length):
    """Prefixes of any size and either sign, one after the other."""
    generator = torch.Generator().manual_seed(3)
    info = torch.finfo(dtype)
    low, high = math.log2(info.tiny), math.log2(info.max) - 2
    exponents = torch.empty(length + 1, dtype=torch.float64).uniform_(low, high, generator=generator)
    signs = torch.randint(0, 2, (length + 1,), generator=generator) * 2.0 - 1
    totals = torch.exp2(exponents) * signs
    return (totals[1:] - totals[:-1]).to(dtype)[None]


@pytest.mark.parametrize("dtype", FLOATING)
def test_prefixes_that_change_size_and_sign(dtype):
    x = swinging(dtype, 5000)
    assert torch.equal(bits(reprocuda.cumsum(x, 1)), bits(oracle(x)))


@pytest.mark.parametrize("dtype", FLOATING)
def test_a_few_hard_prefixes_in_a_long_slice(dtype):
    x = torch.randn(1, 6000, generator=torch.Generator().manual_seed(4)).to(dtype)
    largest = torch.finfo(dtype).max / 4
    x[0, [700, 3001, 5999]] = torch.tensor([largest, -largest, torch.finfo(dtype).tiny], dtype=dtype)
    for parts in (1, 2, 3):
        spread = x.t().repeat(1, parts).contiguous()
        assert torch.equal(bits(reprocuda.cumsum(spread, 0)), bits(oracle(x).t().repeat(1, parts)))


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    "outer, length, parts", [(1, 70001, 1), (1, 40001, 2), (1, 30001, 3), (20, 1500, 1), (20, 1500, 2)]
)
def test_prefixes_that_a_pair_of_doubles_holds(dtype, outer, length, parts):
    """Too far apart for the filter of 16- and 32-bit floats, in the middle of numbers that are not."""
    x = torch.randn(outer * parts, length, generator=torch.Generator().manual_seed(5)).to(dtype)
    far = min(2.0**60, torch.finfo(dtype).max / 4)
    x[:, length // 2] = far
    x[:, length // 2 + 700] = -far
    x[1::3, -20] = far
    spread = x.view(outer, parts, length).transpose(1, 2).contiguous()
    expected = oracle(x).view(outer, parts, length).transpose(1, 2)
    assert torch.equal(bits(reprocuda.cumsum(spread, 1)), bits(expected))


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("length", range(1, 10))
def test_short_slices(dtype, length):
    """Whole groups of them and a rest, easy ones, hard ones and zeros of sign - among others."""
    for rows in (8, 21, 400):
        plain = torch.randn(rows, length, generator=torch.Generator().manual_seed(length)).to(dtype)
        hard = adversarial(dtype, rows, length)
        mixed = torch.where(torch.arange(rows)[:, None] % 16 < 12, plain, hard)
        for x in (plain, hard, mixed):
            assert torch.equal(bits(reprocuda.cumsum(x, 1)), bits(oracle(x)))
            pairs = x.t().repeat(2, 1).view(2, length, rows).permute(2, 1, 0).contiguous()
            assert torch.equal(bits(reprocuda.cumsum(pairs, 1)[..., 1]), bits(oracle(x)))
        zeros = torch.full((rows, length), -0.0, dtype=dtype)
        zeros[3, length // 2] = 0.0
        expected = zeros.clone()
        expected[3, length // 2 :] = 0.0
        assert torch.equal(bits(reprocuda.cumsum(zeros, 1)), bits(expected))
        zeros[5, 0] = math.inf
        zeros[6, -1] = -math.inf
        expected[5], expected[6, -1] = math.inf, -math.inf
        assert torch.equal(bits(reprocuda.cumsum(zeros, 1)), bits(expected))


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("parts", [1, 2, 5, 20])
def test_special_values_anywhere_in_a_long_slice(dtype, parts):
    """Small integers, whose prefixes are exact, with zeros of sign - before and an infinity and a NaN among them."""
    canonical = {2: [0x7E00, 0x7FC0][dtype == torch.bfloat16], 4: 0x7FC00000, 8: 0x7FF8000000000000}
    for zeros, infinity, end in [(0, 1, 2), (1300, 2100, 4500), (2999, 3000, 3001), (4000, 4999, 5000)]:
        x = torch.ones(5000, parts, dtype=dtype)
        x[1::2] = -1
        x[:zeros] = -0.0
        expected = torch.cumsum(x.double(), 0)
        expected[:zeros] = -0.0
        x[infinity] = -math.inf
        expected[infinity:] = -math.inf
        if end < 5000:
            x[end] = math.inf if zeros % 2 else math.nan
            expected[end:] = math.nan
        result = reprocuda.cumsum(x, 0)
        is_nan = expected.isnan()
        assert torch.equal(bits(result)[~is_nan], bits(expected.to(dtype))[~is_nan])
        assert (bits(result)[is_nan] == canonical[dtype.itemsize]).all()


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", [(1, 4100), (50, 20), (4100, 3)])
def test_subnormal_numbers_are_kept_whatever_the_caller_flushes(dtype, shape):
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    x = torch.full(shape, tiny, dtype=dtype)
    dim = 0 if shape[0] > 1000 else 1
    steps = torch.arange(1, shape[dim] + 1, dtype=torch.float64)
    expected = (steps * tiny).to(dtype)
    # Of which hardly a prefix is decided by the first stage.
    hard = adversarial(dtype, x.numel() // shape[dim], shape[dim])
    of_hard = oracle(hard)
    assert torch.set_flush_denormal(True)
    try:
        result = reprocuda.cumsum(x, dim)
        hard_result = reprocuda.cumsum(hard.t().contiguous() if dim == 0 else hard, dim)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(bits(hard_result.t() if dim == 0 else hard_result), bits(of_hard))
    assert torch.equal(bits(result.movedim(dim, -1)), bits(expected.expand_as(result.movedim(dim, -1))))


@pytest.mark.parametrize("dtype", FLOATING)
def test_special_values(dtype):
    inf, nan = math.inf, math.nan
    cases = [
        ([-0.0, -0.0, 0.0, -0.0], [-0.0, -0.0, 0.0, 0.0]),
        ([1.0, -1.0, -0.0], [1.0, 0.0, 0.0]),
        ([1.0, inf, 1.0, -inf, 1.0], [1.0, inf, inf, nan, nan]),
        ([-inf, 2.0, nan, 1.0], [-inf, -inf, nan, nan]),
    ]
    for values, expected in cases:
        x = torch.tensor(values, dtype=dtype)
        want = torch.tensor(expected, dtype=dtype)
        for result in (reprocuda.cumsum(x, 0), reprocuda.cumsum(x[:, None].expand(-1, 9).contiguous(), 0)[:, 8]):
            assert torch.equal(result.isnan(), want.isnan())
            assert torch.equal(bits(result[~want.isnan()]), bits(want[~want.isnan()]))
            assert len(set(bits(result[want.isnan()]).tolist())) <= 1


@pytest.mark.parametrize("dtype", FLOATING)
def test_a_prefix_may_overflow_and_come_back(dtype):
    largest = torch.finfo(dtype).max
    x = torch.tensor([largest, largest, -largest, 1.0, -largest], dtype=dtype)
    assert reprocuda.cumsum(x, 0).tolist() == [largest, math.inf, largest, largest, 1.0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool])
def test_integers_are_torchs(dtype):
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(0, 2 if dtype == torch.bool else 127, (5, 301, 3), generator=generator).to(dtype)
    for dim in (0, 1, 2, -1):
        assert torch.equal(reprocuda.cumsum(x, dim), torch.cumsum(x, dim))
        assert reprocuda.cumsum(x, dim).dtype == torch.int64
        if dtype != torch.bool:
            assert torch.equal(reprocuda.cumsum(x, dim, dtype=dtype), torch.cumsum(x, dim, dtype=dtype))
            assert torch.equal(reprocuda.cumsum_(x.clone(), dim), x.clone().cumsum_(dim))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_parts_are_summed_apart(dtype):
    part = torch.float32 if dtype == torch.complex64 else torch.float64
    real, imag = adversarial(part, 4, 200), adversarial(part, 4, 200, seed=1)
    result = reprocuda.cumsum(torch.complex(real, imag), 1)
    assert torch.equal(bits(result.real), bits(oracle(real)))
    assert torch.equal(bits(result.imag), bits(oracle(imag)))


def test_shapes_and_dtypes_are_torchs():
    for shape, dim in [((), 0), ((), -1), ((0,), 0), ((3, 0, 2), 0), ((3, 0, 2), 1), ((1,), 0), ((2, 3, 4, 5), 2)]:
        x = torch.ones(shape)
        assert torch.equal(reprocuda.cumsum(x, dim), torch.cumsum(x, dim))
    x = torch.ones(4)
    for dtype in (torch.float64, torch.int32, torch.complex64, torch.float16):
        assert torch.equal(reprocuda.cumsum(x, 0, dtype=dtype), torch.cumsum(x, 0, dtype=dtype))
        assert reprocuda.cumsum(x, 0, dtype=dtype).dtype == dtype


def test_out_and_in_place():
    x = adversarial(torch.float32, 6, 50)
    expected = oracle(x)
    for out in (torch.empty(6, 50), torch.empty(50, 6).t(), torch.empty(0)):
        assert reprocuda.cumsum(x, 1, out=out) is out
        assert torch.equal(bits(out), bits(expected))
    same = x.clone()
    assert reprocuda.cumsum(same, 1, out=same) is same
    assert torch.equal(bits(same), bits(expected))
    strided = torch.zeros(6, 100)[:, ::2]
    strided.copy_(x)
    version = strided._version
    assert reprocuda.cumsum_(strided, 1) is strided
    assert strided._version > version
    assert torch.equal(bits(strided), bits(expected))
    wide = torch.empty(6, 50, dtype=torch.float64)
    reprocuda.cumsum(x, 1, out=wide)
    assert torch.equal(bits(wide), bits(oracle(x.double())))


@pytest.mark.parametrize(
    "call",
    [
        lambda ns: ns.cumsum(torch.ones(3), 1),
        lambda ns: ns.cumsum(torch.ones(3, requires_grad=True), -2),
        lambda ns: ns.cumsum(torch.ones(3), 0, dtype=torch.bool),
        lambda ns: ns.cumsum(torch.ones(3), 0, dtype=torch.float64, out=torch.empty(3)),
        lambda ns: ns.cumsum(torch.ones(3), 0, out=torch.empty(1).expand(3)),
        lambda ns: ns.cumsum(torch.ones(3, requires_grad=True), 0, out=torch.empty(3)),
    ],
)
def test_errors_are_torchs(call):
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(type(theirs.value)):
        call(reprocuda)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_derivatives(dtype):
    for shape, dim in [((4, 3), 0), ((4, 3), -1), ((), 0)]:
        x = torch.randn(shape, dtype=dtype, requires_grad=True)

        def call(x, dim=dim):
            return reprocuda.cumsum(x, dim)

        assert torch.autograd.gradcheck(call, x, check_forward_ad=True, check_batched_grad=len(shape) > 0)
        assert torch.autograd.gradgradcheck(call, x)


def test_gradients_are_exact():
    x = torch.zeros(3, 400, requires_grad=True)
    grad = adversarial(torch.float32, 3, 400)
    expected = oracle(grad.flip(1)).flip(1)
    assert torch.equal(bits(torch.autograd.grad(reprocuda.cumsum(x, 1), x, grad)[0]), bits(expected))
    with reprocuda.enabled(["cumsum"]):
        assert torch.equal(bits(torch.autograd.grad(torch.cumsum(x, 1), x, grad)[0]), bits(expected))


def test_vmap_and_compiled_code():
    x = adversarial(torch.float32, 5, 60)
    assert torch.equal(bits(torch.func.vmap(lambda row: reprocuda.cumsum(row, 0))(x)), bits(oracle(x)))
    assert torch.equal(torch.func.vmap(lambda one: reprocuda.cumsum(one, 0))(x[0]), x[0])
    compiled = torch.compile(lambda x: reprocuda.cumsum(x, 1), backend="aot_eager", fullgraph=True)
    leaf = x.clone().requires_grad_()
    result = compiled(leaf)
    assert torch.equal(bits(result.detach()), bits(oracle(x)))
    assert torch.equal(torch.autograd.grad(result.sum(), leaf)[0][0], torch.arange(60, 0, -1).float())
    torch.library.opcheck(torch.ops.reprocuda.cumsum.default, (leaf, -1))
    torch.library.opcheck(torch.ops.reprocuda.cumsum_.default, (x.clone(), 0))
    torch.library.opcheck(torch.ops.reprocuda.cumsum_out.default, (x, 0, torch.empty(5, 60)))


def test_in_torchs_place():
    x = adversarial(torch.float32, 4, 300)
    expected = oracle(x)
    with reprocuda.enabled(["cumsum"]):
        assert torch.equal(bits(torch.cumsum(x, 1)), bits(expected))
        assert torch.equal(bits(x.clone().cumsum_(1)), bits(expected))
        assert torch.equal(bits(torch.cumsum(x, 1, out=torch.empty(0))), bits(expected))
        assert torch.cumsum(torch.ones(3, dtype=torch.bool), 0).tolist() == [1, 2, 3]
        assert torch.ones(3, dtype=torch.int32).cumsum_(0).dtype == torch.int32
        with pytest.raises(IndexError):
            torch.cumsum(x, 2)
    assert not torch.equal(bits(torch.cumsum(x, 1)), bits(expected))


OUT_DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.int64, torch.int32),
    *(torch.uint8, torch.bool, torch.uint16, torch.uint64, torch.float8_e4m3fn),
)


@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", OUT_DTYPES)
@pytest.mark.parametrize("size", [0, 3])
def test_out_of_another_dtype_and_shape(op, dtype, size):
    """Resized or refused as by torch, in torch's place and called directly."""
    for x in (torch.tensor([1.0, 2, 3]), torch.tensor([1, 2, 3]), torch.tensor([1.0, 2, 3]).to(dtype)):
        outcomes = []
        for ns, ops in ((torch, []), (torch, None), (reprocuda, [])):
            with reprocuda.enabled(ops=ops):
                out = torch.empty(size, dtype=dtype)
                try:
                    assert getattr(ns, op)(x, 0, out=out) is out
                    outcomes.append((out.dtype, out.tolist()))
                except RuntimeError as error:
                    outcomes.append(type(error))
        assert outcomes[1:] == outcomes[:1] * 2
