"""Code in a fresh interpreter, also by one instruction set of the CPU's after the other."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTRUCTION_SETS = ("portable", "avx2", "avx512")


def run_python(code: str, *arguments: object, **variables: str) -> str:
    """What the code prints, run with these command-line arguments and environment variables."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'build' / 'native'}", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def by_instruction_set(code: str) -> dict[str, str]:
    """What the code prints by each instruction set, or the widest narrower one that the processor has."""
    return {name: run_python(code, REPROCUDA_CPU_ISA=name) for name in INSTRUCTION_SETS}
