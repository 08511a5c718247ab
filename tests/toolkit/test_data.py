"""Loaders whose batches follow from seed, epoch and position: workers, epochs, ranks, resumption."""

import random

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, Sampler, WeightedRandomSampler

import reprocuda
from reprocuda.data import loader, reproduce
from tests.toolkit.datasets import (
    COLUMNS,
    Draws,
    Owning,
    PicklableOwning,
    Stream,
    distinct,
    noisy_collate,
    rows_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning", "ignore:This DataLoader will create")


def epochs(dataset, count=2, **kwargs):
    kwargs = {"batch_size": 3, "shuffle": True, "seed": 5, **kwargs}
    batches = loader(dataset, **kwargs)
    return [rows_of(batches) for _ in range(count)]


@pytest.mark.parametrize("kind", [Draws, Owning])
@pytest.mark.parametrize("collate", [None, noisy_collate])
def test_the_number_of_workers_does_not_show(kind, collate):
    alone = epochs(kind(), collate_fn=collate)
    for workers in (1, 2, 4):
        for persistent in (False, True) if workers == 2 else (False,):
            theirs = epochs(kind(), collate_fn=collate, num_workers=workers, persistent_workers=persistent)
            assert all(torch.equal(a, b) for a, b in zip(alone, theirs, strict=True)), (workers, persistent)
    drawn = torch.cat(alone)
    for column in range(1, len(COLUMNS)):
        assert distinct(drawn[:, column]), column
    if collate is None:
        assert sorted(alone[0][:, 0].tolist()) == list(range(11)) and not torch.equal(alone[0][:, 0], alone[1][:, 0])


def test_spawned_workers_give_the_same_batches():
    theirs = epochs(PicklableOwning(), num_workers=2, multiprocessing_context="spawn", count=1)
    assert torch.equal(epochs(PicklableOwning(), count=1)[0], theirs[0])


def test_another_seed_gives_other_numbers():
    one, other = epochs(Owning(), 1, shuffle=False)[0], epochs(Owning(), 1, shuffle=False, seed=6)[0]
    assert torch.equal(one[:, 0], other[:, 0])
    assert not set(one[:, 1:].flatten().tolist()) & set(other[:, 1:].flatten().tolist())


def test_the_seed_is_the_one_of_the_run():
    assert loader(range(3), generator=torch.Generator().manual_seed(9)).seed == 9
    assert loader(range(3), generator=torch.Generator().manual_seed(9), seed=4).seed == 4
    torch.manual_seed(3)
    assert loader(range(3)).seed == 3
    reprocuda.seed_everything(2**70, rank=2)  # the order is every rank's, so is its seed
    here = loader(Draws(), shuffle=True)
    assert here.seed == 2**70 and here.rank == 2
    assert len(list(here)) == 11
    with reprocuda.fork_rng(8):
        assert loader(range(3)).seed == 8


@pytest.mark.parametrize("workers", [0, 2])
def test_walking_a_loader_moves_nothing_outside(workers):
    def run(validate):
        reprocuda.seed_everything(3)
        training, validation = (loader(Owning(8), batch_size=4, shuffle=s, num_workers=workers) for s in (True, False))
        seen = []
        for _ in range(2):
            for batch in training:
                seen += [batch, torch.nn.functional.dropout(torch.ones(32)), torch.tensor(random.random())]
                seen.append(torch.tensor(np.random.randn()))
            if validate:
                list(validation)
        return seen, training.dataset.own[0].random()

    (with_it, own), (without, own_without) = run(True), run(False)
    assert all(torch.equal(a, b) for a, b in zip(with_it, without, strict=True))
    assert own == own_without


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dataset", [Owning(), Stream()], ids=["map", "iterable"])
def test_nothing_outside_is_drawn_or_seeded(dataset, workers):
    own = reprocuda.data.owned_generators(dataset)
    before, own_before = reprocuda.rng_state(), str([state_of(generator) for generator in own.values()])
    for _ in loader(dataset, batch_size=4, num_workers=workers, seed=1, collate_fn=noisy_collate):
        after = reprocuda.rng_state()
        assert after["python"] == before["python"] and after["numpy"] == before["numpy"]
        assert torch.equal(after["torch"], before["torch"])
    assert str([state_of(generator) for generator in own.values()]) == own_before


def state_of(generator):
    if isinstance(generator, torch.Generator):
        return generator.get_state().tolist()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return getattr(generator, "bit_generator", getattr(generator, "_bit_generator", None)).state


class Drawing(Draws):
    """Each sample draws another number of times."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def __getitem__(self, index):
        for _ in range(self.times):
            super().__getitem__(index)
        return super().__getitem__(index)


def test_what_a_collator_draws_does_not_depend_on_what_samples_draw():
    few, many = (epochs(Drawing(times), 1, collate_fn=noisy_collate)[0][3, 1:] for times in (0, 3))
    assert torch.equal(few, many)


def test_the_generator_that_was_given_is_not_moved():
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    sampler = WeightedRandomSampler([1.0] * 11, 11, generator=generator)
    first, second = epochs(Draws(), sampler=sampler, shuffle=None, generator=generator, seed=None)
    assert torch.equal(generator.get_state(), before) and not torch.equal(first, second)


class Lazy(Sampler):
    """Draws while the epoch is under way, from all three global generators."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __iter__(self):
        for _ in range(self.length):
            yield (random.randrange(11) + np.random.randint(11) + int(torch.randint(11, ()))) % 11


@pytest.mark.parametrize(
    "sampling",
    [
        {"sampler": WeightedRandomSampler(range(1, 12), 11)},
        {"sampler": Lazy(11)},
        {"batch_sampler": BatchSampler(Lazy(11), 2, False), "batch_size": 1},
        {"batch_size": None, "sampler": Lazy(5)},
    ],
    ids=["weighted", "lazy", "batch sampler", "no batches"],
)
def test_samplers_of_every_kind(sampling):
    def run(workers, between):
        reprocuda.seed_everything(4)
        batches = loader(Draws(), shuffle=None, num_workers=workers, **{"batch_size": 3, **sampling})
        seen = []
        for _ in range(2):
            for batch in batches:
                seen.append(batch.clone())
                between()
        return seen

    alone = run(0, lambda: None)
    assert len(alone) == 2 * len(loader(Draws(), **{"batch_size": 3, **sampling}))
    for other in (run(0, lambda: (random.random(), np.random.rand(), torch.rand(1))), run(2, lambda: None)):
        assert all(torch.equal(a, b) for a, b in zip(alone, other, strict=True))
    assert not torch.equal(alone[0], alone[len(alone) // 2])


def test_ranks_split_the_data_and_share_no_numbers():
    def of_rank(rank, ranks, epoch):
        sampler = DistributedSampler(Draws(24), num_replicas=ranks, rank=rank, seed=1)
        batches = loader(Draws(24), batch_size=2, sampler=sampler, seed=5, rank=rank)
        for _ in range(epoch):
            list(batches)
        return rows_of(batches)

    for epoch in (0, 1):
        alone = of_rank(0, 1, epoch)
        together = torch.cat([of_rank(rank, 3, epoch) for rank in range(3)])

        def order(rows):
            return rows[rows[:, 0].argsort()]

        assert torch.equal(order(together), order(alone))  # to the bit: each sample has the numbers it has on one rank
        assert together[:, 0].unique().numel() == 24 and distinct(together[:, 5])
    assert not torch.equal(of_rank(0, 3, 0)[:, 0], of_rank(0, 3, 1)[:, 0])


def test_ranks_without_a_distributed_sampler_have_one_order_and_streams_of_their_own():
    first, second = (epochs(Draws(), 1, rank=rank)[0] for rank in range(2))
    assert torch.equal(first[:, 0], second[:, 0])
    assert not set(first[:, 1:].flatten().tolist()) & set(second[:, 1:].flatten().tolist())


def walk(batches, count):
    """That many batches, over as many epochs as it takes."""
    seen = []
    while len(seen) < count:
        for batch in batches:
            seen.append(batch)
            if len(seen) == count:
                break
    return seen


def make(workers, **kwargs):
    return loader(Owning(), batch_size=3, shuffle=True, seed=5, num_workers=workers, **kwargs)


POSITIONS = [(0, 0, consumed) for consumed in (0, 1, 3, 4, 5, 8)] + [(2, 0, 3), (0, 2, 3), (4, 1, 6), (2, 2, 1)]


@pytest.mark.parametrize(("before", "after", "consumed"), POSITIONS)
def test_the_remaining_batches_are_those_of_the_run_that_was_left(before, after, consumed):
    whole = walk(make(0), 12)
    left = make(before, persistent_workers=before > 0)
    begun = walk(left, consumed)
    state = left.state_dict()
    resumed = loader(Owning(), batch_size=3, shuffle=True, seed=999, num_workers=after)
    resumed.load_state_dict(state)
    assert resumed.epoch == state["epoch"] == (consumed - 1) // 4 if consumed else resumed.epoch == 0
    rest = walk(resumed, 12 - consumed)
    assert all(torch.equal(a, b) for a, b in zip(whole, begun + rest, strict=True))


def test_a_state_at_the_last_batch_belongs_to_its_epoch():
    """A training loop that is resumed there does no batch twice and counts no epoch twice."""
    batches = make(0)
    for number, _ in enumerate(batches):
        if number == 3:
            state = batches.state_dict()
    assert batches.epoch == 1 and state["epoch"] == 0
    resumed = make(0)
    resumed.load_state_dict(state)
    counted = [(epoch, len(list(resumed))) for epoch in range(resumed.epoch, 3)]
    assert counted == [(0, 0), (1, 4), (2, 4)]


def test_epochs_are_counted_by_iterations_that_began():
    batches = make(0)
    iter(batches), iter(batches)
    assert batches.epoch == 0
    first = rows_of(batches)
    assert batches.epoch == 1
    for _ in batches:
        break
    assert batches.state_dict()["epoch"] == 1 and batches.state_dict()["batches"] == 1
    third = rows_of(batches)
    batches.set_epoch(0)
    assert torch.equal(rows_of(batches), first)
    batches.set_epoch(2)
    assert torch.equal(rows_of(batches), third) and not torch.equal(first, third)
    batches.set_epoch(0)
    begun = iter(batches)
    batches.set_epoch(2)
    iter(batches)
    assert torch.equal(rows_of(begun), first)


def test_two_iterators_do_not_disturb_each_other():
    whole = walk(make(0), 8)
    batches = make(0)
    one = iter(batches)
    seen_one = [next(one)]
    two = iter(batches)
    seen_two = []
    for batch in one:
        seen_one.append(batch)
        seen_two.append(next(two))
    seen_two += list(two)
    assert all(torch.equal(a, b) for a, b in zip(whole, seen_one + seen_two, strict=True))
    assert batches.epoch == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_datasets(workers):
    def run(**kwargs):
        return loader(Stream(), batch_size=3, seed=5, num_workers=workers, **kwargs)

    whole = walk(run(), 24)
    drawn = torch.cat(whole[:16])
    assert distinct(drawn[:, 1]) and distinct(drawn[:, 4]) and distinct(drawn[:, 5])
    assert sorted(torch.cat(whole[:8])[:, 0].tolist()) == list(range(23))
    for kwargs in [{}, {"persistent_workers": True}] if workers else [{}]:
        assert all(torch.equal(a, b) for a, b in zip(whole, walk(run(**kwargs), 24), strict=True))
    for consumed in (2, 8, 11):
        left = run()
        begun = walk(left, consumed)
        resumed = run()
        resumed.load_state_dict(left.state_dict())
        assert all(torch.equal(a, b) for a, b in zip(whole, begun + walk(resumed, 24 - consumed), strict=True))
    assert len(list(run(drop_last=True))) == 7
    unbatched = loader(Stream(), batch_size=None, seed=5, num_workers=workers)
    assert len(list(unbatched)) == 23
    with pytest.raises(ValueError, match="workers reading an iterable dataset, this loader has 1"):
        loader(Stream(), batch_size=3, num_workers=1).load_state_dict(run().state_dict())


def test_reproduce_takes_over_what_a_loader_is():
    for ordinary in (
        DataLoader(Owning(), batch_size=3, shuffle=True, collate_fn=noisy_collate, drop_last=True),
        DataLoader(Owning(), batch_sampler=BatchSampler(Lazy(9), 4, True)),
        DataLoader(Owning(), batch_size=None, sampler=Lazy(4)),
        DataLoader(Stream(), batch_size=4, drop_last=True),
        loader(Owning(), batch_size=2, seed=3, rank=1),
    ):
        one, other = [reproduce(ordinary, seed=5) for _ in range(2)]
        assert all(torch.equal(a, b) for a, b in zip(list(one), list(other), strict=True))
        assert isinstance(one, DataLoader) and one.batch_size == ordinary.batch_size
        if not isinstance(ordinary.dataset, Stream):
            assert len(one) == len(ordinary)
    assert (one.seed, one.rank) == (5, 1)
    given = DataLoader(range(4), generator=torch.Generator().manual_seed(8), num_workers=1, prefetch_factor=3)
    assert reproduce(given).seed == 8 and reproduce(given).prefetch_factor == 3


class Whole(Draws):
    """Fetches a batch at once."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def test_datasets_that_fetch_a_batch_at_once():
    alone = epochs(Whole())
    assert all(torch.equal(a, b) for a, b in zip(alone, epochs(Whole(), num_workers=2), strict=True))
    assert distinct(torch.cat(alone)[:, 5])


class Failing(Draws):
    def __getitem__(self, index):
        torch.rand(1)
        raise KeyError("no such file")


def test_an_error_in_a_sample_leaves_the_generators_alone():
    before, threads = reprocuda.rng_state(), torch.get_num_threads()
    with pytest.raises(KeyError, match="no such file"):
        list(loader(Failing()))
    assert torch.equal(reprocuda.rng_state()["torch"], before["torch"]) and torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"seed": -1}, ValueError, "seed must not be negative, got -1"),
        ({"seed": 1.5}, TypeError, r"seed must be an integer, got 1\.5"),
        ({"rank": True}, TypeError, "rank must be an integer, got True"),
        ({"in_order": False, "num_workers": 1}, ValueError, "in_order=False"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"shuffle": True, "sampler": [1]}, ValueError, "sampler option is mutually exclusive"),
        ({"banana": 1}, TypeError, "banana"),
    ],
)
def test_bad_arguments(kwargs, error, message):
    with pytest.raises(error, match=message):
        loader(Draws(), **kwargs)


def test_bad_states_and_loaders():
    batches = loader(Draws(), batch_size=3)
    with pytest.raises(TypeError, match="got list"):
        batches.load_state_dict([])
    with pytest.raises(ValueError, match="expected"):
        batches.load_state_dict({"epoch": 1})
    with pytest.raises(ValueError, match="state is of 4 batches an epoch, this loader has 6"):
        loader(Draws(), batch_size=2).load_state_dict(batches.state_dict())
    with pytest.raises(ValueError, match="epoch must not be negative, got -1"):
        batches.set_epoch(-1)
    with pytest.raises(TypeError, match="loader must be a DataLoader, got range"):
        reproduce(range(3))
    with pytest.raises(TypeError, match="IterDataPipe"):
        loader(torch.utils.data.datapipes.iter.IterableWrapper(range(3)))
