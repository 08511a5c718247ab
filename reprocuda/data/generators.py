"""Generators of random numbers that a dataset, its transforms or a sampler own: found, seeded, saved, put back.

Seeding the global generators does not reach them, and each worker process starts with a copy in the same state.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import sys
import sysconfig
import types
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from ..toolkit.flags import ReproducibilityWarning
from ..toolkit.seeding import derive

MASK32, MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random, torch.Generator)
_SEQUENCES = (list, tuple, deque)
_LEAVES = (torch.Tensor, np.ndarray, np.generic, str, bytes, bytearray, int, float, complex, bool, type(None), range)
_OPAQUE = (types.ModuleType, type, torch.storage.UntypedStorage, torch.dtype, torch.device, DataLoader)
_MOST = 100_000
_HEAP_TYPE = 1 << 9
_LONGEST = 4096  # of a longer list, a dataset's file names rather than its transforms, this many elements are searched


def _globals() -> set[int]:
    """The generators that are seeded anyway."""
    return {id(random._inst), id(np.random.mtrand._rand), id(torch.default_generator)}


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    for name, value in getattr(thing, "__dict__", {}).items():
        yield f".{name}", value
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{kind.__name__.lstrip('_')}{name}"
            if hasattr(thing, name):
                yield f".{name}", getattr(thing, name)


@functools.cache
def _of_a_library(file: str) -> bool:
    """Is this file Python's own or that of an installed package, rather than the user's?"""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    path = os.path.abspath(file)
    inside = any(path.startswith(os.path.join(folder, "")) for folder in folders)
    return file.startswith("<frozen") or inside or not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))


def _names(code: types.CodeType) -> Iterator[str]:
    """What a function names, its lambdas, comprehensions and inner functions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _leads_on(value: Any) -> bool:
    """Is it worth following, where a function names it? Functions of libraries are not, or half of Python would be."""
    if isinstance(value, types.FunctionType):
        return not _of_a_library(value.__code__.co_filename)
    if isinstance(value, (*_GENERATORS, *_SEQUENCES, dict, functools.partial, types.MethodType)):
        return True
    root = type(value).__module__.partition(".")[0]
    return root == "__main__" or root not in sys.stdlib_module_names


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function closes over, its defaults and attributes, and what it names of its module and of the user's
    other modules.
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".<{name}>", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    yield from ((f".<default {i}>", value) for i, value in enumerate(function.__defaults__ or ()))
    yield from ((f".<default {name}>", value) for name, value in (function.__kwdefaults__ or {}).items())
    yield from ((f".{name}", value) for name, value in vars(function).items())
    names = dict.fromkeys(_names(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, types.ModuleType):
            if _of_a_library(getattr(value, "__file__", None) or "<frozen"):
                continue
            found = {f"{name}.{inner}": vars(value).get(inner) for inner in names}
        else:
            found = {name: value}
        yield from ((f".<global {path}>", part) for path, part in found.items() if _leads_on(part))


def _of_class(kind: type) -> Iterator[tuple[str, Any]]:
    """Class attributes, methods among them, of classes that are written in Python."""
    for base in kind.__mro__:
        if not base.__flags__ & _HEAP_TYPE or base.__module__.startswith("torch."):
            continue
        for name, value in vars(base).items():
            # of a static or class method, or of a property
            function = getattr(value, "fget" if isinstance(value, property) else "__func__", value)
            if isinstance(function, types.FunctionType) or not name.startswith("_"):
                yield f".{base.__name__}.{name}", function


def _parts(thing: Any, classes: set[type]) -> Iterator[tuple[str, Any]]:
    """What may own a generator inside `thing`, with the step of the path that leads there; each class once."""
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in itertools.islice(thing.items(), _LONGEST))
    elif isinstance(thing, _SEQUENCES):
        yield from ((f"[{i}]", value) for i, value in enumerate(itertools.islice(thing, _LONGEST)))
    elif isinstance(thing, types.FunctionType):
        yield from _of_function(thing)
        return
    elif isinstance(thing, types.MethodType):
        yield from ((".__self__", thing.__self__), (".__func__", thing.__func__))
        return
    elif isinstance(thing, types.BuiltinMethodType):
        yield ".__self__", thing.__self__
        return
    elif isinstance(thing, functools.partial):
        yield from ((".func", thing.func), (".args", thing.args), (".keywords", thing.keywords))
    if not isinstance(thing, _GENERATORS):
        yield from _attributes(thing)
        if type(thing) not in classes:
            classes.add(type(thing))
            yield from _of_class(type(thing))


def owned_generators(thing: Any, name: str = "dataset", without: Iterable[Any] = ()) -> dict[str, Any]:
    """The generators that `thing` owns, directly or through what it holds, by the path that leads to each.

    Attributes, slots, lists, tuples, deques, dictionaries, partials, closures, properties, class attributes, and
    globals that a method or a function of the user's names are followed; sets have no order and are not, nor the
    functions of installed packages. Of a longer list, the first 4096 elements are searched, and 100000 objects in all.

    Args:
        thing: a dataset, a transform, a sampler.
        name: what the paths begin with.
        without: objects that are not entered.
    """
    found: dict[str, Any] = {}
    seen = _globals() | {id(other) for other in without}
    classes: set[type] = set()
    kept = []  # objects made on the way must live on, or another takes their id
    stack = [(name, thing)]
    while stack:
        path, here = stack.pop()
        if len(kept) > _MOST:
            warnings.warn(
                f"the search for generators in {name} ends after {_MOST} objects, at {path}: others are not seeded",
                ReproducibilityWarning,
                stacklevel=2,
            )
            break
        if isinstance(here, (*_LEAVES, *_OPAQUE)) or id(here) in seen:
            continue
        seen.add(id(here))
        kept.append(here)
        if isinstance(here, random.SystemRandom):
            warnings.warn(
                f"{path} is a {type(here).__name__}: it draws from the operating system and cannot be seeded",
                ReproducibilityWarning,
                stacklevel=2,
            )
        elif isinstance(here, _GENERATORS):
            found[path] = here
        if not isinstance(here, (np.random.Generator, np.random.RandomState)):
            stack.extend(reversed([(path + step, part) for step, part in _parts(here, classes)]))
    return found


def _bit_generator(generator: Any) -> np.random.BitGenerator:
    if isinstance(generator, np.random.RandomState):
        return generator._bit_generator
    return getattr(generator, "bit_generator", generator)


def seed_generator(generator: Any, bits: int) -> None:
    """Seeds one generator in place."""
    if isinstance(generator, torch.Generator):
        generator.manual_seed(bits & MASK64)
    elif isinstance(generator, random.Random):
        generator.seed(bits)
    else:
        inner = _bit_generator(generator)
        if isinstance(generator, np.random.RandomState) and isinstance(inner, np.random.MT19937):
            generator.seed(bits & MASK32)  # forgets the spare normal number too
        else:
            inner.state = type(inner)(np.random.SeedSequence(bits)).state


def _read(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state() if isinstance(generator, np.random.RandomState) else _bit_generator(generator).state


def _write(generator: Any, state: Any) -> None:
    if isinstance(generator, (torch.Generator, np.random.RandomState)):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        _bit_generator(generator).state = state


def seed_streams(bits: int, owned: Mapping[str, Any]) -> None:
    """Seeds the CPU's global generators, and owned ones, from 256 bits.

    torch's generator alone is seeded, without torch.manual_seed's detour over every device: a few microseconds.
    """
    random.seed(bits & MASK64)
    np.random.seed(bits >> 64 & MASK32)
    torch.default_generator.manual_seed(bits >> 96 & MASK64)
    for path, generator in owned.items():
        seed_generator(generator, derive(bits, path))


@dataclass
class Aside:
    """Inside `with`, the CPU's generators are at states of this object's own, which go on from block to block; outside
    they are as if nothing had been drawn.

    Attributes:
        bits: what the states are seeded with on the first entry; None: they are as outside, for a block that seeds.
        owned: generators that are put aside too, by their paths.
        python_and_numpy: False where the block is known to draw from torch alone, which saves most of the cost.
        threads: the number of threads of torch inside, or None.
    """

    bits: int | None
    owned: Mapping[str, Any] = field(default_factory=dict)
    python_and_numpy: bool = True
    threads: int | None = None
    _inside: list[Any] | None = None
    _outside: list[Any] = field(default_factory=list)
    _threads_outside: int = 0

    def _generators(self) -> list[Any]:
        globals_ = [torch.default_generator]
        if self.python_and_numpy:
            globals_ += [random._inst, np.random.mtrand._rand]
        return [*globals_, *self.owned.values()]

    def __enter__(self) -> Aside:
        self._outside = [_read(generator) for generator in self._generators()]
        if self.threads is not None:
            self._threads_outside = torch.get_num_threads()
            torch.set_num_threads(self.threads)
        if self._inside is not None:
            self._put(self._inside)
        elif self.bits is None:
            pass
        elif self.python_and_numpy:
            seed_streams(self.bits, self.owned)
        else:
            torch.default_generator.manual_seed(self.bits & MASK64)
            for path, generator in self.owned.items():
                seed_generator(generator, derive(self.bits, path))
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bits is not None:
            self._inside = [_read(generator) for generator in self._generators()]
        self._put(self._outside)
        if self.threads is not None:
            torch.set_num_threads(self._threads_outside)

    def _put(self, states: list[Any]) -> None:
        for generator, state in zip(self._generators(), states, strict=True):
            _write(generator, state)
