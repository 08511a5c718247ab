"""Small training scripts with one planted fault each: the audit names its kind and the line marked FAULT."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reprocuda.cli import main

FAULTS = Path(__file__).parent / "faults"
ROOT = Path(__file__).parents[2]

# script: (kind, what the operator's name contains, a word of the cure, options)
EXPECTED = {
    "batch_norm_eval": ("data", "random_", "model.eval()", ()),
    "data_order": ("data", "random_", "generator=", ()),
    "hash_feature": ("control_flow", "lift_fresh", "sorted", ()),
    "lost_generator": ("randomness", "randn", "generator", ()),
    "random_sum_order": ("operator", "scatter_sum", "order", ()),
    "shuffled_list": ("randomness", "", "seed_everything", ()),
    "set_order": ("control_flow", "", "sorted", ()),
    "thread_count": ("environment", "", "threads", ("--vary", "threads")),
    "time_branch": ("control_flow", "", "clock", ()),
    "uninitialised": ("uninitialised", "empty", "zeros", ()),
    "unseeded_dropout": ("randomness", "bernoulli_", "manual_seed", ()),
    "unseeded_numpy_worker": ("data", "", "seed_worker", ()),
}


def marked_line(script: Path) -> int:
    (line,) = [number for number, text in enumerate(script.read_text().splitlines(), 1) if "# FAULT" in text]
    return line


def verdict(script: Path, tmp_path: Path, *options: str) -> tuple[int, dict]:
    target = tmp_path / "verdict.json"
    code = main(["audit", *options, "--json", str(target), str(script)])
    return code, json.loads(target.read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_fault_is_named(name, tmp_path):
    kind, operator, cure, options = EXPECTED[name]
    script = FAULTS / f"{name}.py"
    code, found = verdict(script, tmp_path, *options)
    assert code == 1
    assert found["identical"] is False
    assert found["kind"] == kind, found
    assert (found["file"], found["line"]) == (str(script), marked_line(script)), found
    assert operator in found["operator"]
    assert cure in found["cure"]


def test_missing_set_epoch_is_named_though_the_runs_agree(tmp_path):
    script = FAULTS / "missing_set_epoch.py"
    code, found = verdict(script, tmp_path)
    assert (code, found["identical"], found["kind"]) == (0, True, "data")
    assert (found["file"], found["line"]) == (str(script), marked_line(script))
    assert "set_epoch" in found["cure"]


def test_every_script_is_expected_to_show_something():
    scripts = {path.stem for path in FAULTS.glob("*.py")}
    assert scripts == {*EXPECTED, "missing_set_epoch", "clean"}


def test_clean_script_is_identical_by_the_real_command(tmp_path):
    target = tmp_path / "verdict.json"
    command = [sys.executable, "-m", "reprocuda", "audit", "--json", str(target), str(FAULTS / "clean.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(target.read_text())
    assert (done.returncode, found["identical"], found["kind"]) == (0, True, None), done.stdout + done.stderr
    assert found["records"] > 900
    assert "identical" in done.stdout
