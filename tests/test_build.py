"""The libraries keep their promises to the loader: any torch from 2.11, any Python from 3.10, with or without CUDA."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import reprocuda

PACKAGE = Path(reprocuda.__file__).resolve().parent
LIBRARIES = sorted(PACKAGE.glob("_C*.so"))

# What a library may ask of the process that loads it.
ALLOWED = [
    r"(aoti_)?torch_\w+",  # the stable ABI: plain C functions
    r"Py\w+",  # the limited API: the file name ends in .abi3.so
    r"\w+@(GLIBC|GLIBCXX|CXXABI|GCC)_[\w.]+",  # the system's runtime
    r"_Z(N[KRO]*|T[VIST])?St\w+",  # libstdc++'s templates, which libtorch exports as well
    r"_ITM_\w+|__gmon_start__|__cxa_finalize",  # optional hooks of the C runtime
]


def undefined_symbols(library: Path) -> list[str]:
    listing = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
    return [line.split()[-1].replace("@@", "@") for line in listing.stdout.splitlines()]


def test_cpu_library_is_built():
    assert "_C.abi3.so" in [library.name for library in LIBRARIES]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_undefined_symbols_are_the_stable_abi_only(library):
    symbols = undefined_symbols(library)
    assert any(symbol.startswith("aoti_torch_") for symbol in symbols)  # nm did list something
    foreign = [symbol for symbol in symbols if not any(re.fullmatch(pattern, symbol) for pattern in ALLOWED)]
    assert foreign == []


@pytest.mark.parametrize("symbol", ["_ZN2at6Tensor4sumEv", "_ZN3c1010TensorImplC2Ev", "cudaMalloc", "omp_get_wtime"])
def test_symbol_rule_bites(symbol):
    assert not any(re.fullmatch(pattern, symbol) for pattern in ALLOWED)


@pytest.mark.parametrize(("isa", "is_known"), [("", True), ("portable", True), ("AVX2", False), ("sse", False)])
def test_instruction_set_is_one_that_we_know(isa, is_known):
    environment = {**os.environ, "REPROCUDA_CPU_ISA": isa, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", "import reprocuda"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (run.returncode == 0) == is_known, run.stderr
    if not is_known:
        message = f"ValueError: REPROCUDA_CPU_ISA must be portable, avx2 or avx512, not '{isa}'"
        assert run.stderr.splitlines()[-1] == message


def test_build_info_says_what_and_why():
    info = reprocuda.build_info()
    assert info["torch"] == torch.__version__
    assert info["torch_target"] == "2.11"
    assert info["compiler"]
    built = (PACKAGE / "_C_cuda.abi3.so").exists()
    assert built == (info["why_no_cuda"] is None) == (info["cuda_archs"] is not None)
    assert info["cuda_loaded"] == (info["why_cuda_not_loaded"] is None)
    if torch.version.cuda is None:
        assert not info["cuda_loaded"]


def run_setup(arguments: list[str], **environment: str) -> subprocess.CompletedProcess:
    """setup.py of this checkout, asked only for its name: it chooses the toolkit before it does anything."""
    root = PACKAGE.parent
    return subprocess.run(
        [sys.executable, "setup.py", *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def test_missing_toolkit_fails_loudly_when_demanded(tmp_path):
    tools = {name: str(Path(shutil.which(name)).parent) for name in ("c++", "g++")}
    environment = {"PATH": ":".join(dict.fromkeys(tools.values())), "CUDA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    demanded = run_setup(["--name"], REPROCUDA_CUDA="1", **environment)
    assert demanded.returncode != 0
    assert "REPROCUDA_CUDA=1, but" in demanded.stderr
    optional = run_setup(["--name"], REPROCUDA_CUDA="auto", **environment)
    assert optional.stdout.strip().endswith("reprocuda"), optional.stderr


def test_unknown_choice_is_refused(tmp_path):
    refused = run_setup(["--name"], REPROCUDA_CUDA="yes", PATH="/usr/bin:/bin", HOME=str(tmp_path))
    assert refused.returncode != 0
    assert "REPROCUDA_CUDA must be auto, 0 or 1" in refused.stderr


def test_import_without_a_library_says_what_to_do(tmp_path):
    copy = tmp_path / "reprocuda"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    command = [sys.executable, "-c", "import reprocuda"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "make build" in run.stderr
