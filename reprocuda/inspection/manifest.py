"""manifest(): everything that pins a run, in one JSON."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..dispatch.status import status
from ..plain_json import dumps
from ..toolkit.flags import DETERMINISTIC, Flags
from ..toolkit.seeding import fork_rng, rng_state
from .difference import Difference, compare_documents
from .digests import digest, file_digest, path_digest, state_digest
from .environment import environment, packages

FORMAT = "reprocuda-manifest"
VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """What pins a run. `document` is what its JSON holds."""

    document: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as JSON."""
        Path(path).write_text(str(self) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Manifest:
        """Reads what `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is no manifest, or one of a newer version.
        """
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"reprocuda.Manifest.load: {os.fspath(path)} is no JSON: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            text = f'{os.fspath(path)} is no manifest; expected "format": "{FORMAT}"'
            raise ValueError(f"reprocuda.Manifest.load: {text}")
        if document.get("version") != VERSION:
            text = f"{os.fspath(path)} is of version {document.get('version')!r}; this reprocuda reads {VERSION}"
            raise ValueError(f"reprocuda.Manifest.load: {text}")
        return Manifest(document)

    def diff(self, other: Manifest) -> tuple[Difference, ...]:
        """What differs, sorted by how likely it changes bits. The time of writing does not count."""
        return compare_documents(self.document, other.document)

    def __str__(self) -> str:
        return dumps(self.document)


def manifest(
    model: torch.nn.Module | Mapping[str, Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    data: Any = None,
    seed: int | None = None,
    *,
    items: int = 0,
    **extra: Any,
) -> Manifest:
    """Writes down what pins this run: two runs with equal manifests started from the same point.

    Args:
        model: a module, or its state_dict; each entry is hashed by dtype, shape and bits.
        optimizer: its state and settings are hashed.
        data: a path to a file or folder, a tensor, an array, a dataset, or a dict of these by name.
        seed: the seed you gave; None: the latest of `seed_everything`, where there is one.
        items: how many of the first items of a dataset to hash, with generators that are seeded for it and put back
            after; 0: only its class and length.
        **extra: what else belongs to the run (hyperparameters): plain values, kept as they are (a NaN or an
            infinity as the string "nan", "inf" or "-inf", because JSON has none), or tensors, hashed.

    Returns:
        A `Manifest`: `save(path)`, `reprocuda.Manifest.load(path)`, `diff(other)`; its text is JSON. It holds seeds and
        digests of every generator's state, flags, versions, processors, threads, environment variables, the operators
        that are replaced, native and refused, the script and its arguments, the working directory's commit, and the
        hashes.

    Raises:
        TypeError: an argument that has no stable hash.
        ValueError: items is negative.
        FileNotFoundError: there is nothing at a path in data.

    It changes nothing: no generator moves and CUDA is not initialised. Hashing takes about a second for two gigabytes.

    Example:
        >>> import torch, reprocuda
        >>> seeds = reprocuda.seed_everything(7)
        >>> model = torch.nn.Linear(2, 1)
        >>> before = reprocuda.manifest(model, rate=0.1)
        >>> before.document["seeds"]["seed"], before.document["extra"]
        (7, {'rate': 0.1})
        >>> with torch.no_grad():
        ...     _ = model.bias.add_(1)
        >>> [difference.name for difference in before.diff(reprocuda.manifest(model, rate=0.1))]
        ['weights.sha256', 'weights.entries.bias']
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    script = Path(main) if main and Path(main).is_file() else None
    return describe(model, optimizer, data, seed, items=items, extra=extra, script=script, arguments=sys.argv[1:])


def describe(
    model: Any = None,
    optimizer: Any = None,
    data: Any = None,
    seed: int | None = None,
    *,
    items: int = 0,
    extra: Mapping[str, Any] | None = None,
    script: Path | None = None,
    arguments: list[str] | None = None,
    generators: bool = True,
) -> Manifest:
    """`manifest`, for a script that is not this process's main module.

    Args:
        script: the script's file.
        arguments: what it was given.
        generators: whether this process is the run, so that the states of its generators belong to it.
    """
    if items < 0:
        raise ValueError(f"reprocuda.manifest: items is {items}; expected a number from 0")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "seeds": _seeds(seed) if generators else None,
        "flags": Flags.read().as_dict(),
        "operators": _operators(),
        "script": None if script is None else {"name": script.name, "sha256": file_digest(script)},
        "arguments": arguments,
        "git": git_state(),
        "weights": _weights(model),
        "optimizer": _optimizer(optimizer),
        "data": _data(data, items),
        "extra": {name: _plain(name, value) for name, value in (extra or {}).items()},
        "environment": environment(),
        "packages": packages(),
    }
    return Manifest(json.loads(dumps(document)))  # as it will be read again: tuples are lists


def _seeds(seed: int | None) -> dict[str, Any]:
    state = rng_state()
    given = state.pop("seeded")
    torch_seed = state.pop("torch_seed")
    return {
        "seed": seed if seed is not None or given is None else given[0],
        "torch": torch_seed,
        "states": {name: digest(value) for name, value in state.items()},
    }


def _operators() -> dict[str, list[str]]:
    found = status()

    def in_state(*states: str) -> list[str]:
        return [f"{o.name} ({o.device})" for o in found.operators if o.state in states]

    on, warn_only = Flags.read().switches[DETERMINISTIC]
    return {
        "replaced": in_state("ours"),
        "shadowed": in_state("shadowed"),
        "native": in_state("off", "no kernels"),
        "refused": list(found.would_raise) if on and not warn_only else [],
    }


def git_state() -> dict[str, Any] | None:
    """The commit of the working directory and a hash of what was changed since; None where there is no repository."""

    def ask(*arguments: str) -> bytes | None:
        try:
            answer = subprocess.run(["git", *arguments], capture_output=True, check=False, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout if answer.returncode == 0 else None

    commit = ask("rev-parse", "HEAD")
    if commit is None:
        return None
    changes = ask("diff", "HEAD", "--binary", "--no-ext-diff", "--no-color") or b""
    return {"commit": commit.decode().strip(), "changes_sha256": digest(changes) if changes else None}


def _weights(model: Any) -> dict[str, Any] | None:
    if model is None:
        return None
    state = model.state_dict() if isinstance(model, torch.nn.Module) else model
    if not isinstance(state, Mapping):
        text = f"model is of type {type(model).__name__}; expected a torch.nn.Module or its state_dict"
        raise TypeError(f"reprocuda.manifest: {text}")
    return state_digest(state)


def _optimizer(optimizer: Any) -> dict[str, Any] | None:
    if optimizer is None:
        return None
    if not hasattr(optimizer, "state_dict"):
        raise TypeError(f"reprocuda.manifest: optimizer is of type {type(optimizer).__name__}; it has no state_dict")
    state = optimizer.state_dict()
    groups = [{name: v for name, v in group.items() if name != "params"} for group in state.get("param_groups", ())]
    return {
        "class": type(optimizer).__name__,
        "groups": [{name: _plain(f"optimizer's {name}", v) for name, v in group.items()} for group in groups],
        "sha256": digest(state),
    }


def _data(data: Any, items: int) -> dict[str, Any] | None:
    if data is None:
        return None
    if isinstance(data, Mapping):
        return {str(name): _one(value, items) for name, value in data.items()}
    return {"data": _one(data, items)}


def _one(data: Any, items: int) -> dict[str, Any]:
    if isinstance(data, (str, os.PathLike)):
        return path_digest(data)
    if isinstance(data, (torch.Tensor, np.ndarray)):
        return {"sha256": digest(data), "shape": list(data.shape), "dtype": str(data.dtype)}
    if not hasattr(data, "__getitem__") and not hasattr(data, "__iter__"):
        text = f"data is of type {type(data).__name__}; expected a path, tensor, array, dataset, or a dict of these"
        raise TypeError(f"reprocuda.manifest: {text}")
    found: dict[str, Any] = {"class": type(data).__name__, "length": len(data) if hasattr(data, "__len__") else None}
    if items:
        with fork_rng(0):
            first = _first(data, items)
        found |= {"items": len(first), "sha256": digest(first)}
    return found


def _first(data: Any, items: int) -> list[Any]:
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return [data[number] for number in range(min(items, len(data)))]
    return [item for _, item in zip(range(items), data, strict=False)]


def _plain(name: str, value: Any) -> Any:
    """A value that JSON holds, tensors and arrays by their hash."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return {"sha256": digest(value), "shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return _plain(name, value.item())
    if isinstance(value, Mapping):
        return {str(key): _plain(name, element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(name, element) for element in value]
    if isinstance(value, (os.PathLike, torch.dtype, torch.device)):
        return str(value)
    text = f"{name} is of type {type(value).__name__}; expected plain values, tensors and arrays"
    raise TypeError(f"reprocuda.manifest: {text}")
