"""Scopes that do not end in the order in which they began, as those of several threads do; and warnings as errors."""

import subprocess
import sys

import pytest
import torch

import reprocuda
from reprocuda.dispatch import scopes
from reprocuda.toolkit.flags import Flags

pytestmark = pytest.mark.filterwarnings(
    "ignore:reprocuda.reproducible. PYTHONHASHSEED", "ignore::reprocuda.CompileWarning"
)
SCOPES = {
    "deterministic": lambda: reprocuda.deterministic(strict=True),
    "reproducible": lambda: reprocuda.reproducible(1),
    "fast": lambda: reprocuda.reproducible(2, "fast", tf32=True),
    "fork_rng": lambda: reprocuda.fork_rng(3),
}


def state():
    found = reprocuda.rng_state()
    return Flags.read(), found["python"], found["numpy"], found["torch"].tolist(), scopes.open_now()


@pytest.mark.parametrize("second", SCOPES)
@pytest.mark.parametrize("first", SCOPES)
def test_the_last_to_end_puts_back_what_the_first_found(first, second):
    before = state()
    one = SCOPES[first]()
    one.__enter__()
    other = SCOPES[second]()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert state() == before


def test_a_scope_that_is_still_open_keeps_its_flag():
    first, second = (reprocuda.deterministic(strict=True) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__()
    assert torch.are_deterministic_algorithms_enabled()
    second.__exit__()
    assert not torch.are_deterministic_algorithms_enabled()


SCRIPT = """
import os, torch, reprocuda
from reprocuda.dispatch import scopes
from reprocuda.toolkit.flags import Flags
before = Flags.read(), torch.get_rng_state().tolist(), dict(os.environ)
for mode in ("debug", "train"):
    try:
        reprocuda.reproducible(7, mode)
    except (reprocuda.ReproducibilityWarning, reprocuda.CompileWarning):
        assert (Flags.read(), torch.get_rng_state().tolist(), dict(os.environ)) == before
        assert scopes.open_now() == ()
    else:
        raise SystemExit("nothing was said")
"""


def test_a_warning_that_is_an_error_leaves_nothing_half_done(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
