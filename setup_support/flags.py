"""Compiler flags, each with its reason, shared by the package and the native test modules."""

from pathlib import Path

STABLE_ABI = "-DTORCH_TARGET_VERSION=0x020b000000000000"  # one library for every torch from 2.11

# Arithmetic must be the one written: no reordering around a change of rounding mode, no fused multiply-add. No -march:
# files that use vector instructions name them by pragma and are chosen at run time.
HOST_ARITHMETIC = ["-frounding-math", "-ffp-contract=off"]

# Messages that name a source file name it as the repository does, wherever the build was.
RELATIVE_PATHS = f"-ffile-prefix-map={Path(__file__).resolve().parents[1]}/="

HOST = ["-std=c++20", "-O3", "-g0", "-fvisibility=hidden", RELATIVE_PATHS, *HOST_ARITHMETIC]

DEVICE = [
    "-std=c++20",
    "-O3",
    "--fmad=false",  # as -ffp-contract=off: a fused a * b + c would differ from the CPU's
    "--expt-relaxed-constexpr",
    "--expt-extended-lambda",
    "-Xcompiler",
    ",".join(["-fvisibility=hidden", *HOST_ARITHMETIC]),
]

# Ampere and Ada, Hopper; newer devices compile the PTX when a kernel is first loaded.
DEFAULT_CUDA_ARCHS = "8.0;9.0+PTX"
