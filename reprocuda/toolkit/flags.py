"""The switches of torch and the environment that decide whether a run repeats: read, compared, put back.

Also the warning about what no switch decides.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from .._starting import CUBLAS

DETERMINISTIC = "torch.use_deterministic_algorithms"
MATMUL_PRECISION = "torch.set_float32_matmul_precision"
CUDNN_TF32 = "torch.backends.cudnn.allow_tf32"
FILL = "torch.utils.deterministic.fill_uninitialized_memory"
_MIXED = "mixed with fp32_precision"
_INDUCTOR = "TORCHINDUCTOR_DETERMINISTIC"
_set_by_us: set[str] = set()


class ReproducibilityWarning(UserWarning):
    """Two runs may differ, and a running process can no longer change it, or the caller has to decide."""


class _Switch(NamedTuple):
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    holds: Callable[[], bool] = lambda: True  # what is read is all that there is to it


def _attribute(path: str) -> _Switch:
    *owners, name = path.split(".")[1:]

    def owner() -> Any:
        return functools.reduce(getattr, owners, torch)

    return _Switch(lambda: getattr(owner(), name), lambda value: setattr(owner(), name, value))


def _read_deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _write_deterministic(value: tuple[bool, bool]) -> None:
    """torch.use_deterministic_algorithms without its import of the compiler, seconds that few programs need.

    Where the compiler is imported later, it takes its own switch from the environment.
    """
    mode, warn_only = value
    if "torch._inductor.config" in sys.modules:
        torch.use_deterministic_algorithms(mode, warn_only=warn_only)
    else:
        torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)
        if mode and _INDUCTOR not in os.environ:
            os.environ[_INDUCTOR] = "1"
            _set_by_us.add(_INDUCTOR)
    if not mode and _INDUCTOR in _set_by_us:
        os.environ.pop(_INDUCTOR, None)
        _set_by_us.discard(_INDUCTOR)


def _fp32_precision(backend: str, operation: str) -> _Switch:
    return _Switch(
        lambda: torch._C._get_fp32_precision_getter(backend, operation),
        lambda value: torch._C._set_fp32_precision_setter(backend, operation, value),
    )


def _unless_mixed(read: Callable[[], Any]) -> Any:
    """What an older precision switch says; None where it raises, because the newer fp32_precision disagrees with it."""
    try:
        return read()
    except RuntimeError:
        return None


def _is_tf32(backend: str, operation: str) -> bool:
    return torch._C._get_fp32_precision_getter(backend, operation) == "tf32"


def _read_matmul_precision() -> str:
    """torch.get_float32_matmul_precision, also where it raises: what it holds follows from what disagrees."""
    found = _unless_mixed(torch.get_float32_matmul_precision)
    if found is None:
        agrees = _unless_mixed(torch._C._get_cublas_allow_tf32) is not None
        if agrees != _is_tf32("cuda", "matmul"):
            return "highest"  # the one that is not TF32
        found = "medium" if _is_tf32("mkldnn", "matmul") else "high"
    return found


def _read_cudnn_tf32() -> bool | str:
    """torch.backends.cudnn.allow_tf32, or _MIXED where it raises for any value, since fp32_precision disagrees with
    itself.
    """
    found = _unless_mixed(torch._C._get_cudnn_allow_tf32)
    if found is None:
        newer = _is_tf32("cuda", "conv")
        found = not newer if newer == _is_tf32("cuda", "rnn") else _MIXED
    return found


def _write_cudnn_tf32(value: bool | str) -> None:
    if value != _MIXED:
        torch.backends.cudnn.allow_tf32 = value


def _agree(*reads: Callable[[], Any]) -> Callable[[], bool]:
    return lambda: all(_unless_mixed(read) is not None for read in reads)


def _half_precision(dtype: str) -> _Switch:
    """Sums of half-precision products in half precision: (allowed, allowed with split-K)."""
    name = f"allow_{dtype}_reduced_precision_reduction"
    matmul = torch.backends.cuda.matmul
    return _Switch(
        lambda: (getattr(matmul, name), getattr(matmul, f"{name}_split_k")),
        lambda value: setattr(matmul, name, tuple(value)),
    )


def _attention(name: str) -> _Switch:
    backend = torch.backends.cuda
    return _Switch(getattr(backend, f"{name}_sdp_enabled"), getattr(backend, f"enable_{name}_sdp"))


# In the order in which they are written: what sets others comes before them.
_SWITCHES: dict[str, _Switch] = {
    DETERMINISTIC: _Switch(_read_deterministic, _write_deterministic),
    **{
        name: _attribute(name)
        for name in (
            FILL,
            "torch.backends.cudnn.enabled",
            "torch.backends.cudnn.deterministic",
            "torch.backends.cudnn.benchmark",
            "torch.backends.mkldnn.deterministic",
        )
    },
    MATMUL_PRECISION: _Switch(
        _read_matmul_precision,
        torch.set_float32_matmul_precision,
        _agree(torch.get_float32_matmul_precision, torch._C._get_cublas_allow_tf32),
    ),
    CUDNN_TF32: _Switch(_read_cudnn_tf32, _write_cudnn_tf32, _agree(torch._C._get_cudnn_allow_tf32)),
    "torch.backends.fp32_precision": _fp32_precision("generic", "all"),
    "torch.backends.cudnn.fp32_precision": _fp32_precision("cuda", "all"),
    "torch.backends.cuda.matmul.fp32_precision": _fp32_precision("cuda", "matmul"),
    "torch.backends.cudnn.conv.fp32_precision": _fp32_precision("cuda", "conv"),
    "torch.backends.cudnn.rnn.fp32_precision": _fp32_precision("cuda", "rnn"),
    "torch.backends.mkldnn.fp32_precision": _fp32_precision("mkldnn", "all"),
    "torch.backends.mkldnn.matmul.fp32_precision": _fp32_precision("mkldnn", "matmul"),
    "torch.backends.mkldnn.conv.fp32_precision": _fp32_precision("mkldnn", "conv"),
    "torch.backends.mkldnn.rnn.fp32_precision": _fp32_precision("mkldnn", "rnn"),
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": _half_precision("fp16"),
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": _half_precision("bf16"),
    "torch.backends.cuda.enable_flash_sdp": _attention("flash"),
    "torch.backends.cuda.enable_mem_efficient_sdp": _attention("mem_efficient"),
    "torch.backends.cuda.enable_math_sdp": _attention("math"),
    "torch.backends.cuda.enable_cudnn_sdp": _attention("cudnn"),
    "torch.set_default_dtype": _Switch(
        lambda: str(torch.get_default_dtype()).removeprefix("torch."),
        lambda value: torch.set_default_dtype(getattr(torch, value)),
    ),
}


def write(switches: Mapping[str, Any]) -> None:
    """Sets these switches, in the order of the table. What has its value already is not written."""
    with torch.backends.__allow_nonbracketed_mutation():  # as torch's own scopes do, after disable_global_flags() too
        for name, switch in _SWITCHES.items():
            if name in switches and not (switch.holds() and switch.read() == switches[name]):
                switch.write(switches[name])


@functools.cache
def hash_seed() -> int | None:
    """The PYTHONHASHSEED that this interpreter was started with; None if its hashes of strings are random.

    What a script writes into os.environ comes too late and is not counted: an interpreter started with that value is
    asked for one hash, once.
    """
    if not sys.flags.hash_randomization:
        return 0
    text = os.environ.get("PYTHONHASHSEED", "")
    if not text.isdecimal() or not sys.executable:
        return None
    asked = subprocess.run(
        [sys.executable, "-S", "-c", "print(hash('reprocuda'))"], capture_output=True, text=True, check=False
    )
    return int(text) if asked.stdout.strip() == str(hash("reprocuda")) else None


@dataclass(frozen=True)
class Flags:
    """A snapshot of what decides whether a run repeats.

    Attributes:
        switches: torch's, by the name under which a user sets them, in plain types.
        environment: what only a new process can change, or has its own value in each: CUBLAS_WORKSPACE_CONFIG,
            PYTHONHASHSEED as the interpreter was started with, and the number of threads.

    torch has two interfaces to TF32, and its older getters raise where the newer one, fp32_precision, disagrees. Both
    are read and put back, so that afterwards the same getters raise. One thing torch does not show: where convolutions
    and RNNs differ in their fp32_precision, what torch.backends.cudnn.allow_tf32 was last set to. It raises before and
    after, but what it would say once they agree again may be another.
    """

    switches: Mapping[str, Any]
    environment: Mapping[str, Any]

    @staticmethod
    def read() -> Flags:
        """The state of this process now."""
        environment = {
            CUBLAS: os.environ.get(CUBLAS),
            "PYTHONHASHSEED": hash_seed(),
            "torch.get_num_threads()": torch.get_num_threads(),
        }
        return Flags(
            MappingProxyType({name: switch.read() for name, switch in _SWITCHES.items()}), MappingProxyType(environment)
        )

    def apply(self) -> None:
        """Sets every switch of torch to its value here; the environment is left alone."""
        write(self.switches)

    def diff(self, other: Flags) -> dict[str, tuple[Any, Any]]:
        """What differs: name -> (here, there)."""
        ours, theirs = {**self.switches, **self.environment}, {**other.switches, **other.environment}
        return {n: (ours.get(n), theirs.get(n)) for n in {**ours, **theirs} if ours.get(n) != theirs.get(n)}

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """In plain types, for JSON and for torch.load(weights_only=True)."""
        return {"switches": dict(self.switches), "environment": dict(self.environment)}

    @staticmethod
    def from_dict(values: Mapping[str, Mapping[str, Any]]) -> Flags:
        """The inverse of `as_dict`, lists of JSON being the tuples they were."""
        switches = {name: tuple(v) if isinstance(v, list) else v for name, v in values["switches"].items()}
        return Flags(MappingProxyType(switches), MappingProxyType(dict(values["environment"])))

    def __reduce__(self):
        return Flags.from_dict, (self.as_dict(),)
