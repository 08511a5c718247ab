"""A DataLoader whose order and random numbers follow from a seed, an epoch and a position alone."""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    IterDataPipe,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from ..toolkit.seeding import checked_number, derive, shared_seed, stream_rank
from .fetching import Fetch, IterableFetch, Request, WorkerStart, as_it_is
from .generators import MASK64, Aside, owned_generators
from .workers import SeedWorker

_OF_TORCH = (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
_PASSED_ON = ("num_workers", "pin_memory", "timeout", "multiprocessing_context", "prefetch_factor")
_STATE = {"version", "seed", "epoch", "batches", "length", "workers"}


class _Requests(Sampler):
    """Turns what the user's sampler yields into requests, and draws nothing from the generators outside.

    It does not hold the loader, which holds it: a loader that is no longer used ends at once, and its workers with it.
    """

    def __init__(self, loader: Loader):
        self._sampler, self._batched, self._dataset = loader._index_sampler, loader._auto_collation, loader.dataset
        self.seed, self.rank = loader.seed, loader.rank
        self.epoch = 0
        self.skip = 0

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Request]:
        return self._of_epoch(self.seed, self.epoch, self.skip)  # may be others before the first is asked for

    def _of_epoch(self, seed: int, epoch: int, skip: int) -> Iterator[Request]:
        sampler, batched = self._sampler, self._batched
        inner = getattr(sampler, "sampler", sampler)
        aside = Aside(
            derive(seed, epoch, "order"),
            owned_generators(sampler, "sampler", without=[self._dataset]),
            python_and_numpy=not all(type(s) in _OF_TORCH for s in (sampler, inner)),
        )
        ranks, rank = 1, self.rank
        first = 0
        if isinstance(inner, DistributedSampler):  # positions in the order that all ranks share
            ranks, rank, first = inner.num_replicas, 0, inner.rank
        indices_of = None
        for number in itertools.count():
            with aside:
                try:
                    indices_of = iter(sampler) if indices_of is None else indices_of
                    indices = next(indices_of)
                except StopIteration:
                    return
            if number >= skip:
                yield Request(seed, rank, epoch, number, first, ranks, indices)
            first += ranks * (len(indices) if batched else 1)


