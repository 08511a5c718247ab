"""Generators, flags and operators of ours under torch's deterministic flag, on a GPU."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import reprocuda


def draws():
    return [random.random(), np.random.rand(), torch.rand(()).item(), torch.rand((), device="cuda").item()]


def test_the_generators_of_every_gpu_are_saved_and_put_back():
    reprocuda.seed_everything(2**40 + 3)
    state, first = reprocuda.rng_state(), draws()
    assert len(state["cuda"]) == torch.cuda.device_count()
    reprocuda.set_rng_state(state)
    assert draws() == first
    with reprocuda.fork_rng(1):
        inside = draws()
    following = draws()
    reprocuda.set_rng_state(state)
    draws()
    assert draws() == following and not set(inside) & set(first)


def test_seeding_does_not_initialise_cuda():
    code = (
        "import torch, reprocuda\n"
        "reprocuda.seed_everything(5)\n"
        "state = reprocuda.rng_state()\n"
        "with reprocuda.fork_rng(6): pass\n"
        "assert not torch.cuda.is_initialized() and state['cuda'] is None\n"
        "first = torch.rand(3, device='cuda')\n"
        "reprocuda.set_rng_state(state)\n"
        "assert torch.equal(torch.rand(3, device='cuda'), first)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore::reprocuda.ReproducibilityWarning")
def test_operators_of_ours_run_under_the_flag_and_others_are_named():
    rows, values = torch.zeros(3, dtype=torch.long, device="cuda"), torch.tensor([1e8, 1.0, -1e8], device="cuda")
    weight = torch.ones(3, 2, device="cuda", requires_grad=True)
    with reprocuda.reproducible():
        zero = torch.zeros(1, device="cuda")
        assert zero.index_add(0, rows, values).item() == 1.0
        assert zero.scatter_add(0, rows, values).item() == 1.0
        assert zero.index_put((rows,), values, accumulate=True).item() == 1.0
        F.embedding(rows, weight).sum().backward()
    with pytest.raises(reprocuda.NondeterministicError, match="kthvalue"), reprocuda.reproducible():
        torch.rand(100, device="cuda").kthvalue(3)
