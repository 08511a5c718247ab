"""The fingerprint's kernels give the digest of the contract, and of the CPU, whatever the schedule and the layout."""

from dataclasses import dataclass

import numpy as np
import pytest
import reprocuda_emulation as emulation
import torch

from reprocuda.auditing.fingerprint import fingerprint
from tests.auditing.reference import digest, header

NUMBERS = {"bool": 11, "uint8": 0, "float16": 5, "float32": 6, "int64": 4, "complex128": 10}
SCHEDULES = 200
NUM_SMS = (1, 2, 3)


@dataclass(frozen=True)
class Scene:
    """A strided view of some memory; strides in elements."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    first: int = 0

    def memory(self) -> np.ndarray:
        reach = (
            1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True)) if 0 not in self.sizes else 0
        )
        item = np.dtype(self.dtype).itemsize
        bits = np.random.default_rng(1).integers(0, 256, (self.first + reach) * item, np.uint8)
        return bits.view(self.dtype)

    def elements(self, memory: np.ndarray) -> np.ndarray:
        strides = tuple(s * memory.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(memory[self.first :], self.sizes, strides)

    def wanted(self) -> tuple[int, int]:
        elements = np.ascontiguousarray(self.elements(self.memory())).reshape(self.sizes)
        data = elements.tobytes()
        if self.dtype == "bool":
            data = bytes(byte != 0 for byte in data)
        return digest(data, NUMBERS[self.dtype], self.sizes)

    def run(self, num_sms: int) -> tuple[int, int]:
        lanes = header(NUMBERS[self.dtype], self.sizes)
        return emulation.fingerprint(self.memory(), self.first, self.sizes, self.strides, lanes, num_sms)


# Each size of element, contiguous and not, alone in its grid and among others.
SCENES = [
    Scene("float32", (), ()),
    Scene("float32", (0,), (1,)),
    Scene("uint8", (1,), (1,)),
    Scene("complex128", (128,), (1,)),
    Scene("complex128", (2300,), (1,)),
    Scene("complex128", (40, 57), (1, 40)),
    Scene("bool", (2047,), (1,)),
    Scene("bool", (40_003,), (1,)),
    Scene("bool", (101, 33), (7, 3), first=5),
    Scene("uint8", (36_001,), (1,), first=1),
    Scene("float16", (17_411,), (1,)),
    Scene("float16", (129, 131), (1, 129)),
    Scene("float32", (9_001,), (1,)),
    Scene("float32", (9_001,), (1,), first=3),
    Scene("float32", (5, 61, 31), (1, 5, 400)),
    Scene("int64", (4_499,), (1,)),
    Scene("int64", (50, 60), (0, 2)),
]


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_one_digest_whatever_the_schedule(scene):
    wanted = scene.wanted()
    for seed in range(-(-SCHEDULES // len(SCENES))):
        emulation.set_options(seed=seed)
        assert scene.run(NUM_SMS[seed % 3]) == wanted, f"seed {seed}"
    emulation.set_options()


@pytest.mark.parametrize("scene", [Scene("float32", (8_193,), (1,)), Scene("float16", (129, 70), (1, 129))], ids=str)
def test_hundreds_of_schedules(scene):
    wanted = scene.wanted()
    emulation.reset_launch_counts()
    for seed in range(SCHEDULES):
        emulation.set_options(seed=seed)
        assert scene.run(NUM_SMS[seed % 3]) == wanted, f"seed {seed}"
    emulation.set_options()
    assert emulation.launch_counts()["fingerprint_blocks"] == SCHEDULES


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_the_cpu_gives_the_same(scene):
    memory = torch.from_numpy(scene.memory().view(np.uint8)).view(getattr(torch, scene.dtype))
    x = memory.as_strided(scene.sizes, scene.strides, scene.first)
    assert fingerprint(x) == "{:016x}{:016x}".format(*scene.run(2))


@pytest.mark.parametrize("bytes_, launches", [(0, 1), (1, 1), (32 * 1024, 1), (32 * 1024 + 1, 2), (1 << 20, 2)])
def test_small_tensors_take_one_kernel_and_no_memory(bytes_, launches):
    emulation.reset_launch_counts()
    emulation.set_options(detect_races=False)
    Scene("uint8", (bytes_,), (1,)).run(2)
    emulation.set_options()
    assert sum(emulation.launch_counts().values()) == launches
