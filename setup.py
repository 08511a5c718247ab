"""Builds reprocuda's two libraries: _C (schemas and CPU; loads everywhere) and _C_cuda (wherever a toolkit is found).

REPROCUDA_CUDA=auto|0|1 chooses _C_cuda: `auto` builds it wherever a CUDA toolkit is found, with or without a GPU or a
CUDA torch; `0` never; `1` fails where there is no toolkit. TORCH_CUDA_ARCH_LIST chooses the architectures.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch
from setuptools import setup
from torch.utils import cpp_extension

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))
from setup_support import flags  # noqa: E402
from setup_support.toolkit import Toolkit, ToolkitNotFound, find_toolkit  # noqa: E402

os.chdir(ROOT)
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # ninja is beside python


def sources(*patterns: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))


def choose_toolkit() -> tuple[Toolkit | None, str]:
    """The toolkit to build _C_cuda with, or None and the reason."""
    choice = os.environ.get("REPROCUDA_CUDA", "auto")
    if choice not in ("auto", "0", "1"):
        raise SystemExit(f"REPROCUDA_CUDA must be auto, 0 or 1, not {choice!r}")
    if choice == "0":
        return None, "REPROCUDA_CUDA=0"
    if not sources("csrc/cuda/*.cu"):
        return None, "these sources have no CUDA part"
    try:
        return find_toolkit(), ""
    except ToolkitNotFound as error:
        if choice == "1":
            raise SystemExit(f"REPROCUDA_CUDA=1, but {error}") from error
        return None, str(error)


def cpu_library():
    return cpp_extension.CppExtension(
        "reprocuda._C",
        sources("csrc/ops/*.cpp", "csrc/cpu/**/*.cpp"),
        include_dirs=[str(ROOT / "csrc")],
        extra_compile_args={"cxx": [*flags.HOST, flags.STABLE_ABI]},
        py_limited_api=True,
    )


def cuda_library(toolkit: Toolkit):
    """A plain CppExtension: a CUDAExtension would link libtorch_cuda, which a CPU-only torch does not have."""
    cpp_extension.CUDA_HOME = str(toolkit.home)  # torch leaves it unset on CPU builds and trusts wrapper scripts
    torch.version.cuda = toolkit.version  # else torch tracks no headers for nvcc, or insists on a toolkit like its own
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", flags.DEFAULT_CUDA_ARCHS)
    define = ["-DUSE_CUDA", flags.STABLE_ABI]
    return cpp_extension.CppExtension(
        "reprocuda._C_cuda",
        sources("csrc/cuda/*.cu", "csrc/cuda/*.cpp"),
        include_dirs=[str(ROOT / "csrc"), *toolkit.include_dirs],
        library_dirs=[str(toolkit.library_dir)],
        # libtorch, whole: where torch has CUDA it brings the stream functions in, and nothing here names it before then
        extra_link_args=["-Wl,--no-as-needed", "-ltorch", "-lcudart_static", "-lrt", "-lpthread", "-ldl"],
        extra_compile_args={"cxx": [*flags.HOST, *define], "nvcc": [*flags.DEVICE, *define]},
        py_limited_api=True,
    )


class BuildLibraries(cpp_extension.BuildExtension):
    """Also writes _build_info.json beside the libraries, for `reprocuda.build_info()`."""

    def run(self) -> None:
        super().run()
        folder = Path(self.get_ext_fullpath("reprocuda._C")).parent
        (folder / "_build_info.json").write_text(json.dumps(BUILD_INFO, indent=2) + "\n")
        print("reprocuda was built:", json.dumps(BUILD_INFO, indent=2))


TOOLKIT, NO_CUDA_REASON = choose_toolkit()
LIBRARIES = [cpu_library()] + ([cuda_library(TOOLKIT)] if TOOLKIT else [])
COMPILER = subprocess.run([cpp_extension.get_cxx_compiler(), "--version"], capture_output=True, text=True).stdout
BUILD_INFO = {
    "compiler": COMPILER.partition("\n")[0],
    "machine": platform.machine(),
    "torch_headers": torch.__version__,
    "torch_target": "2.11",
    "cuda_toolkit": TOOLKIT.version if TOOLKIT else None,
    "cuda_archs": os.environ["TORCH_CUDA_ARCH_LIST"] if TOOLKIT else None,
    "why_no_cuda": NO_CUDA_REASON or None,
}

setup(
    ext_modules=LIBRARIES,
    cmdclass={"build_ext": BuildLibraries},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
