"""What runs in workers: seeds, flags and operators of the parent, and where generators are found."""

import random

import pytest
import torch
from torch.utils.data import DataLoader

import reprocuda
from reprocuda.data import loader
from tests.toolkit.datasets import COLUMNS, Draws, Owning, State, distinct, identity, rows_of

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning", "ignore:This DataLoader will create")


def name_worker(worker_id):
    """As users write it: it finds the dataset and a generator that is seeded."""
    dataset = torch.utils.data.get_worker_info().dataset
    assert isinstance(dataset, Draws)
    dataset.length = 100 + worker_id


class Length(Draws):
    def __getitem__(self, index):
        return torch.tensor(self.length)


def test_the_function_of_the_user_finds_his_dataset():
    batches = loader(Length(4), num_workers=2, worker_init_fn=name_worker)
    assert [int(batch) for batch in batches] == [100, 101, 100, 101]


class Threads(Draws):
    def __getitem__(self, index):
        return torch.tensor(torch.get_num_threads())


def test_samples_are_made_on_one_thread_everywhere():
    torch.set_num_threads(2)
    for workers in (0, 1):
        assert rows_of(loader(Threads(3), num_workers=workers)).tolist() == [1, 1, 1]
        assert torch.get_num_threads() == 2


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("how", ["worker_init_fn", "loader"])
def test_workers_have_the_flags_and_operators_of_the_parent(context, how):
    reprocuda.seed_everything(1, rank=3)
    kwargs = {"num_workers": 1, "multiprocessing_context": context, "batch_size": None, "collate_fn": identity}
    torch.backends.cudnn.benchmark = True
    torch.set_default_dtype(torch.float64)
    try:
        if how == "loader":
            batches = loader(State(), **kwargs)
        else:
            batches = DataLoader(State(), worker_init_fn=reprocuda.seed_worker, **kwargs)
        plain = next(iter(batches))
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        with reprocuda.enabled("index_add"):
            seen = next(iter(batches))
    finally:
        torch.set_default_dtype(torch.float32)
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = True
    expected = {"warn_only": True, "benchmark": True, "fill": False, "dtype": "torch.float64", "rank": 3}
    assert seen == {"deterministic": True, "exact": True, "scatter": False, **expected}
    assert not plain["deterministic"] and not plain["exact"] and plain["benchmark"]


def worker_epochs(dataset, count=2, seed=7, **kwargs):
    """torch's own loader with our worker function."""
    reprocuda.seed_everything(0)
    batches = DataLoader(
        dataset,
        batch_size=2,
        worker_init_fn=reprocuda.seed_worker,
        generator=torch.Generator().manual_seed(seed),
        **{"num_workers": 2, **kwargs},
    )
    return [rows_of(batches) for _ in range(count)]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", [Draws, Owning])
def test_seed_worker_repeats_no_worker_and_no_epoch(kind, persistent):
    first = worker_epochs(kind(), 3, persistent_workers=persistent)
    again = worker_epochs(kind(), 3, persistent_workers=persistent)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for column in range(1, len(COLUMNS)):
        assert distinct(torch.cat(first)[:, column]), column
    other = worker_epochs(kind(), 3, seed=8, persistent_workers=persistent)
    assert not set(torch.cat(first)[:, 1].tolist()) & set(torch.cat(other)[:, 1].tolist())


def test_seed_worker_repeats_no_rank(monkeypatch):
    """Each rank's loader has the same generator, as the order of samples needs."""
    first = worker_epochs(Draws(), 1)[0]
    monkeypatch.setattr(reprocuda.toolkit.seeding, "stream_rank", lambda: 1)
    second = worker_epochs(Draws(), 1)[0]
    assert not set(first[:, 5].tolist()) & set(second[:, 5].tolist())


def test_a_generator_of_the_operating_system_is_told():
    dataset = Draws()
    dataset.transform = [random.SystemRandom()]
    with pytest.warns(reprocuda.ReproducibilityWarning, match=r"dataset\.transform\[0\] is a SystemRandom"):
        assert reprocuda.data.owned_generators(dataset) == {}


def test_where_generators_are_found():
    assert list(reprocuda.data.owned_generators(Owning())) == [
        "dataset.own[0]",
        "dataset.own[1].transforms[0].rng",
        "dataset.own[1].transforms[1].transforms[0].keywords['rng']",
        "dataset.own[2].<rng>",
        "dataset.own[3]['deep'][0]",
        "dataset.own[4]",
        "dataset.Owning.of_the_class",
    ]


def test_the_search_for_generators_is_bounded(monkeypatch):
    dataset = Draws()
    dataset.files = [f"{i}.png" for i in range(10**6)]
    dataset.boxes = [[i] for i in range(10**5)]
    dataset.rng = random.Random(0)
    assert list(reprocuda.data.owned_generators(dataset)) == ["dataset.rng"]
    monkeypatch.setattr(reprocuda.data.generators, "_MOST", 10)
    with pytest.warns(reprocuda.ReproducibilityWarning, match="ends after 10 objects"):
        assert reprocuda.data.owned_generators(dataset) == {}


def test_bad_worker_numbers():
    for bad in (None, True, "1"):
        with pytest.raises(TypeError, match="worker_id must be an integer"):
            reprocuda.seed_worker(bad)
