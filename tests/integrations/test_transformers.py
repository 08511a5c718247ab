"""The callback in transformers' own Trainer: same bits in two processes, also when resumed; Trainer's own seeds."""

import pytest

import reprocuda
from reprocuda.reports import History, divergence


@pytest.fixture(scope="module")
def script(start):
    return start("transformers_runs.py", second=("short",))


@pytest.fixture(scope="module")
def runs(script):
    return script.results()


def test_two_processes_give_the_same_bits(runs, script):
    assert runs[1] == {name: runs[0][name] for name in runs[1]} and len(runs[1]) >= 1
    files = [(folder / "whole.history").read_bytes() for folder in script.folders]
    assert files[0] == files[1]


def test_the_traces_of_two_processes_agree(script, runs):
    found = reprocuda.compare(*(folder / "recorded.trace" for folder in script.folders))
    assert found.identical and found.records > 100


def test_a_run_resumed_in_mid_epoch_gives_the_bits_of_the_uninterrupted_one(runs, script):
    whole, resumed = runs[0]["whole"], runs[0]["resumed"]
    assert whole == resumed | {"warnings": whole["warnings"]}
    a, b = (History.load(script.folders[0] / f"{name}.history") for name in ("whole", "resumed"))
    assert divergence(a, b).identical and a.steps == list(range(8))


def test_losses_are_those_of_the_trainer(runs):
    whole = runs[0]["whole"]
    assert [whole["losses"][str(step)] for step in range(8)] == [whole["logged"][str(step)] for step in range(1, 9)]


def test_the_trainers_seeds_are_respected(runs):
    whole, other = runs[0]["whole"], runs[0]["other data"]
    assert whole["sha"] != other["sha"] and whole["after"] == other["after"]  # data_seed moves the data alone
    # Nothing is seeded again: where no operator is replaced, the callback changes no bit.
    assert (
        runs[0]["fast"]["sha"] == runs[0]["without"]["sha"] and runs[0]["fast"]["after"] == runs[0]["without"]["after"]
    )


def test_full_determinism_stays_as_strict_as_it_is(runs):
    (text,) = [text for text in runs[0]["strict"]["warnings"] if "full_determinism" in text]
    assert "The stricter holds: True: refused operators raise" in text
    assert runs[0]["strict"]["sha"] == runs[0]["whole"]["sha"]


def test_a_checkpoint_that_was_moved_is_told(runs):
    (text,) = [text for text in runs[0]["moved"]["warnings"] if "is not there" in text]
    assert "the history of the resumed run begins at step 3" in text
    assert runs[0]["moved"]["sha"] == runs[0]["whole"]["sha"] and min(map(int, runs[0]["moved"]["losses"])) == 3
