"""The usual recipe, pasted into a script, works unchanged under enable(): nothing of ours raises, the bits repeat."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "recipe.py"
ROOT = SCRIPT.parent.parent.parent


def run(**environment):
    return subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPT],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_the_recipe_runs_and_repeats():
    first, second = run(PYTHONHASHSEED="1"), run(PYTHONHASHSEED="2")
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.strip()) == 64 and second.stdout == first.stdout
