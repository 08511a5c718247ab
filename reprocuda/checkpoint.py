"""Checkpoints that a run can be resumed from, bit for bit: every generator, the loader's position and torch's flags
beside the user's own objects.
"""

from __future__ import annotations

import os
import pickle
import secrets
import textwrap
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .dispatch.scopes import open_now
from .toolkit.flags import Flags, ReproducibilityWarning
from .toolkit.seeding import rng_state, set_rng_state

_VERSION = 1
_KEY = "reprocuda"


def _surroundings() -> dict[str, Any]:
    """What decides the bits and no load can bring back."""
    gpus = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    operators = sorted(f"{name} on {device}" for names, device, _ in open_now() for name in names)
    return {"torch": str(torch.__version__), "GPUs": gpus, "operators enabled": operators}


def save(path: str | os.PathLike, objects: Mapping[str, Any]) -> None:
    """Saves objects, every generator of random numbers and torch's flags in one file.

    The file appears whole or not at all: it is written beside its place, flushed to the disk and renamed.

    Args:
        path: the file; one that is there is replaced.
        objects: by names of your choice: whatever has `state_dict()` (model, optimizer, scheduler, scaler, a
            `reprocuda.data.loader`), and plain values (step, best loss), which `load` returns.

    Raises:
        TypeError: objects is no dictionary with names for keys.
        OSError: the file cannot be written; one that was there before still is.

    A `ReproducibilityWarning` names what the file holds that `load` would refuse: NumPy's numbers and arrays, objects
    of classes of your own. `load(weights_only=False)` reads them.

    Cost: torch.save's, and a flush to the disk.

    Example:
        >>> import tempfile, torch, reprocuda
        >>> model, path = torch.nn.Linear(2, 2), tempfile.mkdtemp() + "/run.pt"
        >>> reprocuda.checkpoint.save(path, {"model": model, "step": 3})
        >>> first = torch.rand(2)
        >>> reprocuda.checkpoint.load(path, {"model": model})
        {'step': 3}
        >>> torch.equal(torch.rand(2), first)
        True
    """
    _check_names("save", objects)
    states = {name: thing.state_dict() for name, thing in objects.items() if hasattr(thing, "state_dict")}
    content = {
        _KEY: {"version": _VERSION, "rng": rng_state(), "flags": Flags.read().as_dict(), **_surroundings()},
        "states": states,
        "values": {name: thing for name, thing in objects.items() if name not in states},
    }
    path = Path(os.path.realpath(path))  # where path is a link, the file that it leads to is replaced
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)
    if unsafe:
        warnings.warn(
            f"reprocuda.checkpoint.save: objects hold {', '.join(sorted(unsafe))}, which load refuses but for "
            f"weights_only=False.{_which(objects, states)} Save plain numbers (float(x)), lists and tensors",
            ReproducibilityWarning,
            stacklevel=2,
        )


def _which(objects: Mapping[str, Any], states: Mapping[str, Any]) -> str:
    """The plain values among the objects that are of other classes than plain ones."""
    found = [
        f"objects[{name!r}] is of type {type(thing).__name__}"
        for name, thing in objects.items()
        if name not in states and type(thing).__module__ != "builtins" and not isinstance(thing, torch.Tensor)
    ]
    return f" {'; '.join(found)}." if found else ""


