"""A run that was killed and resumed ends at the bits of the one that was not."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import reprocuda
from reprocuda import checkpoint
from tests.toolkit import training

ROOT = Path(training.__file__).parent.parent.parent


def run(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, training.__file__, str(folder), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    done = run(tmp_path_factory.mktemp("whole"))
    assert done.returncode == 0 and len(done.stdout.strip()) == 64, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("kill", "before", "after"),
    [(3, 0, 0), (9, 2, 2), (7, 0, 2), (14, 2, 0)],  # 7 steps an epoch: also at the last step of the first and second
)
def test_resumed_training_has_the_bits_of_the_uninterrupted_one(uninterrupted, tmp_path, kill, before, after):
    killed = run(tmp_path, "--kill", kill, "--workers", before)
    assert killed.returncode < 0 and killed.stdout == ""
    resumed = run(tmp_path, "--workers", after)
    assert resumed.stdout == uninterrupted, resumed.stderr


def small():
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    return {"model": model, "optimizer": torch.optim.Adam(model.parameters())}


def draws():
    return random.random(), np.random.rand(), torch.rand(()).item(), random.gauss(0, 1), np.random.randn()


def test_generators_flags_and_values_come_back(tmp_path):
    path = tmp_path / "run.pt"
    objects = small()
    with reprocuda.deterministic(warn_only=True):
        checkpoint.save(path, {**objects, "step": 5, "best": {"loss": 0.5}})
        first = draws()
    weight = objects["model"].weight.detach().clone()
    with torch.no_grad():
        objects["model"].weight.zero_()
    before = reprocuda.toolkit.flags.Flags.read()
    try:
        with pytest.warns(reprocuda.ReproducibilityWarning, match=r"operators enabled: \[.*'embedding on cpu'"):
            values = checkpoint.load(path, {"model": objects["model"]})
        assert torch.is_deterministic_algorithms_warn_only_enabled() and torch.backends.cudnn.deterministic
    finally:
        before.apply()
    assert draws() == first and torch.equal(objects["model"].weight, weight)
    assert values["step"] == 5 and values["best"] == {"loss": 0.5} and "param_groups" in values["optimizer"]
    with reprocuda.enabled():
        checkpoint.load(path, restore_flags=False)
    assert before.diff(reprocuda.toolkit.flags.Flags.read()) == {}


@pytest.mark.parametrize("when", ["writing", "renaming"])
def test_a_save_that_fails_leaves_the_file_that_was_there(tmp_path, monkeypatch, when):
    path = tmp_path / "run.pt"
    checkpoint.save(path, {"step": 1})

    def half_a_file(content, file):
        file.write(b"half")
        raise OSError("no space left on device")

    def refuse(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(*((torch, "save", half_a_file) if when == "writing" else (os, "replace", refuse)))
    with pytest.raises(OSError, match="no space left"):
        checkpoint.save(path, {"step": 2})
    monkeypatch.undo()
    assert checkpoint.load(path) == {"step": 1} and list(tmp_path.iterdir()) == [path]


def test_bad_files_and_arguments_change_nothing(tmp_path):
    path, other = tmp_path / "run.pt", tmp_path / "other.pt"
    objects, scaler = small(), torch.nn.Linear(1, 1)
    checkpoint.save(path, objects)
    torch.save({"model": 1}, other)
    draws()
    before = reprocuda.rng_state()["torch"]
    with pytest.raises(ValueError, match=r"is no file of reprocuda.checkpoint.save"):
        checkpoint.load(other)
    with pytest.raises(ValueError, match="has no state of 'scaler'; it has model, optimizer"):
        checkpoint.load(path, {**objects, "scaler": scaler})
    with pytest.raises(TypeError, match=r"objects\['step'\] \(int\) has no load_state_dict"):
        checkpoint.load(path, {"step": 3})
    for call in (lambda o: checkpoint.save(path, o), lambda o: checkpoint.load(path, o)):
        with pytest.raises(TypeError, match="objects must be a dictionary with names for keys, got"):
            call([objects])
        with pytest.raises(TypeError, match="objects must be a dictionary with names for keys, got"):
            call({1: objects["model"]})
    content = torch.load(path, weights_only=True)
    content["reprocuda"]["version"] = 2
    torch.save(content, other)
    with pytest.raises(ValueError, match="has version 2; this reprocuda reads 1"):
        checkpoint.load(other)
    with pytest.raises(FileNotFoundError):
        checkpoint.load(tmp_path / "none.pt")
    with pytest.raises(FileNotFoundError):
        checkpoint.save(tmp_path / "none" / "run.pt", {})
    assert torch.equal(reprocuda.rng_state()["torch"], before)


def test_another_number_of_threads_is_told(tmp_path):
    path = tmp_path / "run.pt"
    torch.set_num_threads(2)
    checkpoint.save(path, {})
    torch.set_num_threads(1)
    with pytest.warns(reprocuda.ReproducibilityWarning, match=r"get_num_threads\(\): 2 then, 1 now"):
        checkpoint.load(path)


def test_what_load_will_refuse_is_told_at_save(tmp_path):
    path = tmp_path / "run.pt"
    with pytest.warns(reprocuda.ReproducibilityWarning, match=r"numpy.*'best'\] is of type float64\. Save plain"):
        checkpoint.save(path, {"best": np.float64(0.5), "step": 1})
    assert checkpoint.load(path, weights_only=False) == {"best": 0.5, "step": 1}


@pytest.mark.parametrize("content", [b"", b"junk", None], ids=["empty", "junk", "half"])
def test_a_file_that_is_broken_is_named(tmp_path, content):
    path = tmp_path / "run.pt"
    checkpoint.save(path, {"step": 1})
    path.write_bytes(path.read_bytes()[:1000] if content is None else content)
    with pytest.raises(ValueError, match=r"checkpoint\.load: .*run\.pt' cannot be read"):
        checkpoint.load(path)


def test_a_link_stays_one(tmp_path):
    (tmp_path / "last.pt").symlink_to(tmp_path / "run.pt")
    checkpoint.save(tmp_path / "last.pt", {"step": 1})
    assert (tmp_path / "last.pt").is_symlink() and checkpoint.load(tmp_path / "run.pt") == {"step": 1}
