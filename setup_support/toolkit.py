"""Finds the CUDA toolkit by looking for the toolkit only: compiling needs neither a GPU nor a CUDA build of torch."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MINIMUM_VERSION = (12, 0)  # the first nvcc that compiles C++20


@dataclass(frozen=True)
class Toolkit:
    home: Path
    version: str

    @property
    def library_dir(self) -> Path:
        """Where libcudart_static.a lies."""
        return next(path.parent for path in map(self.home.joinpath, _STATIC_RUNTIME) if path.exists())

    @property
    def include_dirs(self) -> list[str]:
        return [str(path) for path in (self.home / "include", self.home / "include" / "cccl") if path.is_dir()]


_STATIC_RUNTIME = ("lib64/libcudart_static.a", "lib/libcudart_static.a", "targets/x86_64-linux/lib/libcudart_static.a",
                   "targets/sbsa-linux/lib/libcudart_static.a")  # fmt: skip


class ToolkitNotFound(Exception):
    """No usable CUDA toolkit; the message says why."""


def find_toolkit() -> Toolkit:
    """The toolkit that CUDA_HOME names, else that of the nvcc on PATH, else /usr/local/cuda."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    nvcc = shutil.which("nvcc")
    if named:
        return _check(Path(named))
    if nvcc:
        return _check(_home_of(nvcc))
    if Path("/usr/local/cuda/bin/nvcc").exists():
        return _check(Path("/usr/local/cuda"))
    raise ToolkitNotFound("no CUDA toolkit: CUDA_HOME is not set and there is no nvcc on PATH or in /usr/local/cuda")


def _home_of(nvcc: str) -> Path:
    """nvcc on PATH may be a script that calls the real one, so ask it where it lives."""
    dry_run = subprocess.run([nvcc, "--dryrun", "-x", "cu", os.devnull], capture_output=True, text=True)
    top = re.search(r"^#\$ TOP=(.+)$", dry_run.stdout + dry_run.stderr, re.MULTILINE)
    return Path(top.group(1).strip()).resolve() if top else Path(nvcc).resolve().parent.parent


def _check(home: Path) -> Toolkit:
    try:
        answer = subprocess.run([home / "bin" / "nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolkitNotFound(f"{home}/bin/nvcc does not run: {error}") from error
    release = re.search(r"release (\d+)\.(\d+)", answer)
    if release is None:
        raise ToolkitNotFound(f"{home}/bin/nvcc --version names no release")
    version = ".".join(release.groups())
    if tuple(map(int, release.groups())) < MINIMUM_VERSION:
        raise ToolkitNotFound(f"nvcc {version} in {home} is too old: C++20 needs {MINIMUM_VERSION[0]}.0")
    if not any((home / library).exists() for library in _STATIC_RUNTIME):
        raise ToolkitNotFound(f"{home} has no libcudart_static.a")
    return Toolkit(home, version)
