"""The demo runs as a person would run it, and shows what it claims."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_native_drifts_and_reprocuda_repeats(tmp_path):
    command = [sys.executable, "-m", "demo", "--epochs", "1", "--output", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    native, ours = run.stdout.split("reprocuda: the same training")
    assert len(set(re.findall(r"[0-9a-f]{16}", native))) > 1
    assert len(set(re.findall(r"[0-9a-f]{16}", ours))) == 1
    assert (tmp_path / "drift.png").stat().st_size > 10_000