def _flush_folder(folder: Path) -> None:
    """Makes the new name as lasting as the file; not every system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load(
    path: str | os.PathLike,
    objects: Mapping[str, Any] | None = None,
    *,
    map_location: Any = None,
    restore_flags: bool = True,
    weights_only: bool = True,
) -> dict[str, Any]:
    """Puts objects, generators and flags back to where they were at `save`, the generators last.

    Call it after everything that draws random numbers has been built, and before iterating. The loader goes on in the
    middle of its epoch: `for epoch in range(loader.epoch, epochs)`.

    Args:
        path: a file of `save`.
        objects: by the names of `save`: what gets its state by `load_state_dict`.
        map_location: as for torch.load. Generators are put back on their own devices.
        restore_flags: sets torch's flags too, for this whole process. Operators are not enabled by it.
        weights_only: as for torch.load; False runs whatever code the file names.

    Returns:
        What was saved under other names: plain values, and the states of objects that were not given.

    Raises:
        TypeError: objects is no dictionary with names for keys, or a value has no load_state_dict.
        ValueError: the file is none of `save`, is of a newer version, or lacks a name. Nothing is changed then.

    A `ReproducibilityWarning` names what differs from the process that saved and cannot be put back: torch's version,
    GPUs, number of threads, PYTHONHASHSEED, CUBLAS_WORKSPACE_CONFIG, enabled operators.

    Example:
        >>> import tempfile, torch, reprocuda
        >>> path = tempfile.mkdtemp() + "/run.pt"
        >>> batches = reprocuda.data.loader(range(6), batch_size=2, seed=1)
        >>> for batch in batches:
        ...     reprocuda.checkpoint.save(path, {"loader": batches})
        ...     break
        >>> _ = reprocuda.checkpoint.load(path, {"loader": batches})
        >>> [batch.tolist() for batch in batches]
        [[2, 3], [4, 5]]
    """
    objects = {} if objects is None else objects
    _check_names("load", objects)
    for name, thing in objects.items():
        if not hasattr(thing, "load_state_dict"):
            raise TypeError(
                f"reprocuda.checkpoint.load: objects[{name!r}] ({type(thing).__name__}) has no load_state_dict"
            )
    try:
        with open(path, "rb") as file:
            content = torch.load(file, map_location=map_location, weights_only=weights_only)
    except (FileNotFoundError, IsADirectoryError, PermissionError, pickle.UnpicklingError):
        raise
    except Exception as error:
        raise ValueError(f"reprocuda.checkpoint.load: {os.fspath(path)!r} cannot be read: {error!r}") from error
    if not isinstance(content, dict) or _KEY not in content:
        raise ValueError(f"reprocuda.checkpoint.load: {os.fspath(path)!r} is no file of reprocuda.checkpoint.save")
    own, states = content[_KEY], content["states"]
    if own["version"] > _VERSION:
        raise ValueError(
            f"reprocuda.checkpoint.load: {os.fspath(path)!r} has version {own['version']}; this reprocuda reads "
            f"{_VERSION}"
        )
    missing = [name for name in objects if name not in states]
    if missing:
        raise ValueError(
            f"reprocuda.checkpoint.load: {os.fspath(path)!r} has no state of {missing[0]!r}; it has {', '.join(states)}"
        )
    for name, thing in objects.items():
        thing.load_state_dict(states[name])
    flags = Flags.from_dict(own["flags"])
    if restore_flags:
        flags.apply()
    _warn_of_differences(own, flags)
    set_rng_state(own["rng"])
    return {**{name: state for name, state in states.items() if name not in objects}, **content["values"]}


def _warn_of_differences(saved: Mapping[str, Any], flags: Flags) -> None:
    here = {**_surroundings(), **Flags.read().environment}
    there = {**saved, **flags.environment}
    differ = [
        f"{name}: {there.get(name)!r} then, {value!r} now" for name, value in here.items() if there.get(name) != value
    ]
    if differ:
        warnings.warn(
            f"reprocuda.checkpoint.load: the bits may differ from those of the run that saved: {'; '.join(differ)}",
            ReproducibilityWarning,
            stacklevel=3,
        )


def _check_names(function: str, objects: Any) -> None:
    if not isinstance(objects, Mapping) or not all(isinstance(name, str) for name in objects):
        raise TypeError(
            f"reprocuda.checkpoint.{function}: objects must be a dictionary with names for keys, got "
            f"{textwrap.shorten(repr(objects), 80, placeholder='...')}"
        )
