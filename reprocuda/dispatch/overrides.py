"""Slots: one aten overload on one device, the kernel that was there before ours, and the switch between the two.

A kernel of ours is registered on the first use of its operator and stays for the life of the process; enabling and
disabling only changes a count that it reads. Taking registrations away while another thread runs operators is a
use-after-free in torch's dispatcher, so it is done in one case alone: when another library's override, registered
before ours and kept by us as the kernel below, has been destroyed by its owner (`Slot._replace_lost_kernel`).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch._ops import OpOverload
from torch.library import Library, get_kernel

from ..arguments.irregular import torch_or_refuse, torch_or_refuse_

DEVICES = {"cpu": "CPU", "cuda": "CUDA"}

_lock = threading.RLock()
_INVALIDATED = "has been invalidated"


class Switch:
    """How many scopes have an operator enabled on a device, and how many of them strictly."""

    __slots__ = ("on", "strict")

    def __init__(self):
        self.on = 0
        self.strict = 0


@dataclass(frozen=True, eq=False)
class Override:
    """How one aten overload is replaced.

    Attributes:
        overload: its name, as "index_add.out".
        compiled: the operator of torch.ops.reprocuda that it calls, or None.
        make: given a slot, the kernel to register: make(slot)(*arguments of the overload).
        repair: called as the kernel is when the compiled operator finds the arguments irregular; returns a result, or
            NotImplemented to leave them to torch.
        in_place: does it write into its first argument?
        overwrites: does it replace values instead of adding to them?
        keys: the dispatch key to register for, by device.
    """

    overload: str
    compiled: OpOverload | None
    make: Callable[[Slot], Callable]
    repair: Callable | None = None
    in_place: bool = False
    overwrites: bool = False
    keys: Mapping[str, str] = field(default_factory=lambda: DEVICES)


class Slot:
    """One aten overload on one device.

    Attributes:
        ours: the compiled operator, as torch binds it: without the Python around it that looks for overloads. It lets
            other threads of Python run meanwhile, as every call of an operator does and `native` does not.
        native: the kernel that was there before, called as native(keys, *arguments).
        keys: the dispatch keys that a call has when it arrives here, below autograd. They are always the same, and
            being told them anew for each call would cost a quarter of a microsecond.
    """

    def __init__(self, override: Override, device: str, switch: Switch):
        self.override = override
        self.device = device
        self.switch = switch
        self.key = override.keys[device]
        self.keys = DispatchKeySet(DispatchKey.__members__[self.key])
        if override.compiled is not None:
            self.ours = override.compiled._op
        self._kernel = override.make(self)
        self._register()

    def _register(self) -> None:
        name, key = f"aten::{self.override.overload}", self.key
        if self.override.compiled is not None:
            self.native = get_kernel(name, key).call_boxed
        self._library = Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*previously registered kernel.*")
            self._library.impl(self.override.overload, self._kernel, key, allow_override=True)
        self._own_mark = str(get_kernel(name, key))

    def shadowed_by(self) -> str | None:
        """Where a kernel that was registered over ours comes from."""
        mark = str(get_kernel(f"aten::{self.override.overload}", self.key))
        return None if mark == self._own_mark else mark

    def failed(self, error: Exception, *args: Any, **kwargs: Any) -> Any:
        """What a kernel does with an error of either side: find the lost kernel, let torch decide, or pass it on."""
        if isinstance(error, ValueError):  # even if the last scope has closed since the call began
            return self._torch_or_refuse(error, *args, **kwargs)
        if _INVALIDATED in str(error):
            self._replace_lost_kernel()
            return self.native(self.keys, *args, **kwargs)
        raise error

    def _torch_or_refuse(self, reason: ValueError, *args: Any, **kwargs: Any) -> Any:
        override = self.override
        if override.repair is not None:
            result = override.repair(*args, **kwargs)
            if result is not NotImplemented:
                return result
        decide = torch_or_refuse_ if override.in_place else torch_or_refuse
        return decide(
            override.overload,
            reason,
            self._native,
            *args,
            strict=self.switch.strict > 0,
            overwrites=override.overwrites,
            **kwargs,
        )

    def _native(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.native(self.keys, *args, **kwargs)
        except RuntimeError as error:
            if _INVALIDATED not in str(error):
                raise
        self._replace_lost_kernel()
        return self.native(self.keys, *args, **kwargs)

    def _replace_lost_kernel(self) -> None:
        """The kernel below ours was destroyed: torch can say what is below only while ours is not there."""
        with _lock:
            self._library._destroy()
            self._register()


class Overrides:
    """All slots, made when they are first asked for."""

    def __init__(self):
        self._slots: dict[tuple[str, str], Slot] = {}  # by overload and dispatch key
        self._switches: dict[tuple[str, str], Switch] = {}

    def install(self, overrides: tuple[Override, ...], device: str) -> None:
        with _lock:
            for override in overrides:
                if device not in override.keys:
                    continue
                key = override.overload, override.keys[device]
                if key not in self._slots:
                    switch = self._switches.setdefault((overrides[0].overload, device), Switch())
                    self._slots[key] = Slot(override, device, switch)

    def switch(self, overrides: tuple[Override, ...], device: str) -> Switch:
        return self._switches.setdefault((overrides[0].overload, device), Switch())

    def change(self, overrides: tuple[Override, ...], device: str, amount: int, strict: bool) -> None:
        """Counts one scope more or less. The caller sees to it that no other thread does so at the same time."""
        switch = self.switch(overrides, device)
        switch.on += amount
        switch.strict += amount if strict else 0

    def slots(self, overrides: tuple[Override, ...], device: str) -> list[Slot]:
        with _lock:
            keys = [(o.overload, o.keys[device]) for o in overrides if device in o.keys]
            return [self._slots[key] for key in keys if key in self._slots]


installed = Overrides()


def available(device: str) -> bool:
    """Are there compiled kernels of ours for this kind of device, and does this torch have it?"""
    return torch._C._dispatch_has_kernel_for_dispatch_key("reprocuda::index_add", DEVICES[device])
