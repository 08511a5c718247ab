"""Worker processes: seeded, and with the flags and operators of the process that started them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import get_worker_info

from ..dispatch.scopes import CompileWarning, enable, open_now
from ..toolkit import seeding
from ..toolkit.flags import Flags
from ..toolkit.seeding import derive
from .generators import owned_generators, seed_streams


@dataclass(frozen=True)
class Settings:
    """What a process passes on to its workers.

    Attributes:
        flags: torch's switches.
        operators: what is enabled: (names, device, strict).
        seeded: the seed and rank that `seed_everything` was given.
    """

    flags: Flags
    operators: tuple[tuple[tuple[str, ...], str, bool], ...]
    seeded: tuple[int, int, bool] | None

    @staticmethod
    def of_this_process() -> Settings:
        return Settings(Flags.read(), open_now(), seeding.seeded())

    def apply(self) -> None:
        """A forked process has everything already, and nothing changes."""
        self.flags.apply()
        here = {device: set(names) for names, device, _ in open_now()}
        for names, device, strict in self.operators:
            missing = [name for name in names if name not in here.get(device, ())]
            if missing:
                with warnings.catch_warnings():  # the parent was told
                    warnings.simplefilter("ignore", CompileWarning)
                    enable(missing, device, strict)
        seeding.set_seeded(self.seeded)


class SeedWorker:
    """See `seed_worker`. Pickled, as for a worker that is spawned, it takes the settings of the process along."""

    def __init__(self, settings: Settings | None = None):
        self._settings = settings
        self.__name__ = self.__qualname__ = "seed_worker"  # it is called as a function is

    def __call__(self, worker_id: int) -> None:
        if isinstance(worker_id, bool) or not isinstance(worker_id, int):
            raise TypeError(f"reprocuda.seed_worker: worker_id must be an integer, got {worker_id!r}")
        if self._settings is not None:
            self._settings.apply()
        info = get_worker_info()
        owned = {} if info is None else owned_generators(info.dataset)
        seed_streams(derive(torch.initial_seed(), seeding.stream_rank(), "worker", worker_id), owned)

    def __reduce__(self) -> tuple[type, tuple[Settings]]:
        return SeedWorker, (self._settings or Settings.of_this_process(),)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> SeedWorker:
        return self

    def __copy__(self) -> SeedWorker:
        return self

    def __repr__(self) -> str:
        return "reprocuda.seed_worker"


seed_worker = SeedWorker()
seed_worker.__doc__ = """Seeds a DataLoader's worker; pass it as worker_init_fn.

    Python's random, NumPy's legacy global generator and torch's get seeds of their own from the worker's
    torch.initial_seed(), its number and the rank: no worker, epoch or rank repeats another. So do the generators that
    the dataset owns, through its transforms, lists, partials, closures and class attributes (np.random.Generator,
    RandomState, random.Random, torch.Generator), which every worker otherwise gets as a copy in the same state.

    A worker that is spawned starts with torch's flags at their defaults and nothing enabled. This function, when it is
    pickled for that worker, takes along what holds in the parent at that moment, and sets it before the first sample.
    Called from a function of your own, it is found by name and takes nothing along: then use `data.loader`, whose
    worker_init_fn is called in workers that are set up already.

    The streams belong to the worker: another number of workers gives other numbers. `data.loader` seeds each sample.

    Args:
        worker_id: the worker's number.

    Raises:
        TypeError: worker_id is not an integer.

    Cost: once a worker and epoch, some tens of microseconds, and a search through what the dataset holds.

    Example:
        >>> import numpy as np, torch, reprocuda
        >>> class Noise(torch.utils.data.Dataset):
        ...     generator = np.random.default_rng(0)
        ...     def __len__(self): return 8
        ...     def __getitem__(self, i): return self.generator.random()
        >>> loader = torch.utils.data.DataLoader(Noise(), num_workers=2, worker_init_fn=reprocuda.seed_worker)
        >>> len({float(x) for x in loader})
        8
    """
