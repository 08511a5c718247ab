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
from .facts import Facts, facts_of
from .fingerprint import Digests
from .lineage import BLANK, EXTERNAL, KNOWN, LOADER, OVERWRITTEN, OWN_STATE, UNWRITTEN, State, mix, parts_of, poison
from .sites import Sites
from .trace import BACKWARD, BATCH, EVENT, FROM_SAMPLER, IN_LOADER, IN_PLACE, INPUT, PARTIAL, RECORD, SEEDED, Writer

_RECORDS_A_BLOCK = 4096
_NODES = 1 << 17  # forward operators remembered for their backward: a few steps of a large model
_NAMES = 1 << 16  # distinct arguments remembered before their numbers start afresh

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


class Recorder(TorchDispatchMode):
    """Records every operator, forward and backward, into a trace file while it is entered.

    Operators of the thread that entered it are recorded, and those that autograd's threads run for its `backward()`.
    A function compiled by `torch.compile` runs uncompiled inside. Tensor subclasses are recorded by the plain operators
    that they run.

    Args:
        path: the file to write.
        run: which run of several this is: memory that was never written is filled with another pattern in each.
        steps: leave the audited code, by raising `StopRecording`, after that many optimizer steps.
        header: more entries for the header of the trace.
        earlier: the `key` of recorders that were there before: memory they saw written is state carried over.

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
        earlier: Iterable[str] = (),
    ):
        super().__init__()
        self.run = run
        self.steps = steps
        self.step = 0
        self.records = 0
        self.findings: list[dict] = []
        self._writer = Writer(path, hooks.environment() | {"run": run} | (header or {}))
        self.key = f"_reprocuda_{next(_numbers)}"  # the attribute of storages that holds our State of them
        self._earlier = tuple(earlier)
        self._sites = Sites()
        self._defined_sites = 0
        self._numbers: dict[str, dict] = {name: {} for name in "omag"}
        self._next_number = dict.fromkeys("omag", 0)
        self._geometries: dict[int, bytes] = {}
        self._nodes: list[tuple[int, int, int] | None] = [None] * _NODES
        self._digests = Digests()
        self._cuda = False  # was anything hashed on a GPU?
        self._unresolved: list[State] = []
        self._parts: list[State] = []
        self._pending: list[tuple] = []
        self._lock = threading.RLock()
        self._live = False
        self._left = False
        self._define_sites()
        self._number("g", ())  # 0: no matter

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

    def leave_child(self) -> None:
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
            return NotImplemented  # the subclass unfolds into plain operators, which come here
        with self._lock:
            inputs: list = []
            scalars: list = []
            self._read_arguments(facts, args, kwargs, inputs, scalars)
            if facts.batch_norm:
                scalars.append("recorded" if torch.is_grad_enabled() else "no_grad")
            place = self._place()
        result = func(*args, **kwargs)
        with self._lock:
            outputs: list[State] = []
            flags = place[2] | SEEDED if facts.seeded else place[2]
            if facts.rebinds:
                self._rebound(facts, args, place[0])
            elif facts.write_names:
                flags |= self._wrote_arguments(facts, args, kwargs, inputs, outputs)
            if not facts.view and not facts.rebinds:
                self._made(facts, args, result, place[0], outputs)
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
            module = self._number("m", state.module)
            sequence = _next_sequence() - 1
            slot = sequence % _NODES
            entry = self._nodes[slot]
            if entry is None or entry[0] != sequence:
                self._nodes[slot] = (sequence, site, module)
            if state.loading:
                return site, module, IN_LOADER | (FROM_SAMPLER if self._sites.within_sampler(frame) else 0)
            return site, module, 0
        site = self._sites.find(frame, stop_at_engine=True)
        if site:  # a Function's own backward, a hook, or a forward computed again
            return site, self._number("m", state.module), BACKWARD
        sequence = node._sequence_nr()
        for back in range(3):  # an in-place operator on a view makes two nodes
            entry = self._nodes[(sequence - back) % _NODES]
            if entry is not None and entry[0] == sequence - back:
                return entry[1], entry[2], BACKWARD
        return self._sites.find(frame), self._number("m", ""), BACKWARD

    # what is read

    def _read_arguments(self, facts: Facts, args: tuple, kwargs: dict, inputs: list, scalars: list) -> None:
        unread = facts.write_positions if facts.overwrites else ()
        for position, value in enumerate(args):
            kind = value.__class__
            if kind is _Tensor or kind is Parameter:
                if position not in unread:
                    self._read(facts, value, inputs)
            elif kind is list or kind is tuple:
                if position not in unread:
                    self._read_list(facts, value, inputs, scalars)
            elif kind is int or kind is float or kind is bool or value is None:
                scalars.append(value)
            elif isinstance(value, _Tensor):
                if position not in unread:
                    self._read(facts, value, inputs)
            else:
                scalars.append(_deep(value))
        for name, value in kwargs.items():
            if facts.overwrites and name in facts.write_names:
                continue
            if isinstance(value, _Tensor):
                self._read(facts, value, inputs)
            elif isinstance(value, (list, tuple)):
                self._read_list(facts, value, inputs, scalars)
            else:
                scalars.append((name, _deep(value)))

    def _read_list(self, facts: Facts, values: list | tuple, inputs: list, scalars: list) -> None:
        rest = []
        for value in values:
            if isinstance(value, _Tensor):
                self._read(facts, value, inputs)
                rest.append("T")
            else:
                rest.append(_deep(value))
        scalars.append(tuple(rest))

    def _read(self, facts: Facts, tensor: torch.Tensor, inputs: list) -> None:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and opaque tensors: hashed whole, each time
            inputs.append((self._hashed(tensor, EXTERNAL), self._number("g", (str(tensor.layout),))))
            return
        geometry = self._geometry(tensor)
        state = getattr(storage, self.key, None)
        if state is None:
            carried = any(hasattr(storage, key) for key in self._earlier)
            state = State(OWN_STATE if carried else EXTERNAL)
            setattr(storage, self.key, state)
        if state.origin == KNOWN:
            inputs.append((state, geometry))
        elif facts.view and not facts.lifts:
            inputs.append((BLANK, geometry))
        elif not (state.origin == UNWRITTEN and facts.copies):
            inputs.append((self._checked(state, tensor, geometry), geometry))

    def _checked(self, state: State, tensor: torch.Tensor, geometry: int) -> State:
        """The content of `tensor`, which looks at memory that others may have written since we last looked.

        Hashed again when it was written, and once in a step; large memory that never changes, less and less often.
        """
        views = state.views
        if views is None or len(views) > 4096:
            views = state.views = {}
        found = views.get(geometry)
        stamp = (tensor._version if not tensor.is_inference() else 0, state.writes)
        if found is not None and found[1] == stamp and self.step < found[2]:
            return found[0]
        content = self._hashed(tensor, state.origin, state.site)
        unchanged = found[3] + 1 if found is not None and found[1] == stamp else 0
        large = unchanged > 2 and tensor.numel() > 1 << 18
        views[geometry] = (content, stamp, self.step + (1 << min(unchanged - 2, 10) if large else 1), unchanged)
        return content

    def _hashed(self, tensor: torch.Tensor, origin: int = KNOWN, site: int = 0) -> State:
        """A new state whose content is the hash of `tensor`, on its way."""
        state = State(origin, site)
        if not tensor.is_meta and tensor.layout == torch.strided and not tensor.is_quantized:
            self._hash(state, tensor)
            return state
        pieces = [self._hashed(part) for part in parts_of(tensor) if part is not tensor]
        if not pieces:
            state.content = bytes(16)
            return state
        self._resolve()
        state.content = mix(*(piece.content for piece in pieces))
        return state

    def _hash(self, state: State, tensor: torch.Tensor) -> None:
        """Starts hashing `tensor` for `state`."""
        if tensor.is_cuda:
            self._cuda = True
            if torch.cuda.is_current_stream_capturing():
                state.content = bytes(16)  # a captured hash is computed at every replay, into somebody else's row
                return
        if len(self._unresolved) >= _RECORDS_A_BLOCK:
            self._resolve()
        self._digests.append(tensor)
        self._unresolved.append(state)

    # what is written

    def _wrote_arguments(self, facts: Facts, args: tuple, kwargs: dict, inputs: list, outputs: list) -> int:
        """Notes what was written, and returns flags."""
        written = [args[position] for position in facts.write_positions if position < len(args)]
        written += [kwargs[name] for name in facts.write_names if name in kwargs]
        garbage = self._unwritten_source(args) if facts.copies else None
        flags = 0 if facts.overwrites else IN_PLACE
        for value in written:
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, _Tensor) and self._wrote(facts, tensor, garbage, inputs, outputs):
                    flags |= PARTIAL
        return flags

    def _wrote(self, facts: Facts, tensor: torch.Tensor, garbage: State | None, inputs: list, outputs: list) -> bool:
        """Notes what `tensor` holds now; is it only a part of its storage?"""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            outputs.append(self._hashed(tensor))
            return True
        before = getattr(storage, self.key, None)
        if garbage is not None:
            setattr(storage, self.key, State(UNWRITTEN, garbage.site))
            return True
        whole = tensor.numel() * tensor.element_size() >= storage.nbytes()
        written = self._hashed(tensor)
        outputs.append(written)
        if whole and tensor.is_contiguous():
            setattr(storage, self.key, written)
            if before is not None and before.origin == KNOWN and facts.overwrites:
                inputs.append((before, -1))
            return False
        if before is None:
            before = State(EXTERNAL)
            setattr(storage, self.key, before)
        if not whole and before.origin != KNOWN:
            before.writes += 1
            return True
        state = State()
        state.written, state.base = written, None if whole else before
        state.geometry = self._geometries[self._geometry(tensor)]
        state.loader = hooks.thread.loading
        self._parts.append(state)
        setattr(storage, self.key, state)
        return True

    def _made(self, facts: Facts, args: tuple, result: object, site: int, outputs: list) -> None:
        if isinstance(result, _Tensor):
            result = (result,)
        elif not isinstance(result, (list, tuple)):
            return
        for tensor in result:
            if isinstance(tensor, (list, tuple)):
                self._made(facts, args, tensor, site, outputs)
            if not isinstance(tensor, _Tensor):
                continue
            try:
                storage = tensor.untyped_storage()
            except (NotImplementedError, RuntimeError):
                outputs.append(self._hashed(tensor))
                continue
            if getattr(storage, self.key, None) is not None:
                continue  # a view, or an argument given back: nothing new
            if facts.empty and not _filled_by_torch():
                poison(tensor, self.run)
                state = State(UNWRITTEN, self._sites.of_operator(site, facts.name))
            elif facts.copies and (source := self._unwritten_source(args)) is not None:
                state = State(UNWRITTEN, source.site)
            else:
                state = self._hashed(tensor)
                outputs.append(state)
            setattr(storage, self.key, state)

    def _rebound(self, facts: Facts, args: tuple, site: int) -> None:
        """resize_ and its kin: memory that appeared has not been written."""
        tensor = args[0]
        if not facts.name.startswith("aten::resize") or tensor.is_meta or not isinstance(tensor, _Tensor):
            return
        storage = tensor.untyped_storage()
        state = getattr(storage, self.key, None)
        if state is None or storage.nbytes() <= 0:
            return
        if state.origin == UNWRITTEN and state.writes == 0 and not _filled_by_torch():
            poison(tensor, self.run)
            state.site = self._sites.of_operator(site, facts.name)
        elif state.origin == KNOWN:  # it may have grown beyond what was written: look at what is read
            setattr(storage, self.key, State(EXTERNAL, site))

    def _unwritten_source(self, args: tuple) -> State | None:
        """The state of what is copied, if it was never written."""
        for value in reversed(args[:2]):
            if isinstance(value, (list, tuple)) and value:
                value = value[0]
            if isinstance(value, _Tensor):
                plain = value.layout == torch.strided
                state = getattr(value.untyped_storage(), self.key, None) if plain else None
                return state if state is not None and state.origin == UNWRITTEN else None
        return None

    # what hooks tell

    def event(self, name: str, arguments: tuple, tensors: list[torch.Tensor] = (), flags: int = EVENT) -> int:
        """Records something that is no operator; returns its site."""
        with self._lock, torch._C._DisableTorchDispatch():
            site = self._sites.find(sys._getframe(2))
            inputs = [(self._hashed(tensor, LOADER, site), 0) for tensor in tensors]
            self._append(name, site, self._number("m", hooks.thread.module), arguments, flags, inputs, [])
            return site

    def batch(self, leaves: tuple, tensors: list[torch.Tensor]) -> None:
        """Records what came out of a loader, by value, and marks it."""
        site = self.event(BATCH, leaves, tensors)
        for tensor in tensors:
            self.mark(tensor, LOADER, site)

    def mark(self, tensor: torch.Tensor, origin: int, site: int) -> None:
        """Says where memory that nobody recorded came from, or that others may write it from now on."""
        if tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        state = getattr(storage, self.key, None)
        if state is None or state.loader or (origin == EXTERNAL and state.origin == KNOWN):
            setattr(storage, self.key, State(origin, site))
        elif state.origin == EXTERNAL:
            state.origin, state.site = origin, site

    def find_site(self, depth: int) -> tuple[str, int, str]:
        return self._sites.table[self._sites.find(sys._getframe(depth))]

    def number_site(self, depth: int) -> int:
        return self._sites.find(sys._getframe(depth))

    # writing

    def _number(self, table: str, value: object) -> int:
        numbers = self._numbers[table]
        number = numbers.get(value)
        if number is None:
            if len(numbers) > _NAMES:
                numbers.clear()
                if table == "g":
                    self._geometries.clear()
            number = self._next_number[table]
            self._next_number[table] = number + 1
            numbers[value] = number
            text = value if isinstance(value, str) else repr(value)
            self._writer.define(table, number, text)
            if table == "g":
                self._geometries[number] = text.encode()
        return number

    def _geometry(self, tensor: torch.Tensor) -> int:
        return self._number("g", (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype))

    def _append(self, name: str, site: int, module: int, scalars: tuple, flags: int, inputs: list, outputs: list):
        arguments = self._number("a", scalars)
        self._pending.append((self._number("o", name), site, module, arguments, self.step, flags, inputs, outputs))
        self.records += 1
        if len(self._pending) >= _RECORDS_A_BLOCK:
            self._flush()

    def _resolve(self) -> None:
        """Waits for the digests that are on their way."""
        if self._cuda:
            torch.cuda.synchronize()  # operators may have run on any stream
        digests = self._digests.take().tobytes()
        for row, state in enumerate(self._unresolved):
            state.content = digests[16 * row : 16 * row + 16]
        self._unresolved.clear()
        for state in self._parts:
            state.combine()
        self._parts.clear()

    def _define_sites(self) -> None:
        for number in range(self._defined_sites, len(self._sites.table)):
            self._writer.define("s", number, self._sites.table[number])
        self._defined_sites = len(self._sites.table)

    def _flush(self) -> None:
        if not self._pending:
            return
        self._resolve()
        self._define_sites()
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

    def finish_step(self) -> None:
        """An optimizer has made a step."""
        self.step += 1
        if self.steps is not None and self.step >= self.steps:
            raise hooks.StopRecording(f"{self.step} steps were recorded")


def _filled_by_torch() -> bool:
    """Under deterministic mode torch itself fills new memory, the same in every run."""
    return torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory
