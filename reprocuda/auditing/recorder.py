"""The recorder: every aten operator that reaches the dispatcher becomes a record of a trace.

Hashing is what costs, so it is done once for each new content: for what an operator writes, and for what it reads only
where others may have written that memory (NumPy, a file, a loader's worker). See `lineage.py`.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Iterable

import torch
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from . import hooks
from .contents import Contents, bytes_of
from .facts import Facts, facts_of
from .lineage import LOADER, OVERWRITTEN, State
from .names import Names
from .sites import Sites
from .trace import (
    ARGUMENTS,
    BACKWARD,
    BATCH,
    EVENT,
    FROM_SAMPLER,
    IN_LOADER,
    IN_PLACE,
    INPUT,
    MODULES,
    OPERATORS,
    PARTIAL,
    RECORD,
    SEEDED,
    STARTING,
    STATISTICS,
    Writer,
)

_RECORDS_A_BLOCK = 4096
_NODES = 1 << 17  # forward operators remembered for their backward: a few steps of a large model

_current_node = torch._C._current_autograd_node
_next_sequence = torch.autograd._get_sequence_nr
_Tensor = torch.Tensor
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, complex)
_numbers = itertools.count()


def _deep(value: object) -> object:
    """A non-tensor argument as something hashable that is the same in another process."""
    if isinstance(value, (list, tuple)):
        return tuple(_deep(item) for item in value)
    if isinstance(value, dict):
        return tuple((_deep(key), _deep(item)) for key, item in value.items())
    return value if isinstance(value, _PLAIN) else type(value).__name__


def check_steps(function: str, steps: int | None) -> None:
    """Refuses what is no number of steps, in the name of a function.

    Raises:
        TypeError: steps is no int.
        ValueError: steps is less than 1.
    """
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool)):
        raise TypeError(f"{function}: steps must be an int of at least 1 or None, got {steps!r}")
    if steps is not None and steps < 1:
        raise ValueError(f"{function}: steps must be at least 1, got {steps}")


class Recorder(TorchDispatchMode):
    """Records every operator, forward and backward, into a trace file while it is entered.

    Operators of the thread that entered it are recorded, and those that autograd's threads run for its `backward()`.
    A function compiled by `torch.compile` runs uncompiled inside. Tensor subclasses are recorded by the plain operators
    that they run.

    Args:
        path: the file to write; what was there is replaced.
        run: which run of several this is: memory that was never written is filled with another pattern in each.
        steps: leave the audited code, by raising `reprocuda.auditing.StopRecording` out of the optimizer's `step`,
            after that many optimizer steps.
        header: more entries for the header of the trace.
        earlier: recorders that were there before, in this process: memory they saw written is state carried over.

    Attributes:
        records: how many operators and events have been recorded.
        step: how many steps optimizers have made.
        findings: what is wrong though no two runs need differ by it, each a dict of what, file, line and step.

    Raises:
        TypeError: steps is no int.
        ValueError: steps is less than 1.
        OSError: the file cannot be written.

    Cost: what runs inside takes about two to three times as long. Some 60 bytes an operator are written, in blocks; the
    memory taken does not grow with the run.

    Example:
        >>> import tempfile, torch, reprocuda
        >>> folder = tempfile.mkdtemp()
        >>> with reprocuda.Recorder(f"{folder}/a.trace") as recorder:
        ...     total = torch.ones(3).sum()
        >>> recorder.records
        2
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        run: int = 0,
        steps: int | None = None,
        header: dict | None = None,
        earlier: Iterable[Recorder] = (),
    ):
        check_steps("reprocuda.Recorder", steps)
        super().__init__()
        self.steps = steps
        self.step = 0
        self.records = 0
        self.findings: list[dict] = []
        self._writer = Writer(path, hooks.environment() | {"run": run} | (header or {}))
        self._key = f"_reprocuda_{next(_numbers)}"  # the attribute of storages that holds our State of them
        self._sites = Sites()
        self._names = Names(self._writer, self._sites)
        self._contents = Contents(self._key, run, self._names, [recorder._key for recorder in earlier])
        self._nodes: list[tuple[int, int, int] | None] = [None] * _NODES
        self._pending: list[tuple] = []
        self._lock = threading.RLock()
        self._live = False
        self._left = False
        self._thread = 0  # the one that entered it

    def __enter__(self) -> Recorder:
        hooks.install(self)
        super().__enter__()
        self._live = True
        return self

    def __exit__(self, kind, value, trace) -> None:
        self._live = False
        hooks.remove(self)
        if not self._left:
            super().__exit__(kind, value, trace)
        with self._lock:
            self._flush()
            self._writer.close(
                {
                    "outcome": "finished" if kind is None else kind.__name__,
                    "records": self.records,
                    "steps": self.step,
                    "findings": self.findings,
                }
            )

    def _leave_child(self) -> None:
        """In a process that was forked while recording: record nothing, and cost nothing."""
        self._live = False
        if torch.utils._python_dispatch._get_current_dispatch_mode() is self:
            super().__exit__(None, None, None)
            self._left = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if kwargs is None:
            kwargs = {}
        facts = facts_of(func)
        if not self._live or facts.skip:
            return func(*args, **kwargs)
        if types and not all(kind is _Tensor or kind is Parameter for kind in types):
            if any(kind.__name__ == "FakeTensor" for kind in types):
                return func(*args, **kwargs)
            return NotImplemented  # the subclass unfolds into plain operators, which come here
        with self._lock:
            inputs: list = []
            scalars: list = []
            self._read_arguments(facts, args, kwargs, inputs, scalars)
            size = bytes_of(args[0]) if facts.rebinds else 0
            place = self._place()
        result = func(*args, **kwargs)
        with self._lock:
            outputs: list[State] = []
            flags = place[2] | SEEDED if facts.seeded else place[2]
            if facts.is_training(args, kwargs) and not torch.is_grad_enabled():
                flags |= STATISTICS
            if facts.rebinds:
                self._contents.rebound(facts, args[0], size, place[0])
            elif facts.write_names:
                flags |= self._wrote_arguments(facts, args, kwargs, inputs, outputs)
            if not facts.view and not facts.rebinds:
                self._contents.made(facts, args, result, place[0], outputs)
            self._append(facts.name, place[0], place[1], tuple(scalars), flags, inputs, outputs)
        return result

    # where

    def _place(self) -> tuple[int, int, int]:
        """(site, module, flags) of the operator that is about to run."""
        frame = sys._getframe(2)
        node = _current_node()
        state = hooks.thread
        if node is None:
            site = self._sites.find(frame)
            module = self._names.number(MODULES, state.module)
            sequence = _next_sequence() - 1
            slot = sequence % _NODES
            entry = self._nodes[slot]
            if entry is None or entry[0] != sequence:
                self._nodes[slot] = (sequence, site, module)
            if state.loading:
                sampled = FROM_SAMPLER if self._sites.within_sampler(frame) else 0
                return site, module, IN_LOADER | sampled | (STARTING if state.starting else 0)
            return site, module, 0
        site = self._sites.find(frame, stop_at_engine=True)
        if site:  # a Function's own backward, a hook, or a forward computed again
            return site, self._names.number(MODULES, state.module), BACKWARD
        sequence = node._sequence_nr()
        for back in range(3):  # an in-place operator on a view makes two nodes
            entry = self._nodes[(sequence - back) % _NODES]
            if entry is not None and entry[0] == sequence - back:
                return entry[1], entry[2], BACKWARD
        return self._sites.find(frame), self._names.number(MODULES, ""), BACKWARD

    # what is read

    def _read_arguments(self, facts: Facts, args: tuple, kwargs: dict, inputs: list, scalars: list) -> None:
        unread = facts.write_positions if facts.overwrites else ()
        for position, value in enumerate(args):
            kind = value.__class__
            if kind is _Tensor or kind is Parameter:
                if position not in unread:
                    self._contents.read(facts, value, inputs)
            elif kind is list or kind is tuple:
                if position not in unread:
                    self._read_list(facts, value, inputs, scalars)
            elif kind is int or kind is float or kind is bool or value is None:
                scalars.append(value)
            elif isinstance(value, _Tensor):
                if position not in unread:
                    self._contents.read(facts, value, inputs)
            else:
                scalars.append(_deep(value))
        for name, value in kwargs.items():
            if facts.overwrites and name in facts.write_names:
                continue
            if isinstance(value, _Tensor):
                self._contents.read(facts, value, inputs)
            elif isinstance(value, (list, tuple)):
                self._read_list(facts, value, inputs, scalars)
            else:
                scalars.append((name, _deep(value)))

    def _read_list(self, facts: Facts, values: list | tuple, inputs: list, scalars: list) -> None:
        rest = []
        for value in values:
            if isinstance(value, _Tensor):
                self._contents.read(facts, value, inputs)
                rest.append("T")
            else:
                rest.append(_deep(value))
        scalars.append(tuple(rest))

    # what is written

    def _wrote_arguments(self, facts: Facts, args: tuple, kwargs: dict, inputs: list, outputs: list) -> int:
        """Notes what was written, and returns flags."""
        written = [args[position] for position in facts.write_positions if position < len(args)]
        written += [kwargs[name] for name in facts.write_names if name in kwargs]
        garbage = self._contents.unwritten_source(args) if facts.copies else None
        flags = 0 if facts.overwrites else IN_PLACE
        for value in written:
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, _Tensor) and self._contents.wrote(facts, tensor, garbage, inputs, outputs):
                    flags |= PARTIAL
        return flags

    # what hooks tell

    def _event(self, name: str, arguments: tuple, tensors: list[torch.Tensor] = (), flags: int = EVENT) -> int:
        """Records something that is no operator; returns its site."""
        with self._lock, torch._C._DisableTorchDispatch():
            site = self._sites.find(sys._getframe(2))
            inputs = [(self._contents.hashed(tensor, LOADER, site), 0) for tensor in tensors]
            self._append(name, site, self._names.number(MODULES, hooks.thread.module), arguments, flags, inputs, [])
            return site

    def _batch(self, leaves: tuple, tensors: list[torch.Tensor]) -> None:
        """Records what came out of a loader, by value, and marks it."""
        site = self._event(BATCH, leaves, tensors)
        for tensor in tensors:
            self._contents.mark(tensor, LOADER, site)

    def _mark(self, tensor: torch.Tensor, origin: int, site: int) -> None:
        """Says where memory that was not recorded came from, or that others may write it from now on."""
        self._contents.mark(tensor, origin, site)

    def _find_site(self, depth: int) -> tuple[str, int, str]:
        return self._sites.table[self._sites.find(sys._getframe(depth))]

    def _number_site(self, depth: int) -> int:
        return self._sites.find(sys._getframe(depth))

    # writing

    def _append(self, name: str, site: int, module: int, scalars: tuple, flags: int, inputs: list, outputs: list):
        arguments = self._names.number(ARGUMENTS, scalars)
        self._pending.append(
            (self._names.number(OPERATORS, name), site, module, arguments, self.step, flags, inputs, outputs)
        )
        self.records += 1
        if len(self._pending) >= _RECORDS_A_BLOCK:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        self._contents.resolve()
        self._names.define_sites()
        chunks: list[bytes] = []
        pack, pack_input = RECORD.pack, INPUT.pack
        for *head, inputs, outputs in self._pending:
            chunks.append(pack(*head, len(inputs), len(outputs)))
            for state, geometry in inputs:
                if geometry < 0:
                    chunks.append(pack_input(state.content[:8], 0, OVERWRITTEN, 0))
                else:
                    chunks.append(pack_input(state.content[:8], geometry, state.origin, state.site))
            for state in outputs:
                chunks.append(state.content)
        self._writer.block(self.step, len(self._pending), b"".join(chunks))
        self._pending.clear()

    def _finish_step(self) -> None:
        """An optimizer has made a step."""
        self.step += 1
        self._contents.step = self.step
        if self.steps is not None and self.step >= self.steps:
            raise hooks.StopRecording(f"{self.step} steps were recorded")
