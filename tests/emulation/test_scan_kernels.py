"""Prefix sums on the emulated device: exact by rational arithmetic, and the CPU's bits, whatever the schedule."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import reprocuda_emulation as emulation
import torch

import reprocuda
from tests import oracle
from tests.emulation.problems import FLOATS, INTEGERS, random_bits

KINDS = ("normal", "lognormal", "cancelling", "ties", "subnormal", "any_finite", "overflow_edge", "zeros_and_ones",
         "specials")  # fmt: skip
NUMBERS = tuple(dtype for dtype in INTEGERS if dtype != "bool")
SCHEDULES = 200
KERNELS = ("scan_totals", "scan_filter", "scan_exact_totals", "scan_exact_starts", "scan_exact_prefixes")


def exact_prefixes(column: np.ndarray, dtype: str) -> np.ndarray:
    """Of the bits of one column, rounded once each."""
    form = oracle.FORMATS[dtype]
    total, infinities, is_nan, all_negative_zeros = Fraction(0), set(), False, True
    bits = []
    for number in column.tolist():
        value = float(oracle.to_double(np.array([number], form.bits), dtype)[0])
        is_nan |= value != value
        if abs(value) == np.inf:
            infinities.add(value)
        elif value == value:
            total += Fraction(value)
        all_negative_zeros &= number == form.sign
        if is_nan or len(infinities) == 2:
            bits.append(form.nan)
        elif infinities:
            bits.append(form.infinity | (form.sign if -np.inf in infinities else 0))
        else:
            bits.append(form.sign if all_negative_zeros else oracle.round_fraction(total, dtype))
    return np.array(bits, form.bits)


@dataclass(frozen=True)
class Scene:
    dtype: str
    outer: int
    length: int
    inner: int
    kind: str = "normal"
    exact: bool = False

    def bits(self) -> np.ndarray:
        rng = np.random.default_rng([self.outer, self.length, self.inner, *self.dtype.encode(), *self.kind.encode()])
        columns = random_bits(rng, self.dtype, self.kind, (self.length, self.outer * self.inner))
        return np.ascontiguousarray(columns.reshape(self.length, self.outer, self.inner).swapaxes(0, 1))

    def wanted(self) -> np.ndarray:
        x = self.bits()
        if self.dtype in NUMBERS:
            return np.cumsum(x, 1, dtype=x.dtype)
        wanted = np.empty_like(x)
        for o in range(self.outer):
            for k in range(self.inner):
                wanted[o, :, k] = exact_prefixes(x[o, :, k], self.dtype)
        return wanted

    def run(self, num_sms: int) -> tuple[np.ndarray, int]:
        x = self.bits()
        result, temporary = emulation.scan(x, self.dtype, num_sms, self.exact)
        return result.view(x.dtype).reshape(x.shape), temporary


def check(scene: Scene, seeds, wanted: np.ndarray | None = None) -> None:
    wanted = scene.wanted() if wanted is None else wanted
    for seed in seeds:
        emulation.set_options(seed=seed)
        got, _ = scene.run(1 + seed % 4)
        np.testing.assert_array_equal(got, wanted, err_msg=f"{scene}, seed {seed}")
    emulation.set_options()


# outer, length, inner: one span a block and many, one chunk and several, ragged in every dimension.
SHAPES = {
    "one": (1, 1, 1),
    "a run": (1, 8, 1),
    "several tiles": (1, 5000, 1),
    "several slices of several chunks": (2, 2500, 1),
    "many short slices": (301, 11, 1),
    "slices of a warp": (5, 250, 1),
    "complex": (2, 1100, 2),
    "three columns": (3, 301, 3),
    "wide": (2, 130, 37),
    "wide and short": (3, 5, 70),
    "rows of one": (3, 1, 40),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [*FLOATS, *NUMBERS])
def test_every_shape(dtype, shape):
    for exact in (False, True) if dtype in FLOATS else (False,):
        scene = Scene(dtype, *SHAPES[shape], exact=exact)
        check(scene, range(2), scene.wanted())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_kind_of_number(dtype, kind):
    for shape in ((1, 1500, 1), (2, 70, 3), (40, 6, 1)):
        for exact in (False, True):
            check(Scene(dtype, *shape, kind, exact), range(2))


@pytest.mark.parametrize("dtype", [*FLOATS, *NUMBERS, "complex64", "complex128"])
def test_the_cpu_gives_the_same(dtype):
    pairs = dtype.startswith("complex")
    part = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    for outer, length, inner in ((1, 3000, 2), (3, 200, 10)):
        for kind in ("any_finite", "specials", "cancelling"):
            scene = Scene(part, outer, length, inner, kind)
            bits = scene.bits()
            x = torch.from_numpy(bits.view(f"i{bits.itemsize}")).view(getattr(torch, part))
            if pairs:
                x = torch.view_as_complex(x.unflatten(2, (inner // 2, 2)))
            cpu = reprocuda.cumsum(x, 1, dtype=x.dtype)
            cpu = torch.view_as_real(cpu).flatten(2) if pairs else cpu
            got, _ = scene.run(3)
            np.testing.assert_array_equal(
                got, cpu.view(getattr(torch, f"int{8 * bits.itemsize}")).numpy().view(bits.dtype)
            )


SCENES = [
    Scene("float32", 1, 2600, 1, "any_finite"),
    Scene("float64", 1, 2600, 1, "any_finite"),
    Scene("float64", 2, 400, 3, "specials"),
    Scene("bfloat16", 1, 700, 5, "cancelling"),
    Scene("float16", 3, 300, 2, exact=True),
]


def test_one_bit_pattern_whatever_the_schedule():
    emulation.reset_launch_counts()
    seeds = -(-SCHEDULES // len(SCENES)) * 2  # num_sms of 1 leaves short columns whole
    for number, scene in enumerate(SCENES):
        check(scene, range(number * seeds, (number + 1) * seeds))
    counts = emulation.launch_counts()
    assert {kernel for kernel in KERNELS if counts[kernel] < SCHEDULES} == set()


def test_one_hard_prefix_costs_its_stretch_only():
    """And what the filter has written elsewhere stays: nothing else is redone."""
    x = np.ones((1, 2048, 1))
    x[0, 700:703, 0] = [2.0**1000, -(2.0**1000), 2.0**-1000]
    got, _ = emulation.scan(x.view(np.uint64), "float64", 2)
    wanted = exact_prefixes(x[0, :, 0].view(np.uint64), "float64")
    np.testing.assert_array_equal(got.view(np.uint64), wanted)


@pytest.mark.parametrize(
    "scene, launches",
    [
        (Scene("float32", 1, 100, 1), {"memset", "scan_filter", "scan_exact_prefixes"}),
        (Scene("float32", 1, 4096, 1), {"memset", *KERNELS}),
        (Scene("float64", 500, 100, 3), {"memset", "scan_filter", "scan_exact_prefixes"}),
        (Scene("int64", 1, 4096, 1), {"scan_totals", "scan_filter"}),
        (Scene("int32", 9, 5, 2), {"scan_filter"}),
    ],
    ids=str,
)
def test_launches_depend_on_the_shape_alone(scene, launches):
    for kind in ("normal", "any_finite"):
        emulation.reset_launch_counts()
        emulation.set_options(detect_races=False)
        Scene(scene.dtype, scene.outer, scene.length, scene.inner, kind).run(2)
        counts = emulation.launch_counts()
        assert {name: count for name, count in counts.items() if count} == dict.fromkeys(launches, 1)
    emulation.set_options()


def test_temporary_memory_is_bounded():
    """A bit a column where a column is one stretch; else a pool of 16 MiB, and less for short columns."""
    for dtype, limbs in (("float32", 10), ("float64", 66)):
        _, temporary = Scene(dtype, 1000, 20, 3).run(2)
        assert temporary == 4 * -(-3000 // 32)
        _, temporary = Scene(dtype, 1, 2**14, 1).run(2)
        assert temporary <= 2**14 // 128 * (limbs + 1) * 8 + 4096
    many = np.zeros((1, 300, 20_000), np.uint64)
    emulation.set_options(detect_races=False)
    assert emulation.scan(many, "float64", 2)[1] <= 16 * 2**20 + 4 * 21_000
    emulation.set_options()


def test_nothing_to_do():
    for shape in ((0, 5, 2), (3, 0, 2), (3, 5, 0)):
        got, temporary = emulation.scan(np.zeros(shape, np.uint32), "float32", 2)
        assert got.size == 0 and temporary == 0
