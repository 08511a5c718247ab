"""What runs in a worker, or in the main process without workers: one batch, seeded sample by sample.

A batch is asked for by a `Request`, which says where in the run it is; the samples' random numbers follow from that
alone, in whichever process it is fetched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ..toolkit.seeding import derive
from .generators import owned_generators, seed_streams
from .workers import Settings


class Request(NamedTuple):
    """One batch.

    Attributes:
        seed: of the loader.
        rank: whose streams; 0 where positions are counted over all ranks.
        epoch: the number of the epoch.
        number: the number of the batch in it.
        first: the position of its first sample in the epoch.
        step: how far apart the positions of neighbouring samples are: the number of ranks that share one order.
        indices: what the sampler gave: a list, or one index where there are no batches.
    """

    seed: int
    rank: int
    epoch: int
    number: int
    first: int
    step: int
    indices: Any

    def bits(self, kind: str, position: int) -> int:
        return derive(self.seed, self.rank, self.epoch, kind, position)


class _Seeded:
    """The user's dataset and collate function, and the generators that both own."""

    def __init__(self, dataset: Any, collate: Callable):
        self.dataset = dataset
        self.collate = collate
        self._epoch: int | None = None
        self._owned: dict[str, Any] = {}
        self._has_fetched = False

    def _search(self) -> dict[str, Any]:
        return owned_generators(self.dataset) | owned_generators(self.collate, "collate_fn")

    def owned(self, epoch: int) -> dict[str, Any]:
        """Searched once an epoch and process: the pickled copy of a worker has generators of its own."""
        if epoch != self._epoch:
            self._owned = self._search()
            self._epoch = epoch
        return self._owned

    def seeded(self, bits: int, fetch: Callable[[], Any]) -> Any:
        """What `fetch` gives with all generators seeded. A generator that a dataset makes when its first sample is
        fetched is found after that: the sample is then fetched once more, as it would be in a process that had it.
        """
        seed_streams(bits, self._owned)
        found = fetch()
        if not self._has_fetched:
            self._has_fetched = True
            owned = self._search()
            if owned.keys() != self._owned.keys():
                self._owned = owned
                seed_streams(bits, owned)
                found = fetch()
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_epoch": None, "_owned": {}, "_has_fetched": False}


class Fetch(_Seeded, Dataset):
    """Map-style: a dataset of batches, indexed by requests."""

    def __init__(self, dataset: Any, collate: Callable, batched: bool):
        super().__init__(dataset, collate)
        self._batched = batched

    def __getitem__(self, request: Request) -> Any:
        self.owned(request.epoch)
        samples = self._samples(request)
        seed_streams(request.bits("batch", request.first), self._owned)
        return self.collate(samples)

    def _samples(self, request: Request) -> Any:
        indices = request.indices
        if not self._batched or getattr(self.dataset, "__getitems__", None):
            return self.seeded(
                request.bits("sample", request.first),
                lambda: self.dataset.__getitems__(indices) if self._batched else self.dataset[indices],
            )
        return [
            self.seeded(
                request.bits("sample", request.first + offset * request.step), lambda index=index: self.dataset[index]
            )
            for offset, index in enumerate(indices)
        ]


class IterableFetch(_Seeded, IterableDataset):
    """Iterable: batches of what the dataset yields. Each process has its own copy of the dataset, and its own streams.

    `epoch` is in shared memory: workers that persist learn of the next one from it.
    """

    def __init__(self, dataset: Any, collate: Callable, batch_size: int | None, drop_last: bool, seed: int, rank: int):
        super().__init__(dataset, collate)
        self._batch_size, self._drop_last = batch_size, drop_last
        self._seed, self._rank = seed, rank
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __iter__(self) -> Iterator[Any]:
        info, epoch = get_worker_info(), int(self.epoch)
        worker = 0 if info is None else info.id
        owned = self.owned(epoch)

        def seed(kind: str, position: int) -> None:
            seed_streams(derive(self._seed, self._rank, epoch, "worker", worker, kind, position), owned)

        def items() -> Iterator[Any]:
            seed("iter", 0)
            source = iter(self.dataset)
            for position in itertools.count():
                seed("sample", position)
                try:
                    yield next(source)
                except StopIteration:
                    return

        stream = items()
        for number in itertools.count():
            if self._batch_size is None:
                batch = list(itertools.islice(stream, 1))
            else:
                batch = list(itertools.islice(stream, self._batch_size))
            if not batch or (self._drop_last and len(batch) < (self._batch_size or 1)):
                return
            seed("batch", number)
            yield self.collate(batch if self._batch_size is not None else batch[0])


class WorkerStart:
    """The worker_init_fn: flags and operators of the main process, the user's dataset in get_worker_info(), the user's
    own function.
    """

    def __init__(self, init: Callable[[int], Any] | None, seed: int, rank: int):
        self._init, self._seed, self._rank = init, seed, rank
        self._settings: Settings | None = None  # of the parent, where this was pickled for a worker that is spawned

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_settings": self._settings or Settings.of_this_process()}

    def __call__(self, worker_id: int) -> None:
        if self._settings is not None:
            self._settings.apply()
        info = get_worker_info()
        wrapped: _Seeded = info.dataset
        object.__setattr__(info, "dataset", wrapped.dataset)  # what a user's function expects there
        if self._init is not None:
            bits = derive(self._seed, self._rank, "worker_init_fn", worker_id)
            seed_streams(bits, owned_generators(wrapped.dataset))
            self._init(worker_id)


def as_it_is(batch: Any) -> Any:
    """The outer loader's collate function: the batch is one already."""
    return batch
