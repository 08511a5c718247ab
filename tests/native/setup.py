"""Builds the pybind11 modules that the tests import from build/native. They hold no torch, so they see any NumPy array.

reprocuda_numerics binds csrc/numerics; reprocuda_emulation binds the CUDA kernels and launchers, compiled by the host
compiler against the emulated device. That device is a library of its own, reprocuda_emulator: kernels are instrumented
so that it can judge what they do, and it must not be. It supplies the hooks of the sanitizers itself; their libraries
are not linked.
"""

import os
import sys
import sysconfig
from pathlib import Path

import pybind11
from setuptools import Extension, setup
from torch.utils.cpp_extension import BuildExtension  # for its ninja rules: parallel, and it tracks headers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from setup_support import flags  # noqa: E402

os.chdir(ROOT)
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


INSTRUMENTED = [
    "-fsanitize=thread,alignment,bounds,shift,float-cast-overflow",
    "--param=tsan-distinguish-volatile=1",
    "-fno-tree-loop-distribute-patterns",  # a loop that became memset would go unseen
    "-Wno-unknown-pragmas",  # unroll, which only nvcc knows
]


def module(name: str, pattern: str, *flags_: str, link: tuple[str, ...] = ()) -> Extension:
    return Extension(
        name,
        sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)),
        include_dirs=[str(ROOT / "csrc"), str(ROOT), pybind11.get_include()],
        extra_compile_args={"cxx": [*flags.HOST, *flags_]},
        extra_link_args=["-pthread", *link],
        language="c++",
    )


emulator = module("reprocuda_emulator", "csrc/emulation/*.cpp", "-fvisibility=default")
emulator_file = emulator.name + sysconfig.get_config_var("EXT_SUFFIX")
modules = [
    module("reprocuda_numerics", "tests/native/numerics*.cpp"),
    emulator,
    module(
        "reprocuda_emulation",
        "tests/native/emulation*.cpp",
        "-DREPROCUDA_EMULATION",
        *INSTRUMENTED,
        link=("-Lbuild/native", f"-l:{emulator_file}", "-Wl,-rpath,$ORIGIN"),
    ),
]
setup(
    name="reprocuda-native-tests",
    packages=[],
    ext_modules=[extension for extension in modules if extension.sources],
    cmdclass={"build_ext": BuildExtension},
    options={"build_ext": {"build_lib": "build/native", "build_temp": "build/native-objects"}},
)
