"""Follows what storages hold through the operators that read and write them, and hashes what it has to."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..inspection.digests import parts_of
from .facts import Facts
from .fingerprint import Digests
from .hooks import thread
from .lineage import BLANK, EXTERNAL, KNOWN, OWN_STATE, UNWRITTEN, State, mix, poison
from .names import Names
from .trace import GEOMETRIES

_UNRESOLVED = 4096  # digests that stay on the device at most
_SMALL = 1 << 16  # elements that are hashed without a thought

_Tensor = torch.Tensor
_PLAIN_DISPATCH = torch.Tensor.__torch_dispatch__


class Contents:
    """The states of all storages that one recorder has seen.

    Args:
        key: the attribute of storages that holds our state of them.
        run: which run this is, for the pattern in memory that was not written.
        names: numbers geometries and sites.
        earlier: keys of recorders that were there before.
    """

    def __init__(self, key: str, run: int, names: Names, earlier: Iterable[str]):
        self.step = 0
        self._key = key
        self._run = run
        self._names = names
        self._earlier = tuple(earlier)
        self._digests = Digests()
        self._cuda = False  # was anything hashed on a GPU?
        self._unresolved: list[State] = []
        self._parts: list[State] = []

    def read(self, facts: Facts, tensor: torch.Tensor, inputs: list) -> None:
        storage = _storage_of(tensor)
        if storage is None:
            inputs.append((self.hashed(tensor, EXTERNAL), self._names.number(GEOMETRIES, (str(tensor.layout),))))
            return
        geometry = self._names.geometry(tensor)
        state = getattr(storage, self._key, None)
        if state is None:
            carried = any(hasattr(storage, key) for key in self._earlier)
            state = State(OWN_STATE if carried else EXTERNAL)
            setattr(storage, self._key, state)
        if state.origin == KNOWN:
            inputs.append((state, geometry))
        elif facts.view and not facts.lifts:
            inputs.append((BLANK, geometry))
        elif not (state.origin == UNWRITTEN and facts.copies):
            inputs.append((self._checked(state, tensor, geometry), geometry))

    def _checked(self, state: State, tensor: torch.Tensor, geometry: int) -> State:
        """The content of `tensor`, which looks at memory that others may have written since we last looked.

        Hashed at each use; where that costs, only when it was written and once in a step, and the less often the
        longer it has not changed.
        """
        if tensor.numel() < _SMALL:
            return self.hashed(tensor, state.origin, state.site)
        views = state.views
        if views is None or len(views) > 4096:
            views = state.views = {}
        found = views.get(geometry)
        stamp = (tensor._version if not tensor.is_inference() else 0, state.writes)
        if found is not None and found[1] == stamp and self.step < found[2]:
            return found[0]
        content = self.hashed(tensor, state.origin, state.site)
        unchanged = found[3] + 1 if found is not None and found[1] == stamp else 0
        views[geometry] = (content, stamp, self.step + (1 << min(max(unchanged - 2, 0), 10)), unchanged)
        return content

    def hashed(self, tensor: torch.Tensor, origin: int = KNOWN, site: int = 0) -> State:
        """A new state whose content is the hash of `tensor`, on its way."""
        state = State(origin, site)
        if type(tensor).__torch_dispatch__ is not _PLAIN_DISPATCH:  # stands for other tensors, which were recorded
            state.content = bytes(16)
            return state
        if tensor.device.type not in ("cpu", "cuda", "meta"):
            tensor = tensor.cpu()
        plain = tensor.layout == torch.strided and not tensor.is_quantized
        if plain and not tensor.is_meta and not tensor._is_zerotensor():
            self._hash(state, tensor)
            return state
        pieces = [self.hashed(part) for part in parts_of(tensor) if part is not tensor]
        if not pieces:
            state.content = bytes(16)
            return state
        self.resolve()
        state.content = mix(*(piece.content for piece in pieces))
        return state

    def _hash(self, state: State, tensor: torch.Tensor) -> None:
        """Starts hashing `tensor` for `state`."""
        if tensor.is_cuda:
            self._cuda = True
            if torch.cuda.is_current_stream_capturing():
                state.content = bytes(16)  # a captured hash is computed at every replay, into another tensor's row
                return
        if len(self._unresolved) >= _UNRESOLVED:
            self.resolve()
        self._digests.append(tensor)
        self._unresolved.append(state)

    def wrote(self, facts: Facts, tensor: torch.Tensor, garbage: State | None, inputs: list, outputs: list) -> bool:
        """Notes what `tensor` holds now; is it only a part of its storage?"""
        storage = _storage_of(tensor)
        if storage is None:
            outputs.append(self.hashed(tensor))
            return True
        before = getattr(storage, self._key, None)
        if garbage is not None:
            setattr(storage, self._key, State(UNWRITTEN, garbage.site))
            return True
        whole = tensor.numel() * tensor.element_size() >= storage.nbytes()
        written = self.hashed(tensor)
        outputs.append(written)
        if whole and tensor.is_contiguous():
            setattr(storage, self._key, written)
            if before is not None and before.origin == KNOWN and facts.overwrites:
                inputs.append((before, -1))
            return False
        if before is None:
            before = State(EXTERNAL)
            setattr(storage, self._key, before)
        if not whole and before.origin != KNOWN:
            before.writes += 1
            return True
        state = State()
        state.written, state.base = written, None if whole else before
        state.geometry = self._names.geometries[self._names.geometry(tensor)]
        state.loader = thread.loading
        self._parts.append(state)
        setattr(storage, self._key, state)
        return True

    def made(self, facts: Facts, args: tuple, result: object, site: int, outputs: list) -> None:
        if isinstance(result, _Tensor):
            result = (result,)
        elif not isinstance(result, (list, tuple)):
            return
        for tensor in result:
            if isinstance(tensor, (list, tuple)):
                self.made(facts, args, tensor, site, outputs)
            if not isinstance(tensor, _Tensor):
                continue
            storage = _storage_of(tensor)
            if storage is None:
                outputs.append(self.hashed(tensor))
                continue
            if getattr(storage, self._key, None) is not None:
                continue  # a view, or an argument given back: nothing new
            if facts.empty and not _filled_by_torch():
                with torch._C._DisableTorchDispatch():  # no matter for another recorder
                    poison(tensor, self._run)
                state = State(UNWRITTEN, self._names.sites.of_operator(site, facts.name))
            elif facts.copies and (source := self.unwritten_source(args)) is not None:
                state = State(UNWRITTEN, source.site)
            else:
                state = self.hashed(tensor)
                outputs.append(state)
            setattr(storage, self._key, state)

    def rebound(self, facts: Facts, tensor: torch.Tensor, before: int, site: int) -> None:
        """resize_ and the like: memory that appeared has not been written."""
        after = bytes_of(tensor)
        if facts.name.startswith("aten::set_") or after <= before or _filled_by_torch():
            return
        storage, known = tensor.untyped_storage(), before // tensor.element_size()
        count = after // tensor.element_size() - known
        with torch._C._DisableTorchDispatch():
            grown = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, known, (count,), (1,))
            poison(grown, self._run)
        setattr(storage, self._key, State(UNWRITTEN, self._names.sites.of_operator(site, facts.name)))

    def unwritten_source(self, args: tuple) -> State | None:
        """The state of what is copied, if it was never written."""
        for value in reversed(args[:2]):
            if isinstance(value, (list, tuple)) and value:
                value = value[0]
            if isinstance(value, _Tensor):
                plain = value.layout == torch.strided
                state = getattr(value.untyped_storage(), self._key, None) if plain else None
                return state if state is not None and state.origin == UNWRITTEN else None
        return None

    def mark(self, tensor: torch.Tensor, origin: int, site: int) -> None:
        """Says where memory that was not recorded came from, or that others may write it from now on."""
        if tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        state = getattr(storage, self._key, None)
        if state is None or state.loader or (origin == EXTERNAL and state.origin == KNOWN):
            setattr(storage, self._key, State(origin, site))
        elif state.origin == EXTERNAL:
            state.origin, state.site = origin, site

    def resolve(self) -> None:
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


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """None of sparse and opaque tensors: they are hashed whole, each time."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def bytes_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() if tensor.layout == torch.strided and not tensor.is_meta else 0


def _filled_by_torch() -> bool:
    """Under deterministic mode torch itself fills new memory, the same in every run."""
    return torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory
