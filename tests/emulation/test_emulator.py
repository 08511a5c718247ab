"""The emulated device computes what CUDA documents, whatever the schedule."""

import ctypes
import operator

import numpy as np
import pytest
import reprocuda_emulation as emulation

from tests.numerics import generators

SCHEDULES = range(emulation.NUM_SCHEDULES)
FE_MODES = {"rn": 0x000, "rd": 0x400, "ru": 0x800, "rz": 0xC00}  # x86-64
OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv}
BLOCK = 128


@pytest.fixture(params=SCHEDULES)
def schedule(request):
    emulation.set_options(seed=request.param, schedule=request.param)
    yield request.param
    emulation.set_options()


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rows = [generators.matrix(kind, dtype, 2, 400).astype(dtype) for kind in generators.KINDS]
    a, b = np.concatenate(rows, axis=1)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, np.finfo(dtype).max], dtype)
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1)
    a, b = np.concatenate([a, pairs[0], a]), np.concatenate([b, pairs[1], -a])  # x + -x: the sign of zero
    return np.ascontiguousarray(a), np.ascontiguousarray(b)


def in_mode(mode: str, function, *arguments):
    """The processor's answer in another rounding mode, by way of fesetround."""
    libm = ctypes.CDLL("libm.so.6")
    with np.errstate(all="ignore"):
        assert libm.fesetround(FE_MODES[mode]) == 0
        try:
            return function(*arguments)
        finally:
            libm.fesetround(FE_MODES["rn"])


def assert_same_bits(got: np.ndarray, wanted: np.ndarray):
    both_nan = np.isnan(got) & np.isnan(wanted)
    word = f"u{got.itemsize}"
    np.testing.assert_array_equal(np.where(both_nan, 0, got.view(word)), np.where(both_nan, 0, wanted.view(word)))


@pytest.mark.parametrize("name", emulation.DOUBLE_INTRINSICS)
def test_double_arithmetic_rounds_as_the_processor_does(name):
    a, b = operands("float64")
    wanted = in_mode(name[-2:], OPERATIONS[name[3:6]], a, b)
    assert_same_bits(emulation.double_intrinsic(name, a, b), wanted)


@pytest.mark.parametrize("name", emulation.FLOAT_INTRINSICS)
def test_float_arithmetic_rounds_as_the_processor_does(name):
    a, b = operands("float32")
    wanted = in_mode(name[-2:], OPERATIONS[name[3:6]], a, b)
    assert_same_bits(emulation.float_intrinsic(name, a, b), wanted)


@pytest.mark.parametrize("name", emulation.NARROWING_INTRINSICS)
def test_narrowing_rounds_as_the_processor_does(name):
    values = np.concatenate([operands("float64")[0], operands("float32")[0].astype(np.float64) * (1 + 2.0**-25)])
    wanted = in_mode(name[-2:], lambda x: x.astype(np.float32), values)
    assert_same_bits(emulation.narrowing_intrinsic(name, values), wanted)


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def lowest_set(value: int) -> int:
    return (value & -value).bit_length()


