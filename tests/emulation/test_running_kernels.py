"""cumprod and logcumsumexp on the emulated device give the CPU's bits, whatever the schedule."""

import pytest
import reprocuda_emulation as emulation
import torch

from tests.operators.bits import bits
from tests.operators.running_products import CASES, LONG, SHAPES, compute, numbers

SCHEDULES = 200


def on_device(name, x, **options):
    array = bits(x).numpy() if x.dtype is torch.bfloat16 else x.numpy()
    return emulation.running(name, array, x.dtype is torch.bfloat16, **options).tobytes()


def on_cpu(name, x):
    return bits(compute(name, x)).numpy().tobytes()


@pytest.mark.parametrize("name, dtype", [case for case in CASES if case[1] is not torch.complex32], ids=str)
def test_bits_of_the_cpu(name, dtype):
    for seed, shape in enumerate(SHAPES):
        x = numbers(shape, dtype, name, special=True)
        want = on_cpu(name, x)
        emulation.set_options(seed=seed)
        assert on_device(name, x) == want, shape
        assert on_device(name, x, in_place=True) == want, shape
    emulation.set_options()


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp"])
def test_several_groups(name):
    for shape in LONG[:2]:
        x = numbers(shape, torch.float64, name)
        emulation.set_options(detect_races=False)
        emulation.reset_launch_counts()
        assert on_device(name, x) == on_cpu(name, x)
        kernels = {"running_totals", "running_carries", "running_prefixes"}
        kernels |= {"running_groups"} if shape == LONG[0] else set()
        assert set(emulation.launch_counts()) == kernels
    emulation.set_options()


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp"])
def test_hundreds_of_schedules(name):
    x = numbers((2, 200, 3), torch.float32, name)
    want = on_cpu(name, x)
    for seed in range(SCHEDULES):
        emulation.set_options(seed=seed)
        assert on_device(name, x, in_place=seed % 2 == 1, num_sms=1 + seed % 3) == want, f"seed {seed}"
    emulation.set_options()


def test_one_kernel_for_one_block():
    emulation.reset_launch_counts()
    on_device("cumprod", numbers((3, 64, 2), torch.float32))
    assert emulation.launch_counts() == {"running_prefixes": 1}
