"""What only a Python that has just started can show: errors that end it, and the hash seed it started with."""

import os
import subprocess
import sys

import pytest

from reprocuda.toolkit.flags import hash_seed


def python(code, **environment):
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**inherited, **environment}, timeout=300
    )


def test_an_uncaught_error_is_explained():
    done = python(
        "import torch, reprocuda\nreprocuda.reproducible()\n"
        "torch._C._nn.max_unpool2d(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1).long(), (2, 2))"
    )
    assert done.returncode == 1 and "NondeterministicError: max_unpool" in done.stderr
    assert 'File "<string>", line 3' in done.stderr and "cure: " in done.stderr


@pytest.mark.parametrize(("value", "found"), [("0", "0"), ("42", "42"), (None, "None"), ("random", "None")])
def test_the_hash_seed_is_the_one_that_python_started_with(value, found):
    code = (
        "import os; os.environ['PYTHONHASHSEED'] = {!r}; "
        "from reprocuda.toolkit.flags import hash_seed; print(hash_seed())"
    )
    written_later = "7" if value is None else value
    done = python(code.format(written_later), **({} if value is None else {"PYTHONHASHSEED": value}))
    assert done.stdout.strip() == found, done.stderr


def test_hash_seed_of_this_process_is_cached():
    assert hash_seed() == hash_seed()
