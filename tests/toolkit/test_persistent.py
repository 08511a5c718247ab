"""Loaders with workers that persist: several iterators at once, and an end with the loader."""

import gc
import multiprocessing
import pickle

import pytest
import torch

from reprocuda.data import loader
from tests.toolkit.datasets import Draws


def make(workers):
    return loader(Draws(), batch_size=3, shuffle=True, seed=5, num_workers=workers, persistent_workers=workers > 0)


def walks(workers):
    batches = make(workers)
    seen = [batch for pair in zip(batches, batches, strict=True) for batch in pair]
    for outer in batches:
        seen += [outer, *batches]
        break
    return torch.cat([*seen, *batches])


@pytest.mark.parametrize("workers", [1, 2])
def test_two_iterators_do_not_disturb_each_other(workers):
    assert torch.equal(walks(0), walks(workers))


def test_the_workers_persist_from_epoch_to_epoch_also_after_a_break():
    batches = make(2)
    list(batches)
    first = {child.pid for child in multiprocessing.active_children()}
    for _ in batches:
        break
    list(batches)
    assert {child.pid for child in multiprocessing.active_children()} == first


def test_the_workers_end_with_the_loader():
    """Without waiting for a collection of cycles, which in another worker would end processes that are not its own."""
    before = len(multiprocessing.active_children())
    gc.disable()
    try:
        batches = make(2)
        list(batches)
        assert len(multiprocessing.active_children()) == before + 2
        del batches
        assert len(multiprocessing.active_children()) == before
    finally:
        gc.enable()


def test_a_loader_in_use_can_be_pickled():
    batches = make(0)
    begun = iter(batches)
    next(begun)
    assert torch.equal(torch.cat(list(pickle.loads(pickle.dumps(batches)))), torch.cat(list(batches)))
