"""Histories: what is kept, how little, and that every difference between two runs is found where it first was."""

import subprocess
import sys

import pytest
import torch

from reprocuda.reports import History, divergence
from reprocuda.reports.divergence import Point


def model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.Linear(30, 1))


def train(steps=5, samples=64, memory=16 << 20, change=None, finish=True):
    """A short run; change: (step, weight, element, what is added)."""
    net = model()
    history = History(net, samples=samples, memory=memory)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(steps):
        loss = net(torch.randn(8, 20, generator=torch.Generator().manual_seed(step))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if change is not None and change[0] == step:
            with torch.no_grad():
                net.get_parameter(change[1]).view(-1)[change[2]] += change[3]
        history.record(loss)
    if finish:
        history.finish()
    return history


def test_two_equal_runs_are_identical_and_the_file_keeps_all_of_it(tmp_path):
    a, b = train(), train()
    assert divergence(a, b).identical and divergence(a, b).final.identical
    b.save(tmp_path / "b")
    loaded = History.load(tmp_path / "b")
    a.save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    found = divergence(a, loaded)
    assert found.identical and [point.step for point in found.loss] == [0, 1, 2, 3, 4]
    assert set(found.weights) >= {"0.weight", "1.running_mean", "1.num_batches_tracked", "2.bias"}
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


@pytest.mark.parametrize("samples", [4, 64, None])
def test_the_first_difference_is_named(samples):
    found = divergence(train(samples=samples), train(samples=samples, change=(2, "2.weight", 0, 0.5)))
    assert not found.identical and found.first_step == 2 and found.first_names == ("2.weight",)
    points = found.weights["2.weight"]
    assert points[1] == Point(1, 0.0) and 0 < points[2].difference < 5
    assert [point.difference > 0 for point in found.loss] == [False, False, False, True, True]
    assert found.final.tensors["2.weight"].vc > 0


def test_the_size_of_a_difference_is_the_relative_norm():
    a, b = History(samples=None), History(samples=None)
    a.record(2.0, weights={"w": torch.tensor([3.0, 4.0])})
    b.record(3.0, weights={"w": torch.tensor([3.0, 4.5])})
    found = divergence(a, b)
    assert found.loss == [Point(0, 0.5)] and found.weights["w"] == [Point(0, 0.1)]


def test_a_difference_outside_the_samples_is_still_seen():
    a = train(samples=4, finish=False)
    b = train(samples=4, change=(4, "0.weight", 1, 1e-3), finish=False)
    found = divergence(a, b)
    assert found.first_step == 4 and found.first_names == ("0.weight",)
    assert found.weights["0.weight"][4] == Point(4, None)


def test_order_and_signs_of_zeros_are_bits_too():
    for x, y in (([1.0, 2.0], [2.0, 1.0]), ([0.0, 1.0], [-0.0, 1.0])):
        a, b = History(samples=1), History(samples=1)
        a.record(weights={"w": torch.tensor(x)})
        b.record(weights={"w": torch.tensor(y)})
        assert divergence(a, b).first_names == ("w",)


def test_memory_is_bounded_and_both_runs_keep_the_same_steps():
    weights = {"w": torch.zeros(1000), "half": torch.zeros(10, dtype=torch.bfloat16)}
    history = History(samples=16, memory=4096)
    for step in range(1000):
        weights["w"][0] = step
        history.record(float(step), weights=weights)
        kept = sum(s.digests.nbytes + sum(x.nbytes for x in s.samples.values()) for s in history.kept_steps)
        assert kept <= 4096
    assert history.steps[:3] == [0, 32, 64] and history.steps[-1] == 992 and len(history.losses) == 1000
    full = History(samples=None)
    full.record(weights=weights)
    assert full.kept_steps[0].samples[torch.float32].tolist() == weights["w"].tolist()


def test_runs_of_two_lengths_are_compared_as_far_as_they_go():
    found = divergence(train(3), train(5))
    assert not found.identical and found.first_step is None
    assert found.unmatched["steps"] == "the first run recorded 3 steps, the second 5"
    assert [point.step for point in found.weights["0.weight"]] == [0, 1, 2]


def test_another_model_is_said_not_raised():
    a, b = History(), History()
    a.record(weights={"w": torch.zeros(2), "gone": torch.zeros(1)})
    b.record(weights={"w": torch.zeros(3)})
    assert set(divergence(a, b).unmatched) == {"w", "gone"} and not divergence(a, b).identical


def test_wrappers_do_not_rename_weights():
    net = model()
    a, b = History(net), History(torch.nn.DataParallel(net))
    a.record()
    b.record()
    assert divergence(a, b).identical


def test_a_resumed_history_goes_on():
    whole, first = train(5), train(3)
    second = History(model())
    second.load_state_dict(first.state_dict())
    assert second.length == 3
    for step in (3, 4):
        tensors = {w.name: torch.zeros(w.shape, dtype=w.dtype) for w in first.kept_weights}
        second.record(whole.losses[step], weights=tensors)
    assert second.losses == whole.losses and second.steps == [0, 1, 2, 3, 4]


def test_losses_on_a_device_are_read_together():
    history = History()
    for step in range(600):
        history.record(torch.tensor(step / 3))
        assert len(history._unread) < 256
    history.record(torch.tensor(7.0), step=5)
    assert history.losses[599] == torch.tensor(599 / 3).item() and history.losses[5] == 7.0


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda h: History(samples=0), ValueError, "reprocuda.reports.History: samples must be .*, got 0"),
        (lambda h: History(memory=0), ValueError, "memory must be .*, got 0"),
        (lambda h: h.record(torch.zeros(2)), ValueError, r"loss must be one number, got shape \(2,\)"),
        (lambda h: h.record(weights={"w": torch.zeros(3)}), ValueError, r"\('w', torch.float32, \(3,\)\) differs"),
        (lambda h: h.load_state_dict({}), ValueError, "state must be .* state_dict"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(call, error, message):
    history = History()
    history.record(1.0, weights={"w": torch.zeros(2)})
    with pytest.raises(error, match=message):
        call(history)
    assert history.losses == {0: 1.0} and history.steps == [0] and history.length == 1


def test_files_of_others_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        History.load(tmp_path / "none")
    (tmp_path / "text").write_text("not a history")
    with pytest.raises(ValueError, match=r"was not written by History\.save"):
        History.load(tmp_path / "text")
    code = "import os, torch, sys; X = type('X', (), {'__reduce__': lambda s: (os.mkdir, (sys.argv[1] + '/hit',))})"
    subprocess.run([sys.executable, "-c", f"{code}; torch.save(X(), sys.argv[1] + '/evil')", str(tmp_path)], check=True)
    with pytest.raises(ValueError, match=r"was not written by History\.save"):
        History.load(tmp_path / "evil")
    assert not (tmp_path / "hit").exists()
