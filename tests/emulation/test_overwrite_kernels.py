"""Plain writes through an index on the emulated device: the last in source order stands, whatever the schedule."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import reprocuda_emulation as emulation

SCHEDULES = 200


@dataclass(frozen=True)
class Scene:
    """`out` and `index` may be strided; an index stride of 0 makes rows. Strides in elements."""

    dtype: str
    sizes: tuple[int, ...]
    dim: int
    targets: int
    index_strides: tuple[int, ...]
    out_strides: tuple[int, ...]
    src_strides: tuple[int, ...]
    index_dtype: str = "int64"
    wraps: bool = False

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        random = np.random.default_rng(sum(self.sizes))
        coordinates = [n if d != self.dim else self.targets for d, n in enumerate(self.sizes)]
        reach = 1 + sum((n - 1) * s for n, s in zip(coordinates, self.out_strides, strict=True))
        index_reach = 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.index_strides, strict=True))
        src_reach = 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.src_strides, strict=True))
        item = np.dtype(self.dtype).itemsize

        def bits(count):
            return random.integers(0, 256, count * item, np.uint8).view(self.dtype)

        lower = -self.targets if self.wraps else 0
        return bits(reach), bits(src_reach), random.integers(lower, self.targets, index_reach).astype(self.index_dtype)

    def wanted(self) -> np.ndarray:
        out, src, index = self.arrays()
        for at in sorted(itertools.product(*map(range, self.sizes)), key=lambda c: c[self.dim]):
            target = int(index[np.dot(at, self.index_strides)]) % self.targets
            place = [c if d != self.dim else target for d, c in enumerate(at)]
            out[np.dot(place, self.out_strides)] = src[np.dot(at, self.src_strides)]
        return out.view(np.uint8)

    def run(self, num_sms: int) -> tuple[np.ndarray, int]:
        out, src, index = self.arrays()
        return emulation.overwrite(
            out, src, index, list(self.sizes), self.dim, list(self.src_strides), list(self.index_strides),
            list(self.out_strides), self.targets, self.wraps, num_sms,
        )  # fmt: skip


SCENES = {
    "vector": Scene("float32", (700,), 0, 9, (1,), (1,), (1,)),
    "vector of bytes": Scene("uint8", (900,), 0, 40, (1,), (1,), (1,), "int32"),
    "from the end": Scene("int64", (600,), 0, 7, (1,), (2,), (1,), wraps=True),
    "elements, first dimension": Scene("float16", (90, 7), 0, 5, (7, 1), (7, 1), (7, 1)),
    "elements, last dimension": Scene("complex128", (6, 80), 1, 4, (80, 1), (4, 1), (80, 1), "int32"),
    "elements, strided": Scene("float32", (4, 70, 3), 1, 6, (1, 12, 4), (1, 24, 4), (210, 3, 1)),
    "rows": Scene("float64", (3, 120, 5), 1, 8, (0, 1, 0), (40, 5, 1), (600, 5, 1)),
    "one row for all": Scene("int32", (150, 4), 0, 6, (1, 0), (4, 1), (0, 1)),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_the_last_stands_whatever_the_schedule(scene):
    wanted = scene.wanted()
    emulation.reset_launch_counts()
    for seed in range(SCHEDULES // 4):
        emulation.set_options(seed=seed)
        got, _ = scene.run(1 + seed % 3)
        np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")
    emulation.set_options()
    counts = emulation.launch_counts()
    assert counts["overwrite_claim"] == counts["overwrite_copy"] == SCHEDULES // 4
    assert sum(counts.values()) == 3 * (SCHEDULES // 4)  # and the clearing of the slots


def test_hundreds_of_schedules_of_each_kernel():
    scene = Scene("float32", (500,), 0, 3, (1,), (1,), (1,))
    wanted = scene.wanted()
    for seed in range(SCHEDULES):
        emulation.set_options(seed=seed)
        np.testing.assert_array_equal(scene.run(1 + seed % 3)[0], wanted, err_msg=f"seed {seed}")
    emulation.set_options()


def test_the_scenes_depend_on_the_order():
    """Writing in any order would be found out: read backwards, every scene has another answer."""
    for name, scene in SCENES.items():
        if name == "one row for all":
            continue
        out, src, index = scene.arrays()
        for at in sorted(itertools.product(*map(range, scene.sizes)), key=lambda c: -c[scene.dim]):
            target = int(index[np.dot(at, scene.index_strides)]) % scene.targets
            place = [c if d != scene.dim else target for d, c in enumerate(at)]
            out[np.dot(place, scene.out_strides)] = src[np.dot(at, scene.src_strides)]
        assert not np.array_equal(out.view(np.uint8), scene.wanted()), name


def test_a_single_row_needs_no_slots():
    scene = Scene("float32", (40, 1), 1, 6, (1, 1), (6, 1), (1, 1))
    emulation.reset_launch_counts()
    got, temporary = scene.run(2)
    np.testing.assert_array_equal(got, scene.wanted())
    assert temporary == 0 and sum(emulation.launch_counts().values()) == 1


@pytest.mark.parametrize("wraps, bad", [(False, -1), (False, 5), (True, -6), (True, 5)])
def test_an_index_out_of_range_traps_before_anything_is_written(wraps, bad):
    index = np.array([0, 1, bad, 2])
    out, src = np.zeros(5, np.float32), np.ones(4, np.float32)
    emulation.reset_launch_counts()
    with pytest.raises(emulation.KernelError, match="out of bounds"):
        emulation.overwrite(out, src, index, [4], 0, [1], [1], [1], 5, wraps)
    assert "overwrite_copy" not in emulation.launch_counts()


def test_slots_of_rows_are_one_a_target():
    _, temporary = SCENES["rows"].run(2)
    assert temporary == 8 * 4
    _, temporary = SCENES["elements, first dimension"].run(2)
    assert temporary == 5 * 7 * 4
