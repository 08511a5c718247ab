"""What the dispatcher does not show: modules, optimizer steps, loaders, seeds. Hooked while a recorder is entered.

Each hook is a wrapper that does what the original does and tells the recorders of this thread about it; the last
recorder to leave takes all of them off. They call methods of `Recorder` that are for them alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader, Dataset, dataloader
from torch.utils.data.distributed import DistributedSampler

from ..frames import is_users_file
from ..inspection.environment import host_environment
from .lineage import EXTERNAL, LOADED
from .trace import EVENT, FROM_SAMPLER, IN_LOADER, ORDER


class StopRecording(BaseException):
    """As many steps as were asked for have been recorded: the rest of the script is not run."""


class _Thread(threading.local):
    module = ""  # the path of the module whose forward runs
    loading = False  # is a loader at work?
    starting = False  # is it the start of an epoch, where a loader draws the seed of its workers?


thread = _Thread()
_lock = threading.Lock()
_recorders: list = []
_restore: list[Callable[[], None]] = []
_names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_last_epochs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def environment() -> dict:
    """What two runs should have in common, for the header of a trace."""
    with torch._C._DisableTorchDispatch():  # another recorder may be listening
        states = (torch.get_rng_state().numpy().tobytes(), repr(random.getstate()), repr(np.random.get_state()))
    return {
        **host_environment(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "argv": sys.argv,
        "rng": [hashlib.sha256(s if isinstance(s, bytes) else s.encode()).hexdigest()[:16] for s in states],
    }


def install(recorder: object) -> None:
    recorder._thread = threading.get_ident()
    with _lock:
        if not _recorders:
            _wrap_all()
        _recorders.append(recorder)


def remove(recorder: object) -> None:
    with _lock:
        if recorder in _recorders:
            _recorders.remove(recorder)
        if not _recorders:
            while _restore:
                _restore.pop()()


def _listening() -> list:
    """The recorders of this thread."""
    here = threading.get_ident()
    return [recorder for recorder in _recorders if recorder._thread == here]


def _after_fork() -> None:
    for recorder in _recorders:
        recorder._leave_child()
    _recorders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _replace(owner: object, name: str, wrapper: Callable) -> None:
    original = owner.__dict__[name] if name in vars(owner) else None
    setattr(owner, name, wrapper)
    _restore.append(functools.partial(setattr, owner, name, original) if original else lambda: delattr(owner, name))


def _wrap_all() -> None:
    _replace(torch.nn.Module, "_call_impl", _call_wrapper(torch.nn.Module._call_impl))
    _restore.append(register_optimizer_step_post_hook(_stepped).remove)
    _replace(DataLoader, "__iter__", _iter_wrapper(DataLoader.__iter__))
    _replace(dataloader._BaseDataLoaderIter, "__next__", _next_wrapper(dataloader._BaseDataLoaderIter.__next__))
    _replace(dataloader._BaseDataLoaderIter, "_next_index", _index_wrapper(dataloader._BaseDataLoaderIter._next_index))
    for name in ("numpy", "__dlpack__"):
        _replace(torch.Tensor, name, _export_wrapper(getattr(torch.Tensor, name)))
    _replace(torch, "load", _load_wrapper(torch.load))
    for owner, name in ((torch, "manual_seed"), (torch, "seed"), (torch.random, "manual_seed"), (torch.random, "seed")):
        _replace(owner, name, _event_wrapper(getattr(owner, name), f"torch.{name}"))
    for owner, name in ((random, "seed"), (np.random, "seed"), (torch, "set_num_threads")):
        _replace(owner, name, _event_wrapper(getattr(owner, name), f"{owner.__name__}.{name}"))


def _call_wrapper(original: Callable) -> Callable:
    @functools.wraps(original)
    def _call_impl(self, *args, **kwargs):
        if torch.compiler.is_compiling():
            return original(self, *args, **kwargs)
        outer = thread.module
        thread.module = _names.get(self) or _name(self, outer)
        try:
            return original(self, *args, **kwargs)
        finally:
            thread.module = outer

    return _call_impl


def _name(module: torch.nn.Module, outer: str) -> str:
    """Names a module that has no name yet: with all below it, if it is the outermost one."""
    prefix = f"{outer}.{type(module).__name__}" if outer else type(module).__name__
    for path, child in module.named_modules():
        if child not in _names:
            _names[child] = f"{prefix}.{path}" if path else prefix
    return _names[module]


def _stepped(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
    for recorder in _listening():
        recorder._finish_step()


@contextlib.contextmanager
def _loading(starting: bool = False) -> Iterator[None]:
    before = thread.loading, thread.starting
    thread.loading, thread.starting = True, starting
    try:
        yield
    finally:
        thread.loading, thread.starting = before


def _iter_wrapper(original: Callable) -> Callable:
    @functools.wraps(original)
    def __iter__(self):
        if not thread.loading:
            for recorder in _listening():
                _check_epoch(self, recorder)
                recorder._event("loader::iter", _loader_facts(self), flags=EVENT | IN_LOADER)
        with _loading(starting=True):
            return original(self)

    return __iter__


def _loader_facts(loader: DataLoader) -> tuple:
    """(workers, has a generator of its own, where its samplers' code is, where the code that makes batches is)."""
    samplers = (loader.sampler, loader.batch_sampler)
    order = [place for sampler in samplers for place in _places(sampler, ("__iter__",))]
    values = _places_of_dataset(loader.dataset, 0)
    values += _places(loader.collate_fn, ("__call__",)) + _places(loader.worker_init_fn, ("__call__",))
    return loader.num_workers, loader.generator is not None, tuple(order), tuple(dict.fromkeys(values))[:16]


def _places(value: object, methods: tuple[str, ...]) -> list[tuple[str, int]]:
    """(file, line) of a function, or of an object's methods, as far as they are the user's."""
    functions = [value] if hasattr(value, "__code__") else [getattr(type(value), name, None) for name in methods]
    codes = [function.__code__ for function in functions if hasattr(function, "__code__")]
    return [(os.path.abspath(c.co_filename), c.co_firstlineno) for c in codes if is_users_file(c.co_filename)]


def _places_of_dataset(dataset: object, depth: int) -> list[tuple[str, int]]:
    """The code that gets an item: the dataset's, then that of its transforms, and of the datasets within it."""
    places = _places(dataset, ("__getitem__", "__getitems__", "__iter__", "__call__", "forward"))
    if depth < 4:
        parts = list(getattr(dataset, "__dict__", {}).values())
        for part in parts[:32]:
            for one in part[:8] if isinstance(part, (list, tuple)) else (part,):
                if callable(one) or isinstance(one, Dataset):
                    places += _places_of_dataset(one, depth + 1)
    return places


def _check_epoch(loader: DataLoader, recorder: object) -> None:
    """Two epochs of a DistributedSampler in the same order: set_epoch was forgotten."""
    sampler = loader.sampler
    if not isinstance(sampler, DistributedSampler):
        sampler = getattr(loader.batch_sampler, "sampler", None)
    if not isinstance(sampler, DistributedSampler) or not sampler.shuffle:
        return
    epoch, before = sampler.epoch, _last_epochs.get(sampler)
    _last_epochs[sampler] = epoch
    if before == epoch:
        file, line, _ = recorder._find_site(3)
        finding = {"what": "set_epoch", "file": file, "line": line, "step": recorder.step, "epoch": epoch}
        if not any((known["file"], known["line"]) == (file, line) for known in recorder.findings):
            recorder.findings.append(finding)


def _next_wrapper(original: Callable) -> Callable:
    @functools.wraps(original)
    def __next__(self):
        with _loading():
            batch = original(self)
        listening = _listening()
        if listening and not thread.loading:
            leaves, tensors = [], []
            _flatten(batch, leaves, tensors, 0)
            with torch._C._DisableTorchDispatch():
                for recorder in listening:
                    recorder._batch(tuple(leaves), tensors)
        return batch

    return __next__


def _index_wrapper(original: Callable) -> Callable:
    """What the sampler gives: another order may come from a generator that is not torch's."""

    @functools.wraps(original)
    def _next_index(self):
        index = original(self)
        listening = _listening()
        if listening:
            leaves: list = []
            _flatten(index, leaves, [], 0)
            digest = hashlib.sha256(repr(leaves).encode()).hexdigest()[:32]
            for recorder in listening:
                recorder._event(ORDER, (digest,), flags=EVENT | IN_LOADER | FROM_SAMPLER)
        return index

    return _next_index


def _flatten(value: object, leaves: list, tensors: list, depth: int) -> None:
    """Everything in a batch whose value can differ."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        leaves.append("T")
    elif isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        leaves.append((str(value.dtype), value.shape, digest[:32]))
    elif isinstance(value, (int, float, str, bytes, bool, type(None), complex)):
        leaves.append(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            _flatten(key, leaves, tensors, depth + 1)
            _flatten(item, leaves, tensors, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _flatten(item, leaves, tensors, depth + 1)
    else:
        leaves.append(type(value).__name__)
        if depth < 8 and hasattr(value, "__dict__"):
            _flatten(vars(value), leaves, tensors, depth + 1)


def _export_wrapper(original: Callable) -> Callable:
    """`numpy()`: from now on others can write this memory."""

    @functools.wraps(original)
    def export(self, *args, **kwargs):
        for recorder in _listening():
            recorder._mark(self, EXTERNAL, 0)
        return original(self, *args, **kwargs)

    return export


def _load_wrapper(original: Callable) -> Callable:
    @functools.wraps(original)
    def load(*args, **kwargs):
        loaded = original(*args, **kwargs)
        for recorder in _listening():
            tensors: list = []
            _flatten(loaded, [], tensors, 0)
            site = recorder._number_site(2)
            for tensor in tensors:
                recorder._mark(tensor, LOADED, site)
        return loaded

    return load


def _event_wrapper(original: Callable, name: str) -> Callable:
    @functools.wraps(original)
    def event(*args, **kwargs):
        result = original(*args, **kwargs)
        if not thread.loading:
            said = tuple(value for value in (*args, *kwargs.values(), result) if isinstance(value, (int, float, str)))
            for recorder in _listening():
                recorder._event(name, said)
        return result

    return event
