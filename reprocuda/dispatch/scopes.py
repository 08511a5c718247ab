"""Switching torch's operators over to ours: enable, disable and scopes.

Switches are process-wide and counted: while any scope has an operator enabled, every thread runs ours, autograd's
backward threads included. A scope covers what *runs* inside it; a backward() called after its end is torch's own.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass
from typing import Any

import torch

from .._library import build_info
from .overrides import DEVICES, Override, available, installed
from .registry import select

_lock = threading.RLock()


class CompileWarning(UserWarning):
    """Code compiled by torch.compile with inductor does not reach the operators that are enabled."""


@dataclass(frozen=True)
class _Scope:
    overrides: tuple[tuple[Override, ...], ...]
    devices: tuple[str, ...]
    strict: bool

    @property
    def empty(self) -> bool:
        return not (self.overrides and self.devices)

    def change(self, amount: int) -> None:
        for device in self.devices:
            for overrides in self.overrides:
                installed.change(overrides, device, amount, self.strict)


def _refuse_tracing() -> None:
    """Dynamo then leaves the function that calls it uncompiled, or reports this where it must not (fullgraph=True)."""
    if torch.compiler.is_compiling():
        raise RuntimeError(
            "reprocuda.enable() and reprocuda.enabled() cannot be traced by torch.compile: they change what the "
            "process runs. Open the scope around the compiled function"
        )


class _Stance:
    """torch.compiler's stance while any strict scope is open."""

    def __init__(self):
        self._count = 0
        self._stance: Any = None

    def enter(self) -> None:
        _refuse_tracing()
        if self._count == 0:
            try:
                self._stance = torch.compiler.set_stance("force_eager")
            except RuntimeError as error:
                raise RuntimeError(
                    "reprocuda: a strict scope cannot be opened inside a function that torch.compile has compiled, "
                    "which can no longer be made to run eagerly. Open it around the call"
                ) from error
        self._count += 1

    @property
    def forced_eager(self) -> bool:
        return self._count > 0

    def leave(self) -> None:
        self._count -= 1
        if self._count == 0:
            self._stance.__exit__(None, None, None)
            self._stance = None


stance = _Stance()
_enabled: list[_Scope] = []
_warned = False


def _devices(devices: Sequence[str | torch.device] | str | torch.device | None) -> tuple[str, ...]:
    if devices is None:
        return tuple(device for device in DEVICES if available(device))
    if isinstance(devices, (str, torch.device)):
        devices = [devices]
    names = []
    for device in map(torch.device, devices):
        if device.type not in DEVICES or device.index is not None:
            raise ValueError(f"devices are {' and '.join(map(repr, DEVICES))}, without an index; got {str(device)!r}")
        if not available(device.type):
            raise RuntimeError(f"no kernels for {device.type}: {build_info().get('why_cuda_not_loaded')}")
        names.append(device.type)
    return tuple(dict.fromkeys(names))


def _make_scope(ops, devices, strict: bool) -> _Scope:
    overrides = tuple(dict.fromkeys(operator.overrides for operator in select(ops)))
    return _Scope(overrides, _devices(devices), bool(strict))


def _enter(scope: _Scope) -> None:
    _refuse_tracing()
    if scope.empty:
        return
    with _lock:
        if not scope.strict:
            _warn_once()  # first: a filter may turn it into an error
        for device in scope.devices:
            for overrides in scope.overrides:
                installed.install(overrides, device)
        if scope.strict:
            stance.enter()
        scope.change(+1)


def _leave(scope: _Scope) -> None:
    if scope.empty:
        return
    with _lock:
        scope.change(-1)
        if scope.strict:
            stance.leave()


def open_now() -> tuple[tuple[tuple[str, ...], str, bool], ...]:
    """What is enabled at this moment, for a process to come: (names of operators, device, strict)."""
    found: dict[tuple[str, bool], list[str]] = {}
    with _lock:
        for operator in select(None):
            for device in DEVICES:
                switch = installed.switch(operator.overrides, device)
                if switch.on:
                    found.setdefault((device, switch.strict > 0), []).append(operator.name)
    return tuple((tuple(names), device, strict) for (device, strict), names in found.items())


def _warn_once() -> None:
    global _warned
    if not _warned:
        warnings.warn(
            "reprocuda.enable(): torch.compile's inductor lowers scatter_add, index_add and index_put itself and does "
            "not reach the enabled operators. Use strict=True to run compiled functions eagerly, or call reprocuda's "
            "operators in code that you compile.",
            CompileWarning,
            stacklevel=4,
        )
        _warned = True


