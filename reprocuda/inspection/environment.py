"""What a run stands on: versions, processors, threads, switches; and which of it makes runs differ."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import torch

from .._library import build_info
from .._starting import CUBLAS, CUBLAS_DETERMINISTIC
from ..dispatch.status import status
from ..toolkit.flags import CUDNN_TF32, DETERMINISTIC, FILL, MATMUL_PRECISION, Flags
from .finding import Finding

_VARIABLES = (
    "PYTHONHASHSEED", CUBLAS, "CUBLASLT_WORKSPACE_SIZE", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS", "NCCL_NVLS_ENABLE", "OMP_NUM_THREADS", "OMP_DYNAMIC", "OMP_SCHEDULE", "MKL_NUM_THREADS",
    "MKL_DYNAMIC", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_NUM_THREADS", "ONEDNN_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY", "TORCHINDUCTOR_DETERMINISTIC", "PYTORCH_CUDA_ALLOC_CONF", "WORLD_SIZE", "RANK",
)  # fmt: skip
# Packages whose version is pinned wherever they are installed; others where the process has imported them.
_PACKAGES = (
    "numpy", "torch", "reprocuda", "triton", "torchvision", "torchaudio", "transformers", "accelerate", "lightning",
    "pytorch-lightning", "datasets", "tokenizers", "safetensors", "peft", "timm", "torch-geometric", "torch-scatter",
    "pyg-lib", "flash-attn", "xformers", "bitsandbytes", "deepspeed",
)  # fmt: skip


@functools.cache
def processor() -> str:
    """The CPU's model name."""
    information = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", information.read_text()) if information.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


def gpus() -> list[dict[str, str]]:
    """Name, compute capability and driver of every GPU, without initialising CUDA in this process.

    CUBLAS_WORKSPACE_CONFIG has no effect once CUDA is initialised: looking must not spoil that.
    """
    if torch.cuda.is_initialized():
        count = torch.cuda.device_count()
        properties = [torch.cuda.get_device_properties(number) for number in range(count)]
        return [{"name": p.name, "capability": f"{p.major}.{p.minor}", "driver": _driver()} for p in properties]
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    rows = [line.split(", ") for line in answer.stdout.splitlines()] if answer.returncode == 0 else []
    return [dict(zip(("name", "capability", "driver"), row, strict=True)) for row in rows if len(row) == 3]


def _driver() -> str:
    version = Path("/proc/driver/nvidia/version")
    found = re.search(r"Kernel Module\D*([\d.]+)", version.read_text()) if version.exists() else None
    return found[1] if found else ""


def packages() -> dict[str, str]:
    """The versions of the installed packages that decide numbers, and of all that this process has imported."""
    wanted = set(_PACKAGES)
    imported = {name.partition(".")[0] for name in sys.modules}
    for module, distributions in importlib.metadata.packages_distributions().items():
        if module in imported:
            wanted.update(distributions)
    versions = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.name
        if name in wanted or name.lower().startswith("nvidia-"):
            versions.setdefault(name, distribution.version)
    return dict(sorted(versions.items(), key=lambda item: item[0].lower()))


def host_environment() -> dict[str, Any]:
    """What of `environment` costs no look at GPUs: versions, the CPU, threads, variables."""
    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": {
            "version": torch.__version__,
            "git": torch.version.git_version,
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
            "cudnn": torch.backends.cudnn.version() if torch.version.cuda else None,
            "blas": blas[1] if blas else None,
        },
        "numpy": numpy.__version__,
        "cpu": {
            "model": processor(),
            "machine": platform.machine(),
            "isa": torch.backends.cpu.get_cpu_capability(),
            "cores": os.cpu_count(),
        },
        "threads": {"intra_op": torch.get_num_threads(), "inter_op": torch.get_num_interop_threads()},
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def environment() -> dict[str, Any]:
    """Everything about this process's surroundings that can change bits, in plain types for JSON."""
    cards = gpus()
    return {
        **host_environment(),
        "gpus": [{key: card[key] for key in ("name", "capability")} for card in cards],
        "driver": cards[0]["driver"] if cards else None,
        "reprocuda": build_info(),
    }


def _setting(severity: str, subject: str, message: str, cure: str = "") -> Finding:
    return Finding(severity, "environment", subject, message, cure)


def check_environment(facts: dict[str, Any]) -> tuple[Finding, ...]:
    """What in this process and around it makes two runs differ, gravest first within each topic."""
    flags = Flags.read()
    return (
        *_check_libraries(facts["reprocuda"]),
        *_check_flags(flags),
        *_check_cuda(flags, facts),
        *_check_hashes(flags),
        *_check_threads(facts),
    )


def _check_libraries(build: dict[str, Any]) -> Iterator[Finding]:
    if build["cuda_loaded"]:
        yield _setting("ok", "libraries", "reprocuda's CPU and CUDA libraries are loaded")
    elif torch.version.cuda is None:
        yield _setting("ok", "libraries", "reprocuda's CPU library is loaded; this torch has no CUDA")
    else:
        text = f"torch has CUDA, but reprocuda's CUDA library is not loaded: {build['why_cuda_not_loaded']}"
        yield _setting("problem", "libraries", text, "install a wheel with CUDA, or build with REPROCUDA_CUDA=1")
    found = status()
    states = {state: [o.name for o in found.operators if o.state == state] for state in ("ours", "shadowed", "off")}
    if states["shadowed"]:
        text = f"another override lies above ours: {', '.join(sorted(set(states['shadowed'])))}"
        yield _setting("warning", "operators", text, "call reprocuda.enable() after the other library")
    if states["ours"]:
        yield _setting("ok", "operators", f"replaced now: {', '.join(sorted(set(states['ours'])))}")
        if not found.compile_forced_eager:
            yield _setting("note", "torch.compile", found.compile_bypass, "reprocuda.enable(strict=True)")
    elif states["off"]:
        text = "torch's own sums by index are in use: on CUDA their order changes from run to run"
        yield _setting("note", "operators", text, "reprocuda.enable(), or reprocuda.reproducible(seed)")


