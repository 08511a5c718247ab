"""Every library is imported by few processes, which do all their runs and start together."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


class Script:
    """A script of this folder, running in two processes of its own; `second`: more arguments of the second."""

    def __init__(self, folder: Path, command: list[str], second: tuple[str, ...]):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        environment |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        self.folders = [folder / "first", folder / "second"]
        for run in self.folders:
            run.mkdir()
        self._processes = [
            subprocess.Popen(
                [sys.executable, *command, str(run), *more],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=run,
            )
            for run, more in zip(self.folders, ((), second), strict=True)
        ]

    def wait(self) -> list[str]:
        """What each printed."""
        outputs = []
        for process in self._processes:
            printed, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors[-4000:]
            outputs.append(printed)
        return outputs

    def results(self) -> list[dict]:
        """The JSON that each printed last."""
        return [json.loads(printed.splitlines()[-1]) for printed in self.wait()]


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    def start_script(name: str, second: tuple[str, ...] = (), launcher: tuple[str, ...] = ()) -> Script:
        return Script(tmp_path_factory.mktemp("runs"), [*launcher, str(HERE / name)], second)

    return start_script
