"""exp, log and sqrt on the emulated device give the CPU's bits, whatever the schedule."""

import numpy as np
import pytest
import reprocuda_emulation as emulation
import torch

from reprocuda.families import elementary
from tests.operators.bits import NAMES, to_numpy_bits
from tests.operators.elementary_arguments import arguments

SCHEDULES = 200


@pytest.mark.parametrize("dtype", NAMES, ids=NAMES.get)
@pytest.mark.parametrize("name", ["exp", "log", "sqrt"])
def test_bits_of_the_cpu(name, dtype):
    x = arguments(dtype)
    want = to_numpy_bits(getattr(elementary, name)(x)).tobytes()
    emulation.set_options(detect_races=False)
    array = to_numpy_bits(x) if dtype is torch.bfloat16 else x.numpy()
    assert emulation.elementary(name, array, dtype is torch.bfloat16).tobytes() == want
    emulation.set_options()


@pytest.mark.parametrize("name", ["exp", "log", "sqrt"])
def test_hundreds_of_schedules(name):
    x = np.abs(np.random.default_rng(0).standard_normal(3001))
    want = getattr(elementary, name)(torch.from_numpy(x)).numpy().tobytes()
    for seed in range(SCHEDULES):
        emulation.set_options(seed=seed)
        assert emulation.elementary(name, x, num_sms=1 + seed % 3).tobytes() == want, f"seed {seed}"
    emulation.set_options()
    assert emulation.elementary(name, x[:0]).size == 0
