"""Loads the compiled libraries, registering their operators with torch, and says what they are."""

import importlib
import json
from pathlib import Path

import torch

_FOLDER = Path(__file__).resolve().parent


def _read_build_info() -> dict:
    path = _FOLDER / "_build_info.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _load_cpu() -> None:
    try:
        importlib.import_module("reprocuda._C")
    except ModuleNotFoundError as error:
        if error.name != "reprocuda._C":
            raise
        raise ImportError(f"no library is built in {_FOLDER}: run `make build` or `pip install .`") from error


def _load_cuda() -> str | None:
    """Loads _C_cuda where torch has CUDA; returns why it was not loaded.

    A library that is there and does not load raises: CUDA tensors would silently go to torch's own kernels.
    """
    library = _FOLDER / "_C_cuda.abi3.so"
    if not library.exists():
        return _read_build_info().get("why_no_cuda") or f"{library} does not exist"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} has no CUDA"
    torch.ops.load_library(str(library))
    return None


_load_cpu()
_WHY_NO_CUDA = _load_cuda()


def build_info() -> dict:
    """How this reprocuda was built and which of its libraries this process loaded.

    Returns:
        A dictionary: `compiler`, `machine`, `torch_headers`, `torch_target` (the oldest torch that the libraries run
        under), `cuda_toolkit` and `cuda_archs` (None where CUDA was not built), `why_no_cuda` (None where it was),
        `cuda_loaded`, `why_cuda_not_loaded` and `torch` (the running version).

    Example:
        >>> import reprocuda
        >>> reprocuda.build_info()["torch_target"]
        '2.11'
    """
    return {
        **_read_build_info(),
        "cuda_loaded": _WHY_NO_CUDA is None,
        "why_cuda_not_loaded": _WHY_NO_CUDA,
        "torch": torch.__version__,
    }
