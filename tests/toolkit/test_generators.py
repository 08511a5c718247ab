"""Generators that a dataset reaches in the ways that users write: helpers, globals, comprehensions, made late."""

import functools
import random
from collections import deque

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from reprocuda.data import loader
from tests.toolkit import drawing

generator = np.random.default_rng(0)


class Noise:
    __slots__ = ("__own",)

    def __init__(self):
        self.__own = random.Random(1)

    def __call__(self):
        return self.__own.random()


NOISE = Noise()
PIPELINE = [Noise(), functools.partial(np.random.default_rng(4).normal, 1.0)]


def helper():
    return generator.random()


class Own(Dataset):
    """One column for each way to a generator."""

    def __init__(self):
        self.transforms = deque([Noise()])
        self.bound = random.Random(5).random
        self._late = None

    def __len__(self):
        return 10

    @property
    def hidden(self):
        return of_a_property.random()

    @functools.cached_property
    def cached(self):
        return np.random.default_rng(7)

    def by_default(self, *, own=random.Random(8)):  # noqa: B008 - one for all, as users write it
        return own.random()

    def late(self):
        if self._late is None:
            self._late = torch.Generator()
        return float(torch.rand((), generator=self._late))

    def __getitem__(self, index):
        ways = {
            "comprehension": sum(generator.random() for _ in range(2)),
            "lambda": (lambda: generator.random())(),
            "helper": helper(),
            "module": drawing.draw(),
            "attribute of a module": drawing.generator.random(),
            "global transform": NOISE(),
            "global list": sum(noise() for noise in PIPELINE),
            "deque": self.transforms[0](),
            "bound": self.bound(),
            "property": self.hidden,
            "cached property": self.cached.random(),
            "default": self.by_default(),
            "late": self.late(),
        }
        return torch.tensor([index, *ways.values()], dtype=torch.float64)


of_a_property = random.Random(9)


def epochs(dataset, workers, **kwargs):
    batches = loader(dataset, batch_size=3, shuffle=True, seed=5, num_workers=workers, **kwargs)
    return torch.cat([batch for _ in range(2) for batch in batches])


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(("workers", "persistent"), [(1, False), (2, True), (4, False)])
def test_every_way_to_a_generator_is_seeded(workers, persistent):
    own = Own()
    alone = epochs(own, 0)
    assert torch.equal(alone, epochs(own, 0))  # nothing goes on from walk to walk
    assert torch.equal(alone, epochs(Own(), workers, persistent_workers=persistent))
    for column in range(1, alone.shape[1]):
        assert alone[:, column].unique().numel() == 20, column


def test_a_library_is_not_searched(monkeypatch):
    """A dataset that names functions of torch and NumPy costs no walk through them."""
    from reprocuda.data import generators

    class Plain(Dataset):
        def __getitem__(self, index):
            return torch.nn.functional.pad(torch.stack([torch.ones(1)]), (1, 1)), np.random.randint(3), random.random()

    seen = []
    real = generators._parts
    monkeypatch.setattr(generators, "_parts", lambda thing, classes: seen.append(thing) or real(thing, classes))
    assert generators.owned_generators(Plain()) == {} and len(seen) < 20