def _check_flags(flags: Flags) -> Iterator[Finding]:
    on, warn_only = flags.switches[DETERMINISTIC]
    if not on:
        text = "off: torch may use faster operators that do not repeat on CUDA"
        yield _setting("note", DETERMINISTIC, text, "reprocuda.reproducible(seed), or `python -m reprocuda run`")
    elif warn_only:
        text = "on, warning only: what has no deterministic form runs all the same"
        yield _setting("note", DETERMINISTIC, text, 'reprocuda.reproducible(seed, mode="debug") raises')
    else:
        yield _setting("ok", DETERMINISTIC, "on: what has no deterministic form raises")
    if on and not flags.switches[FILL]:
        text = "off: a read of memory that nothing wrote shows other numbers in each run"
        yield _setting("note", FILL, text, f"{FILL} = True, while looking for such a read")


def _check_cuda(flags: Flags, facts: dict[str, Any]) -> Iterator[Finding]:
    if flags.switches["torch.backends.cudnn.benchmark"]:
        text = "on: cuDNN times its algorithms and may choose another in each run"
        yield _setting("warning", "torch.backends.cudnn.benchmark", text, "torch.backends.cudnn.benchmark = False")
    if torch.version.cuda is None:
        return
    on = flags.switches[DETERMINISTIC][0]
    workspace = os.environ.get(CUBLAS)
    if workspace in CUBLAS_DETERMINISTIC:
        yield _setting("ok", CUBLAS, f"{workspace}: matrix products repeat")
    else:
        text = f"{'unset' if workspace is None else workspace}: matrix products on several streams may not repeat"
        text += ", and torch refuses them under its deterministic flag" if on else ""
        cure = f"{CUBLAS}=:4096:8 before CUDA is initialised; `python -m reprocuda run` sets it"
        yield _setting("problem" if on else "note", CUBLAS, text, cure)
    if flags.switches[CUDNN_TF32] is not False or flags.switches[MATMUL_PRECISION] != "highest":
        text = "TF32 is allowed in convolutions or products: runs repeat on one model of GPU, and differ between models"
        cure = "reprocuda.reproducible(seed, tf32=False), where GPUs of several models have to agree"
        yield _setting("note", "TF32", text, cure)
    for name in ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"):
        if name in os.environ:
            yield _setting("note", name, f"{os.environ[name]}: it overrides torch's own switches", f"unset {name}")
    models = {card["name"] for card in facts["gpus"]}
    if len(models) > 1:
        text = f"GPUs of several models: {', '.join(sorted(models))}; their random numbers and products differ"
        yield _setting("warning", "GPUs", text, "CUDA_VISIBLE_DEVICES with GPUs of one model")
    if len(facts["gpus"]) > 1 and "NCCL_ALGO" not in os.environ:
        text = "unset: NCCL chooses how to add up by size and topology, so another node may add in another order"
        yield _setting("note", "NCCL_ALGO", text, "NCCL_ALGO=Ring (or Tree), NCCL_PROTO=Simple on every node")
    if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
        yield _setting("note", "CUDA_LAUNCH_BLOCKING", "1: it hides races between streams", "unset it for real runs")


def _check_hashes(flags: Flags) -> Iterator[Finding]:
    effective, written = flags.environment["PYTHONHASHSEED"], os.environ.get("PYTHONHASHSEED")
    if effective is not None:
        yield _setting("ok", "PYTHONHASHSEED", f"{effective}: hash() of strings and the order of their sets repeat")
    elif written is not None and written != "random":
        text = f"{written} was written after this interpreter had started, and has no effect in it"
        yield _setting(
            "warning", "PYTHONHASHSEED", text, "`python -m reprocuda run SCRIPT`, or set it before python starts"
        )
    else:
        text = "unset: hash() of strings and the order of their sets change from run to run"
        yield _setting("note", "PYTHONHASHSEED", text, "`python -m reprocuda run SCRIPT`")


def _check_threads(facts: dict[str, Any]) -> Iterator[Finding]:
    threads = facts["threads"]["intra_op"]
    if "OMP_NUM_THREADS" in os.environ:
        yield _setting("ok", "OMP_NUM_THREADS", f"{os.environ['OMP_NUM_THREADS']}; torch uses {threads} threads")
    else:
        text = f"unset: torch takes {threads} threads here and another number on another machine, and its sums on the "
        text += "CPU follow the number of threads"
        yield _setting("note", "OMP_NUM_THREADS", text, "OMP_NUM_THREADS=N, or torch.set_num_threads(N)")
    if os.environ.get("OMP_DYNAMIC", "").lower() in ("true", "1"):
        text = "true: the number of threads follows the machine's load"
        yield _setting("warning", "OMP_DYNAMIC", text, "OMP_DYNAMIC=false")
    if facts["torch"]["blas"] == "mkl" and "MKL_CBWR" not in os.environ:
        text = "unset: MKL chooses its code by the CPU's model, and products follow it"
        yield _setting(
            "note", "MKL_CBWR", text, "MKL_CBWR=COMPATIBLE where CPUs of several models have to agree (slower)"
        )
