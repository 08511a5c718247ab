"""Datasets that draw from every kind of generator; importable, for workers that are spawned."""

import functools
import random

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

import reprocuda

COLUMNS = ("index", "random", "gauss", "numpy", "numpy normal", "torch", "distribution")


def draw_all(index):
    return torch.tensor(
        [
            index,
            random.random(),
            random.gauss(0, 1),
            np.random.rand(),
            np.random.randn(),
            torch.rand(()).item(),
            torch.distributions.Uniform(0.0, 1.0).sample().item(),
        ],
        dtype=torch.float64,
    )


class Draws(Dataset):
    """A row of numbers from the global generators."""

    def __init__(self, length=11):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return draw_all(index)


class Jitter:
    __slots__ = ("rng",)

    def __init__(self):
        self.rng = np.random.RandomState(0)

    def __call__(self, x):
        return x + self.rng.randn()


class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, x):
        return functools.reduce(lambda y, transform: transform(y), self.transforms, x)


def shift(x, rng=None):
    return x + rng.random()


def mirrored(rng):
    return lambda x: x * rng.uniform(1, 2)


def own_generators():
    """One of each kind, each owned in another way."""
    return [
        np.random.default_rng(0),
        Compose(Jitter(), Compose(functools.partial(shift, rng=random.Random(0)))),
        mirrored(random.Random(1)),
        {"deep": [torch.Generator().manual_seed(0)]},
        np.random.Generator(np.random.Philox(3)),
    ]


class Owning(Draws):
    """A row of numbers from generators of its own, one of the class's among them."""

    of_the_class = np.random.default_rng(7)

    def __init__(self, length=11):
        super().__init__(length)
        self.own = own_generators()

    def __getitem__(self, index):
        generator, compose, closure, deep, philox = self.own
        torch_generator = deep["deep"][0] if "deep" in deep else None
        row = [index, generator.random(), compose(0.0), closure(1.0), torch.rand((), generator=torch_generator).item()]
        return torch.tensor([*row, philox.random(), self.of_the_class.random()], dtype=torch.float64)


class PicklableOwning(Owning):
    """Without what torch cannot send to a spawned worker: closures, and generators of its own."""

    def __init__(self, length=11):
        super().__init__(length)
        self.own[2] = Jitter()
        self.own[3] = {}


class State(Dataset):
    """What holds in the worker."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        rows, values = torch.zeros(3, dtype=torch.long), torch.tensor([1e8, 1.0, -1e8], dtype=torch.float32)
        return {
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
            "benchmark": torch.backends.cudnn.benchmark,
            "fill": torch.utils.deterministic.fill_uninitialized_memory,
            "dtype": str(torch.get_default_dtype()),
            "exact": torch.zeros(1, dtype=torch.float32).index_add(0, rows, values).item() == 1.0,
            "scatter": torch.zeros(1, dtype=torch.float32).scatter_add(0, rows, values).item() == 1.0,
            "rank": reprocuda.toolkit.seeding.stream_rank(),
        }


class Stream(IterableDataset):
    """Each worker takes its share, shuffled in a buffer by a generator of its own, jittered by the global ones."""

    def __init__(self, length=23):
        self.length = length
        self.rng = np.random.default_rng(0)

    def __iter__(self):
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        mine = list(range(start, self.length, step))
        self.rng.shuffle(mine)
        for index in mine:
            yield draw_all(index)


def noisy_collate(samples):
    """Draws too, as collators that mask or mix do."""
    rows = torch.stack(samples)
    return torch.cat([rows, draw_all(len(samples))[None]])


def identity(samples):
    return samples


def rows_of(batches):
    return torch.cat(list(batches))


def distinct(column):
    return column.unique().numel() == column.numel()
