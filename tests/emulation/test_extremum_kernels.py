"""The largest or smallest with its position on the emulated device: what a loop and the CPU operator say, whatever the
schedule.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import reprocuda_emulation as emulation
import torch

from reprocuda import ops

SCHEDULES = 200
BITS = {
    "uint8": np.uint8, "int8": np.int8, "bool": np.uint8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "float16": np.uint16, "bfloat16": np.uint16, "float32": np.uint32, "float64": np.uint64,
}  # fmt: skip
INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
QUIET_NAN = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8000000000000}


def rank(bits: int, dtype: str, largest: bool) -> int:
    """A number's place in the order: by sign and magnitude, -0 below +0, NaN above everything."""
    if dtype in INFINITY:
        width = 8 * np.dtype(BITS[dtype]).itemsize
        magnitude = bits & ((1 << (width - 1)) - 1)
        if magnitude > INFINITY[dtype]:
            return 1 << 70
        bits = -magnitude - 1 if bits >> (width - 1) else magnitude
    return bits if largest else -bits


@dataclass(frozen=True)
class Scene:
    dtype: str
    shape: tuple[int, int, int]  # outer, rows, inner
    targets: int
    index_shape: tuple[int, int, int]  # 1 where the index does not change
    index_dtype: str = "int64"
    largest: bool = True
    own: bool = False
    two_passes: bool = False

    def arrays(self):
        random = np.random.default_rng(sum(self.shape) + self.targets)
        values = self._values()
        src = random.choice(values, self.shape)
        # One target stays empty.
        index = random.integers(0, max(self.targets - 1, 1), self.index_shape).astype(self.index_dtype)
        own = random.choice(values, (self.shape[0], self.targets, self.shape[2])) if self.own else None
        return src, index, own

    def _values(self) -> np.ndarray:
        """Few, so that many are equal; with zeros of both signs, infinities and NaN with payloads."""
        if self.dtype == "bool":
            return np.array([0, 1], np.uint8)
        bits = BITS[self.dtype]
        if self.dtype not in INFINITY:
            limits = np.iinfo(bits)
            return np.array([limits.min, limits.max, 0, 1, 7, limits.min + 1], bits)
        sign = 1 << (8 * np.dtype(bits).itemsize - 1)
        infinity = INFINITY[self.dtype]
        usual = [0, sign, 1, sign | 1, infinity - 1, infinity, sign | infinity, infinity // 3, sign | infinity // 3] * 9
        return np.array([*usual, infinity | 1, sign | infinity | 5], bits)

    def strides(self) -> tuple[int, int, int]:
        outer, rows, inner = self.index_shape
        steps = (rows * inner, inner, 1)
        return tuple(0 if size == 1 else step for size, step in zip((outer, rows, inner), steps, strict=True))

    def wanted(self):
        src, index, own = self.arrays()
        outer, rows, inner = self.shape
        zero = np.zeros((outer, self.targets, inner), src.dtype)
        values = zero.copy() if own is None else own.copy()
        positions = np.full(values.shape, rows, np.int64)
        where = np.broadcast_to(index, src.shape)
        for o, i, f in np.ndindex(src.shape):
            at = o, int(where[o, i, f]), f
            mine = rank(int(src[o, i, f]), self.dtype, self.largest)
            best = rank(int(values[at]), self.dtype, self.largest)
            if (positions[at] == rows and own is None) or mine > best:
                values[at], positions[at] = src[o, i, f], i
        if self.dtype in INFINITY:
            magnitudes = values & values.dtype.type((1 << (8 * values.itemsize - 1)) - 1)
            values[(positions < rows) & (magnitudes > INFINITY[self.dtype])] = QUIET_NAN[self.dtype]
        return values, positions

    def run(self, num_sms: int):
        src, index, own = self.arrays()
        return emulation.extremum(
            self.dtype, self.largest, src, index, self.strides(), self.targets, own, self.two_passes, num_sms
        )

    def on_cpu(self):
        src, index, own = self.arrays()

        def tensor(bits):
            return None if bits is None else torch.from_numpy(bits.copy()).view(getattr(torch, self.dtype))

        where = torch.from_numpy(np.broadcast_to(index, src.shape).copy())
        values, positions = ops.scatter_extremum(tensor(src), 1, where, self.targets, tensor(own), self.largest)
        return values.view(torch.uint8).numpy().reshape(-1), positions.numpy().reshape(-1)


SCENES = {
    "vector": Scene("float32", (1, 300, 1), 9, (1, 300, 1)),
    "smallest, own": Scene("float32", (1, 300, 1), 40, (1, 300, 1), "int32", largest=False, own=True),
    "two passes of 32 bits": Scene("float32", (1, 300, 1), 9, (1, 300, 1), two_passes=True),
    "two passes of 32 bits, own": Scene("int32", (1, 300, 1), 9, (1, 300, 1), own=True, two_passes=True),
    "float64": Scene("float64", (1, 300, 1), 9, (1, 300, 1), own=True),
    "float64, smallest": Scene("float64", (2, 70, 3), 5, (2, 70, 3), largest=False),
    "int64": Scene("int64", (1, 150, 2), 60, (1, 150, 1)),
    "int64, smallest": Scene("int64", (1, 150, 2), 60, (1, 150, 1), "int32", largest=False, own=True),
    "rows": Scene("float16", (2, 90, 6), 5, (1, 90, 1)),
    "rows of slices": Scene("bfloat16", (3, 60, 5), 7, (3, 60, 1), "int32", largest=False),
    "elements": Scene("int16", (2, 80, 4), 6, (2, 80, 4), own=True),
    "elements, the same in slices": Scene("int8", (2, 80, 4), 6, (1, 80, 4), largest=False),
    "two passes of bytes": Scene("uint8", (2, 80, 4), 6, (2, 80, 4), two_passes=True, own=True),
    "bools": Scene("bool", (1, 200, 2), 90, (1, 200, 1), largest=False),
}  # fmt: skip


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_the_first_of_the_best_whatever_the_schedule(scene):
    values, positions = scene.wanted()
    wanted = values.view(np.uint8).reshape(-1)
    for ours, theirs in zip(scene.on_cpu(), (wanted, positions.reshape(-1)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    emulation.reset_launch_counts()
    for seed in range(SCHEDULES):
        emulation.set_options(seed=seed)
        got, where, temporary = scene.run(1 + seed % 3)
        np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")
        np.testing.assert_array_equal(where, positions.reshape(-1), err_msg=f"seed {seed}")
    emulation.set_options()
    counts = emulation.launch_counts()
    split = scene.two_passes or scene.dtype.endswith("64")
    assert sum(counts.values()) == (5 if split else 3) * SCHEDULES
    narrow = values.itemsize < 4
    assert temporary == (4 * positions.size if scene.two_passes and narrow else 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_to_read(dtype):
    scene = Scene(dtype, (2, 0, 3), 4, (2, 0, 3), own=True)
    values, positions = scene.wanted()
    got, where, _ = scene.run(2)
    np.testing.assert_array_equal(got, values.view(np.uint8).reshape(-1))
    assert (where == 0).all() and (positions == 0).all()
    emulation.reset_launch_counts()
    Scene(dtype, (1, 0, 1), 0, (1, 0, 1)).run(2)
    assert sum(emulation.launch_counts().values()) == 0


@pytest.mark.parametrize("bad", [-1, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_index_out_of_range_traps(bad, dtype):
    src = np.ones((1, 4, 1), dtype)
    index = np.array([0, 1, bad, 2]).reshape(1, 4, 1)
    emulation.reset_launch_counts()
    with pytest.raises(emulation.KernelError, match="out of bounds"):
        emulation.extremum(np.dtype(dtype).name, True, src, index, (0, 1, 0), 5)
    assert "extremum_finish" not in emulation.launch_counts()
