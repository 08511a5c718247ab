"""Seeds of every size and rank, and states that come back bit for bit."""

import io
import random

import numpy as np
import pytest
import torch

import reprocuda


def draws():
    """One number from each generator, and one of each kind that keeps a spare (Box-Muller's second value)."""
    return (
        random.random(),
        random.gauss(0, 1),
        np.random.rand(),
        np.random.randn(),
        torch.rand(()).item(),
        torch.randn(()).item(),
    )


LARGE = (0, 1, 2**32, 2**32 + 1, 2**40 + 3, 2**64, 2**200 + 1)


def test_seeds_of_any_size_give_states_of_their_own_in_every_generator():
    seen = []
    for seed in LARGE:
        reprocuda.seed_everything(seed)
        first = draws()
        reprocuda.seed_everything(seed)
        assert draws() == first
        seen.append(first)
    for generator in zip(*seen, strict=True):  # one by one: torch's own CPU generator takes 2**32 for 0
        assert len(set(generator)) == len(LARGE)


def test_a_small_seed_is_the_usual_recipe():
    random.seed(17), np.random.seed(17), torch.manual_seed(17)
    usual = draws()
    for rank in (None, 0):
        reprocuda.seed_everything(17, rank)
        assert draws() == usual


def test_ranks_have_streams_of_their_own_and_repeat():
    def mask(rank, **kwargs):
        reprocuda.seed_everything(11, rank=rank, **kwargs)
        return torch.nn.functional.dropout(torch.ones(64)), draws()

    seen = [mask(rank) for rank in range(4)]
    for rank in range(4):
        assert torch.equal(mask(rank)[0], seen[rank][0]) and mask(rank)[1] == seen[rank][1]
    for generator in zip(*[numbers for _, numbers in seen], strict=True):
        assert len(set(generator)) == 4
    assert mask(3, same_on_all_ranks=True)[1] == seen[0][1]


def test_seed_and_rank_do_not_add_up():
    """seed + rank would give rank 1 of seed 11 the streams of rank 0 of seed 12."""
    reprocuda.seed_everything(11, rank=1)
    first = draws()
    reprocuda.seed_everything(12, rank=0)
    assert not set(first) & set(draws())


def test_initial_weights_are_shared_while_dropout_is_not():
    weights, masks = [], []
    for rank in range(3):
        reprocuda.seed_everything(5, rank=rank)
        with reprocuda.fork_rng(shared=True):
            weights.append(torch.nn.Linear(4, 4).weight)
        masks.append(torch.nn.functional.dropout(torch.ones(64)))
    assert all(torch.equal(weights[0], weight) for weight in weights)
    assert not torch.equal(masks[0], masks[1])


def test_the_rank_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert reprocuda.seed_everything(1, rank="auto").rank == 3
    with pytest.warns(reprocuda.ReproducibilityWarning, match="rank 3 of several"):
        assert reprocuda.seed_everything(1).rank == 0
    assert reprocuda.seed_everything(1, same_on_all_ranks=True).rank == 0
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(ValueError, match="RANK must be a number from 0, got 'first'"):
        reprocuda.seed_everything(1, rank="auto")


@pytest.mark.parametrize("seed", [None, True, 1.0, "1", np.bool_(True), torch.ones(2)])
def test_what_is_no_integer_is_refused(seed):
    before = reprocuda.rng_state()
    for call in (reprocuda.seed_everything, reprocuda.fork_rng):
        if call is reprocuda.fork_rng and seed is None:
            continue
        with pytest.raises(TypeError, match=r"seed must be an integer|only integer tensors"):
            call(seed)
    assert_same_state(reprocuda.rng_state(), before)


def test_numbers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="seed must not be negative, got -1"):
        reprocuda.seed_everything(-1)
    with pytest.raises(ValueError, match="rank must not be negative, got -2"):
        reprocuda.seed_everything(1, rank=-2)
    with pytest.raises(TypeError, match=r"rank must be an integer, 'auto' or None, got 0\.5"):
        reprocuda.seed_everything(1, rank=0.5)
    assert reprocuda.seed_everything(np.int64(4)).seed == 4


def assert_same_state(a, b):
    assert a["python"] == b["python"] and a["numpy"] == b["numpy"] and torch.equal(a["torch"], b["torch"])


def test_a_state_comes_back_by_way_of_a_file():
    draws()  # a spare normal number is pending in Python's and NumPy's generators
    random.gauss(0, 1), np.random.randn()
    file = io.BytesIO()
    torch.save(reprocuda.rng_state(), file)
    first = draws()
    file.seek(0)
    reprocuda.set_rng_state(torch.load(file, weights_only=True))
    assert draws() == first


def test_a_state_that_is_none_changes_nothing():
    before = reprocuda.rng_state()
    good = reprocuda.rng_state()
    with pytest.raises(TypeError, match=r"rng_state\(\) returned, got list"):
        reprocuda.set_rng_state([])
    with pytest.raises(ValueError, match="state has no 'torch'"):
        reprocuda.set_rng_state({"python": good["python"], "numpy": good["numpy"]})
    draws()
    here = reprocuda.rng_state()
    with pytest.raises(ValueError, match="state is not what"):  # the first two parts are good, the third is not
        reprocuda.set_rng_state({**before, "torch": torch.zeros(3, dtype=torch.uint8)})
    assert_same_state(reprocuda.rng_state(), here)


def test_gpus_that_are_not_here_are_told(monkeypatch):
    state = {**reprocuda.rng_state(), "cuda": [torch.zeros(16, dtype=torch.uint8)] * (torch.cuda.device_count() + 1)}
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: None)
    with pytest.warns(reprocuda.ReproducibilityWarning, match="GPUs, and this process has"):
        reprocuda.set_rng_state(state)


def test_forks_nest_and_survive_exceptions():
    before = reprocuda.rng_state()
    with pytest.raises(ZeroDivisionError), reprocuda.fork_rng(1):
        outer = draws()
        with reprocuda.fork_rng(1):
            assert draws() == outer
        assert draws() != outer
        raise ZeroDivisionError
    assert_same_state(reprocuda.rng_state(), before)
    with reprocuda.fork_rng():
        first = draws()
    assert draws() == first


def test_a_fork_gives_back_whose_streams_these_are():
    reprocuda.seed_everything(11, rank=1)
    with reprocuda.fork_rng():
        reprocuda.seed_everything(5, rank=2)
    assert reprocuda.toolkit.seeding.shared_seed() == 11 and reprocuda.toolkit.seeding.stream_rank() == 1


def test_fork_as_a_decorator():
    @reprocuda.fork_rng(3)
    def draw(depth=0):
        return draws() if depth == 0 else (draw(depth - 1), draws())

    before = reprocuda.rng_state()
    inner, outer = draw(1)
    assert inner == outer == draw()
    assert_same_state(reprocuda.rng_state(), before)
    with pytest.raises(TypeError, match="fork_rng cannot cover"):

        @reprocuda.fork_rng(3)
        def steps():
            yield draws()

    with pytest.raises(ValueError, match="exclude each other"):
        reprocuda.fork_rng(3, shared=True)