def reversed_bits(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


INTEGER_MEANINGS = {
    "__clz": lambda a, b: 32 - (a & 0xFFFFFFFF).bit_length(),
    "__clzll": lambda a, b: 64 - a.bit_length(),
    "__ffs": lambda a, b: lowest_set(a & 0xFFFFFFFF),
    "__ffsll": lambda a, b: lowest_set(a),
    "__popc": lambda a, b: (a & 0xFFFFFFFF).bit_count(),
    "__popcll": lambda a, b: a.bit_count(),
    "__brev": lambda a, b: reversed_bits(a & 0xFFFFFFFF, 32),
    "__brevll": lambda a, b: reversed_bits(a, 64),
    "__umul64hi": lambda a, b: a * b >> 64,
    "__mul64hi": lambda a, b: (signed(a, 64) * signed(b, 64) >> 64) % (1 << 64),
    "__umulhi": lambda a, b: (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF) >> 32,
    "__funnelshift_l": lambda a, b: (a << (b & 31) >> 32) & 0xFFFFFFFF,
    "__funnelshift_r": lambda a, b: (a >> (b & 31)) & 0xFFFFFFFF,
}


@pytest.mark.parametrize("name", emulation.INTEGER_INTRINSICS)
def test_integer_intrinsics(name):
    rng = np.random.default_rng(5)
    a = rng.integers(0, 1 << 64, 500, dtype=np.uint64) >> rng.integers(0, 64, 500, dtype=np.uint64)
    a[:4] = [0, 1, 1 << 31, (1 << 64) - 1]
    b = rng.permuted(a)
    wanted = [INTEGER_MEANINGS[name](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert emulation.integer_intrinsic(name, a, b).tolist() == wanted


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("width", [32, 8, 2])
def test_shuffles(schedule, dtype, width):
    rng = np.random.default_rng(width)
    values = rng.integers(0, 100, BLOCK).astype(dtype)
    arguments = rng.integers(0, 32, BLOCK).astype(np.int32)
    lane = np.arange(BLOCK) % 32
    first = lane // width * width
    delta = arguments[np.arange(BLOCK) // 32 * 32]
    sources = [
        first + arguments % width,
        np.where(lane - delta >= first, lane - delta, lane),
        np.where(lane + delta < first + width, lane + delta, lane),
        np.where(lane ^ delta < first + width, lane ^ delta, lane),
    ]
    warp = np.arange(BLOCK) // 32 * 32
    wanted = np.stack([values[warp + source] for source in sources])
    np.testing.assert_array_equal(emulation.shuffles(values, arguments, width), wanted)


def test_votes_and_reductions(schedule):
    values = np.random.default_rng(2).integers(-3, 9, BLOCK).astype(np.int32)
    got = emulation.votes(values)
    word = values.astype(np.uint32)
    for t in range(BLOCK):
        warp = slice(t // 32 * 32, t // 32 * 32 + 32)
        half = slice(t // 16 * 16, t // 16 * 16 + 16)
        ballot = sum(int(v > 0) << (half.start % 32 + i) for i, v in enumerate(values[half]))
        mask = 0xFFFF << (half.start % 32)
        wanted = [
            ballot, ballot != 0, ballot == mask,
            sum(int(v == values[t]) << i for i, v in enumerate(values[warp])),
            int(word[warp].sum(dtype=np.uint32)), int(np.uint32(values[warp].min().astype(np.int64) & 0xFFFFFFFF)),
            int(np.uint32(values[warp].max())), int(np.bitwise_or.reduce(word[warp])), int(word[warp].max()),
            (values > 5).any(), (values > 5).all(), (values > 0).sum(),
        ]  # fmt: skip
        assert got[:, t].tolist() == [int(w) for w in wanted]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.uint64])
def test_atomics(schedule, dtype):
    info = np.iinfo(dtype)
    values = np.random.default_rng(3).integers(info.min, info.max, 4 * BLOCK, dtype, endpoint=True)
    total = values.sum(dtype=dtype)
    wanted = [
        total, max(values.max(), 0), min(values.min(), 0), np.bitwise_or.reduce(values),
        np.bitwise_and.reduce(values), np.bitwise_xor.reduce(values), total, 77,
    ]  # fmt: skip
    assert emulation.atomics(values, 4).tolist() == [int(w) for w in wanted]


def test_indices_cover_the_grid_once(schedule):
    got = emulation.where_am_i([3, 2, 4], [4, 3, 5])
    assert got[:, 0, 0].tolist() == list(range(24))
    threads = [[x, y, z] for z in range(5) for y in range(3) for x in range(4)]
    np.testing.assert_array_equal(got[..., 1:], np.broadcast_to(threads, (24, 60, 3)))


def test_launches_are_counted():
    emulation.reset_launch_counts()
    for _ in range(3):
        emulation.synchronise(2, 32, 1)
    assert emulation.launch_counts() == {"synchronise": 3}


@pytest.mark.parametrize("blocks, threads", [(0, 32), (1, 0), (1, 1025)])
def test_impossible_launches_are_refused(blocks, threads):
    with pytest.raises(emulation.KernelError, match="invalid launch"):
        emulation.synchronise(blocks, threads, 1)


def test_one_seed_is_one_interleaving():
    x = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    for seed in range(20):
        emulation.set_options(seed=seed)
        first = emulation.run_kernel("scatter_by_float_atomics", x, 1)
        emulation.set_options(seed=seed)
        assert emulation.run_kernel("scatter_by_float_atomics", x, 1) == first
