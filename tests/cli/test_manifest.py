"""reprocuda manifest and manifest diff: exit codes, files and JSON."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
import torch

import reprocuda
from reprocuda import cli
from reprocuda.inspection.manifest import Manifest


def test_two_manifests_of_one_machine_are_the_same(tmp_path, capsys):
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    command = [sys.executable, "-m", "reprocuda", "manifest", "--output", str(a)]
    subprocess.run(command, check=True, timeout=300)
    assert cli.main(["manifest", "--json", str(b)]) == 0
    here = {name for name in Manifest.load(b).document["packages"]} - {
        name for name in Manifest.load(a).document["packages"]
    }
    found = cli.main(["manifest", "diff", str(a), str(b)])
    printed = capsys.readouterr().out
    assert found == int(bool(here)), printed  # this process has pytest's packages too
    assert all("packages." in line for line in printed.splitlines()[3:])
    assert cli.main(["manifest", "diff", str(a), str(a)]) == 0
    assert "the same" in capsys.readouterr().out


def test_it_goes_to_stdout_and_hashes_data(tmp_path, capsys):
    (tmp_path / "data.txt").write_text("abc")
    assert cli.main(["manifest", "--data", str(tmp_path / "data.txt"), "--data", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["data"][str(tmp_path / "data.txt")]["sha256"] == hashlib.sha256(b"abc").hexdigest()
    assert document["data"][str(tmp_path)]["count"] == 1
    assert document["seeds"] is None and document["script"] is None


@pytest.fixture
def pair(tmp_path):
    for name, scale in (("a.json", 1), ("b.json", 2)):
        reprocuda.manifest({"w": scale * torch.ones(2)}, seed=scale).save(tmp_path / name)
    return str(tmp_path / "a.json"), str(tmp_path / "b.json")


def test_differences_for_people(pair, capsys):
    assert cli.main(["manifest", "diff", *pair]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 differ"
    assert [line.split()[:2] for line in lines[3:]] == [
        ["certain", "seeds.seed"],
        ["certain", "weights.sha256"],
        ["certain", "weights.entries.w"],
    ]
    assert lines[3].split()[2:] == ["1", "2"] and lines[4].endswith("...")


def test_differences_as_json(pair, tmp_path, capsys):
    assert cli.main(["manifest", "diff", *pair, "--json", str(tmp_path / "diff.json")]) == 1
    found = json.loads((tmp_path / "diff.json").read_text())
    assert not found["same"] and found["differences"][0] == {
        "likelihood": "certain",
        "name": "seeds.seed",
        "a": "1",
        "b": "2",
    }
    assert cli.main(["manifest", "diff", pair[0], pair[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"same": True, "differences": []}


def test_bad_files_and_bad_usage(pair, tmp_path, capsys):
    (tmp_path / "bad.json").write_text("{")
    for other in ("bad.json", "missing.json", "."):
        assert cli.main(["manifest", "diff", pair[0], str(tmp_path / other)]) == 2
        assert str(tmp_path / other) in capsys.readouterr().err
    assert cli.main(["manifest", "--data", str(tmp_path / "missing")]) == 2
    with pytest.raises(SystemExit) as refused:
        cli.main(["manifest", "diff", pair[0]])
    assert refused.value.code == 2


def test_a_run_writes_its_manifest_before_the_script(tmp_path):
    (tmp_path / "train.py").write_text("import os; print(os.path.exists('run.json'))")
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "RANK": "1", "WORLD_SIZE": "2"}
    command = [sys.executable, "-m", "reprocuda", "run", "--seed", "5", "--json", "run.json", "train.py", "--lr", "1"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.stdout == "False\n", ran.stderr
    document = Manifest.load(tmp_path / "run.rank1.json").document
    assert document["seeds"]["seed"] == 5 and document["arguments"] == ["--lr", "1"]
    assert document["script"]["name"] == "train.py" and document["extra"]["run"]["mode"] == "debug"
    assert document["flags"]["environment"]["PYTHONHASHSEED"] == 5