class Loader(DataLoader):
    """See `reprocuda.data.loader`."""

    def __init__(self, dataset: Any, *args: Any, seed: int | None = None, rank: int | None = None, **kwargs: Any):
        if isinstance(dataset, IterDataPipe):
            raise TypeError(
                "reprocuda.data.loader: dataset is an IterDataPipe, which seeds and shards itself inside torch's own "
                "DataLoader; give a Dataset or an IterableDataset"
            )
        if not kwargs.get("in_order", True):
            raise ValueError("reprocuda.data.loader: in_order=False returns batches in the order of their completion")
        given = inspect.signature(DataLoader.__init__).bind(self, dataset, *args, **kwargs).arguments
        del given["self"]
        own = given.get("generator")
        if seed is None:
            seed = own.initial_seed() if isinstance(own, torch.Generator) else shared_seed()
        self.seed = checked_number("data.loader", "seed", seed)
        self.rank = stream_rank() if rank is None else checked_number("data.loader", "rank", rank)
        super().__init__(**{**given, "generator": torch.Generator()})
        self._epoch = 0
        self._batches = 0
        self._walk: object | None = None  # the latest iterator, once it has yielded
        self._inner: DataLoader | None = None
        self._open: weakref.ref | None = None  # to the latest iterator
        self._requests = _Requests(self)

    @property
    def epoch(self) -> int:
        """The epoch under way, or the next one where none is."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Lets the next iteration be this epoch, from its first batch. Epochs are counted otherwise."""
        self._epoch = checked_number("data.Loader.set_epoch", "epoch", epoch)
        self._batches, self._walk = 0, None

    def _iterable(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    def _length(self) -> int | None:
        if self._iterable():
            return None
        try:
            return len(self._index_sampler)
        except TypeError:
            return None

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: after the batches that were handed out, whatever workers have prepared beyond them.

        Returns:
            A dictionary of numbers, for `load_state_dict` of a loader over the same data with the same batch size and
            sampler, with any number of workers for map-style datasets.
        """
        return {
            "version": 1,
            "seed": self.seed,
            "epoch": self._epoch,
            "batches": self._batches,
            "length": self._length(),
            "workers": self.num_workers if self._iterable() else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there: the next iteration gives the remaining batches of that epoch, those of the run that was
        left, bit for bit.

        A map-style dataset's batches are skipped in the sampler and never loaded. An iterable one has to be walked
        again up to there, at the price of loading it, with the same number of workers.

        Args:
            state: what `state_dict` returned.

        Raises:
            TypeError: state is no dictionary.
            ValueError: it is no state of a loader, or of one over other data.
        """
        function = "reprocuda.data.Loader.load_state_dict"
        if not isinstance(state, Mapping):
            raise TypeError(f"{function}: state must be what state_dict() returned, got {type(state).__name__}")
        if set(state) != _STATE:
            raise ValueError(f"{function}: state has {sorted(state)}, expected {sorted(_STATE)}")
        here = {"length": self._length(), "workers": self.num_workers if self._iterable() else None}
        for name, value in here.items():
            if state[name] != value:
                meaning = "batches an epoch" if name == "length" else "workers reading an iterable dataset"
                raise ValueError(f"{function}: state is of {state[name]} {meaning}, this loader has {value}")
        self.seed = state["seed"]
        self._epoch, self._batches, self._walk = state["epoch"], state["batches"], None
        self._inner = None

    def __iter__(self) -> Iterator[Any]:
        if self._walk is not None:
            self._epoch, self._batches = self._epoch + 1, 0
        epoch, skip = self._epoch, self._batches
        for part in (self.batch_sampler, self.sampler, getattr(self.batch_sampler, "sampler", None), self.dataset):
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)
        if self._inner is None or not self.persistent_workers or self._is_busy():
            self._inner = self._make_inner()
        if self._iterable():
            self._inner.dataset.epoch.fill_(epoch)
        else:
            self._requests.seed, self._requests.epoch, self._requests.skip = self.seed, epoch, skip
        batches = self._batches_of(iter(self._inner), epoch, skip if self._iterable() else 0)
        self._open = weakref.ref(batches)
        return batches

    def _is_busy(self) -> bool:
        """Is an iterator still in use? Workers that persist serve one at a time, and would leave it for the next."""
        batches = None if self._open is None else self._open()
        return batches is not None and batches.gi_frame is not None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None, "_inner": None}

    def _make_inner(self) -> DataLoader:
        passed = {name: getattr(self, name) for name in _PASSED_ON}
        if self.num_workers:
            init = None if isinstance(self.worker_init_fn, SeedWorker) else self.worker_init_fn
            passed["worker_init_fn"] = WorkerStart(init, self.seed, self.rank)
            passed["persistent_workers"] = self.persistent_workers
        passed["generator"] = torch.Generator().manual_seed(derive(self.seed, "workers") & MASK64)
        if self._iterable():
            dataset = IterableFetch(
                self.dataset, self.collate_fn, self.batch_size, self.drop_last, self.seed, self.rank
            )
        else:
            dataset = Fetch(self.dataset, self.collate_fn, self._auto_collation)
            passed["sampler"] = self._requests
        return DataLoader(dataset, batch_size=None, collate_fn=as_it_is, **passed)

    def _batches_of(self, inner: Iterator[Any], epoch: int, skip: int) -> Iterator[Any]:
        walk, fetch = object(), self._inner.dataset
        for number in itertools.count():
            try:
                if self.num_workers:
                    batch = next(inner)
                else:  # seeded in this process, whose own generators must not notice; one thread, as a worker has
                    with Aside(None, fetch.owned(epoch), threads=1):
                        batch = next(inner)
            except StopIteration:
                break
            if number < skip:
                continue
            if number == skip:
                self._walk = walk
            if self._walk is walk:  # else another iterator has begun since, and the loader is where that one is
                self._batches += 1
            yield batch
        if self._walk is walk or self._walk is None:
            self._epoch, self._batches, self._walk = epoch + 1, 0, None


