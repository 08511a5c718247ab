"""The callback in Lightning's own Trainer: two processes give the same bits, and so does a resumed run."""

import pytest

import reprocuda
from reprocuda.reports import History, divergence


@pytest.fixture(scope="module")
def script(start):
    return start("lightning_runs.py", second=("short",))


@pytest.fixture(scope="module")
def runs(script):
    return script.results()


def test_two_processes_give_the_same_bits(runs, script):
    assert runs[1] == {name: runs[0][name] for name in runs[1]} and len(runs[1]) >= 1
    for name in runs[1]:
        files = [(folder / f"{name}.history").read_bytes() for folder in script.folders]
        assert files[0] == files[1]


def test_a_resumed_run_gives_the_bits_of_the_uninterrupted_one(runs, script):
    for whole, resumed in (("whole", "resumed"), ("mid epoch", "resumed in mid epoch")):
        assert runs[0][whole] == runs[0][resumed] | {"warnings": runs[0][whole]["warnings"]}
        a, b = (History.load(script.folders[0] / f"{name}.history") for name in (whole, resumed))
        assert divergence(a, b).identical and a.steps == list(range(12)) == list(b.losses)


def test_the_calls_of_the_first_step_are_noted(script, runs):
    calls = History.load(script.folders[0] / "whole.history").calls
    assert {(call["overload"], call["count"]) for call in calls} == {
        ("index_add", 1),
        ("embedding_dense_backward", 1),
    }


def test_the_traces_of_two_processes_agree(script, runs):
    found = reprocuda.compare(*(folder / "recorded.trace" for folder in script.folders))
    assert found.identical and found.records > 100


def test_another_seed_gives_other_bits(runs):
    assert runs[0]["whole"]["sha"] != runs[0]["other seed"]["sha"]


def test_gradients_are_accumulated_before_a_step_is_recorded(script, runs):
    assert History.load(script.folders[0] / "accumulated.history").steps == list(range(6))


def test_a_trainer_that_asks_for_something_else_is_told(runs):
    assert not [text for text in runs[0]["whole"]["warnings"] if "Trainer" in text]
    (text,) = [text for text in runs[0]["strict"]["warnings"] if "Trainer" in text]
    assert "refused operators raise; mode='train' asks for warn_only=True. The stricter holds" in text


def test_a_run_resumed_under_other_flags_is_told(runs):
    (text,) = [text for text in runs[0]["other flags"]["warnings"] if "resumed" in text]
    assert "torch.use_deterministic_algorithms was (True, True), is (True, False)" in text


def test_what_is_wrong_with_the_options_is_said(runs):
    assert runs[0]["refused"] == "reprocuda.reproducible: mode must be one of 'debug', 'train', 'fast', got 'exact'"


def test_after_an_exception_everything_is_as_it_was(runs):
    assert runs[0]["interrupted"] == ["planted", [], [], True]