def enable(
    ops: Sequence[str] | str | None = None,
    devices: Sequence[str | torch.device] | str | torch.device | None = None,
    strict: bool = False,
) -> None:
    """Makes torch's own operators, and every library on top of them, use reprocuda's, until `disable()`.

    What is replaced are aten's kernels, so functions, methods, in-place and out= forms, nn.Embedding and autograd's
    backward formulas are all covered, in every thread. `status()` lists them. Worker processes that are spawned start
    without.

    Args:
        ops: names from `reprocuda.registry`; None: all; an empty list: none. Operators whose sums are another's, as
            gather's gradient is scatter_add, switch that one.
        devices: "cpu", "cuda" or both; None: all that this build and this torch have.
        strict: run functions that torch.compile compiled eagerly meanwhile, because inductor's own kernels would be
            used otherwise; and refuse unusual arguments that torch accepts even where the order of a sum cannot matter.

    Raises:
        ValueError: an unknown operator or device.
        RuntimeError: no kernels for that device in this build; or a strict scope inside a compiled function.

    Determinism: the enabled operators are exact. Arguments that reprocuda cannot sum exactly raise; nothing is
    silently left to torch, but for torch.compile without `strict`, of which a `CompileWarning` tells once.

    Cost: two to three microseconds a call, enabled or, once installed, not; after `disable()` up to four where torch's
        operator calls another of these, as index_add of rows does. `python -m benchmarks` measures it. After
        `disable()` torch's own kernel is called from Python's side and keeps other threads of Python waiting while it
        runs; ours does not.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.enable(strict=True)
        >>> torch.zeros(1).index_add_(0, torch.zeros(3, dtype=torch.long), torch.tensor([1e8, 1.0, -1e8]))
        tensor([1.])
        >>> reprocuda.disable()
    """
    scope = _make_scope(ops, devices, strict)
    _enter(scope)
    with _lock:
        _enabled.append(scope)


def disable() -> None:
    """Takes back the latest `enable()` that has not been taken back yet. Scopes of `enabled` end by themselves.

    Raises:
        RuntimeError: there is none.

    Example:
        >>> import reprocuda
        >>> reprocuda.enable(strict=True); reprocuda.disable()
    """
    with _lock:
        if not _enabled:
            raise RuntimeError("reprocuda.disable(): nothing is enabled")
        scope = _enabled.pop()
    _leave(scope)


class Layers:
    """Blocks that change one thing of the process and put it back, whatever the order in which they end, as those of
    several threads do: one that ends before another that began later leaves to that one what it had found.
    """

    def __init__(self, put_back: Callable[[Any], None]):
        self._put_back = put_back
        self._found: list[list[Any]] = []

    def open(self, found: Any) -> list[Any]:
        """Notes what was there before; the result is for `close`."""
        layer = [found]
        with _lock:
            self._found.append(layer)
        return layer

    def close(self, layer: list[Any]) -> None:
        with _lock:
            place = next(i for i, other in enumerate(self._found) if other is layer)
            del self._found[place]
            if place == len(self._found):
                self._put_back(layer[0])
            else:
                self._found[place][0] = layer[0]


class Scope(ContextDecorator):
    """A context manager that is a decorator of functions too, and refuses what it could not cover."""

    def __call__(self, function: Callable) -> Callable:
        suspends = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        if any(test(function) for test in suspends):
            name = type(self).__name__
            raise TypeError(
                f"@reprocuda.{name} cannot cover {function.__qualname__}: a generator or coroutine runs after the "
                f"call that made it, and other code between its steps. Use `with reprocuda.{name}():` inside it"
            )
        return super().__call__(function)


class enabled(Scope):
    """`enable` for a block or for each call of a function: `with enabled(...):` or `@enabled(...)`.

    Arguments and errors are those of `enable`. Scopes nest, in any number of threads, and end when an exception leaves
    them. They are process-wide: what other threads run meanwhile is covered too. What is called after the end, a
    backward() for instance, is not.

    Example:
        >>> import torch, reprocuda
        >>> with reprocuda.enabled("index_add", strict=True):
        ...     torch.zeros(1).index_add(0, torch.zeros(3, dtype=torch.long), torch.tensor([1e8, 1.0, -1e8]))
        tensor([1.])
    """

    def __init__(
        self,
        ops: Sequence[str] | str | None = None,
        devices: Sequence[str | torch.device] | str | torch.device | None = None,
        strict: bool = False,
    ):
        self._scope = _make_scope(ops, devices, strict)
        self.operators = select(ops)
        self._open = 0

    def __enter__(self) -> enabled:
        _enter(self._scope)
        with _lock:
            self._open += 1
        return self

    def __exit__(self, *_) -> None:
        with _lock:
            if self._open == 0:
                raise RuntimeError("reprocuda.enabled: this scope is not open")
            self._open -= 1
        _leave(self._scope)