def loader(dataset: Any, *args: Any, seed: int | None = None, rank: int | None = None, **kwargs: Any) -> Loader:
    """A torch.utils.data.DataLoader whose batches are the same for every number of workers, and can be resumed.

    The order of an epoch follows from (seed, epoch), a sample's random numbers from (seed, epoch, its position), the
    collate function's from (seed, epoch, the batch's position), for Python's random, NumPy's legacy global generator,
    torch's on the CPU, and the generators that dataset, transforms and collate function own. So:

    - 0, 1, 2 or 4 workers, persistent or not, forked or spawned: the same batches.
    - Nothing is drawn from the generators outside: walking a validation loader does not move the training's order or
      dropout. Without workers, they are put aside around each batch, and the fetch runs on one thread, as in a worker.
    - Each iteration is the next epoch: other orders, other augmentations. `set_epoch` of sampler, batch sampler and
      dataset is called with its number. An iterator that has handed out nothing uses up no epoch.
    - Under a DistributedSampler, positions are counted in the order that all ranks share: each sample gets the numbers
      that it has on one rank alone.
    - Workers that are spawned get torch's flags and the enabled operators of the process that iterates.
    - `state_dict()`, `load_state_dict(state)`: the remaining batches of an epoch, with any number of workers.

    A sampler must depend on random numbers and set_epoch alone, and on no state that it keeps from epoch to epoch. An
    epoch that is left by `break` stays where it is for `state_dict`, while the next iteration of this process is the
    next epoch. A dataset's own `set_epoch` does not reach the copies in workers that persist. CUDA's generators are not
    seeded for each sample. A dataset with `__getitems__`, which fetches a batch at once, is seeded for each batch.
    Loaders with one seed have one order and one stream: give independent loaders seeds of their own.

    An iterable dataset decides itself what each worker reads. It is seeded for each worker and item, persistent or not,
    and the same from run to run for the same number of workers.

    Args:
        dataset: map-style or iterable.
        *args, **kwargs: as for DataLoader. `generator` gives the seed, and is neither drawn from nor changed;
            `worker_init_fn` is called in workers that are set up already.
        seed: from 0; None: that of `generator`, else what `seed_everything` was given, else torch.initial_seed().
        rank: whose samples' random numbers; None: that of `seed_everything`, else torch.distributed's or $RANK. The
            order is the same on all ranks.

    Returns:
        A `Loader`, a DataLoader with `epoch`, `set_epoch`, `state_dict` and `load_state_dict`.

    Raises:
        TypeError: an IterDataPipe, which seeds itself; a seed or rank that is no integer; what DataLoader refuses.
        ValueError: negative seed or rank; in_order=False; what DataLoader refuses.

    Cost: some 25 microseconds a sample, and 0.4 ms a batch without workers, on a busy CPU.

    Example:
        >>> import torch, reprocuda
        >>> class Noisy(torch.utils.data.Dataset):
        ...     def __len__(self): return 8
        ...     def __getitem__(self, i): return i + torch.rand(())
        >>> def epochs(workers):
        ...     batches = reprocuda.data.loader(Noisy(), batch_size=3, shuffle=True, seed=1, num_workers=workers)
        ...     return torch.cat([*batches, *batches])
        >>> torch.equal(epochs(0), epochs(2))
        True
    """
    return Loader(dataset, *args, seed=seed, rank=rank, **kwargs)


def reproduce(loader: DataLoader, seed: int | None = None, rank: int | None = None) -> Loader:
    """A `Loader` over the same dataset with the settings of an existing DataLoader, which itself stays as it is.

    Args:
        loader: any DataLoader; its sampler, batch sampler, collate function, workers and worker_init_fn are taken over.
        seed: as for `reprocuda.data.loader`.
        rank: as for `reprocuda.data.loader`.

    Returns:
        A `Loader`.

    Raises:
        TypeError: loader is no DataLoader, or reads an IterDataPipe.
        ValueError: it does not keep the order of its batches.

    Example:
        >>> import torch, reprocuda
        >>> ordinary = torch.utils.data.DataLoader(range(6), batch_size=2, shuffle=True)
        >>> first, second = (reprocuda.data.reproduce(ordinary, seed=3) for _ in range(2))
        >>> [b.tolist() for b in first] == [b.tolist() for b in second]
        True
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(f"reprocuda.data.reproduce: loader must be a DataLoader, got {type(loader).__name__}")
    passed = {name: getattr(loader, name) for name in (*_PASSED_ON, "collate_fn", "worker_init_fn", "in_order")}
    if loader.num_workers:
        passed["persistent_workers"] = loader.persistent_workers
    if isinstance(loader, Loader):
        seed, rank = loader.seed if seed is None else seed, loader.rank if rank is None else rank
    elif loader.generator is not None:
        passed["generator"] = loader.generator
    if isinstance(loader.dataset, IterableDataset):
        passed.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
    elif loader.batch_sampler is None:
        passed.update(batch_size=None, sampler=loader.sampler)
    elif loader.batch_size is None:
        passed["batch_sampler"] = loader.batch_sampler
    else:
        passed.update(batch_size=loader.batch_size, drop_last=loader.drop_last, sampler=loader.sampler)
    return Loader(loader.dataset, seed=seed, rank=rank, **passed)
