"""reprocuda doctor: exit codes, JSON and what a person reads."""

import json

import pytest

from reprocuda import cli

FAULTY = "import os, torch\nfor name in os.listdir('.'):\n    x = torch.rand(3)\n"
NOTED = "import torch\ntorch.manual_seed(1)\na = torch.nn.Embedding(2, 2)\nb = torch.nn.Embedding(3, 3)\n"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(FAULTY)
    return path


def test_a_fault_is_printed_with_its_place_and_cure(script, capsys):
    assert cli.main(["doctor", str(script)]) == 1
    printed = capsys.readouterr().out
    assert f"{script}:2:13: warning: os.listdir [listing-order]" in printed
    assert f"{script}:3:9: warning: torch.rand [unseeded]" in printed
    assert "cure: sorted(...)" in printed and printed.endswith("2 warnings\n")
    assert "torch.use_deterministic_algorithms" in printed


def test_notes_of_one_kind_are_one_entry_and_no_failure(tmp_path, capsys):
    path = tmp_path / "noted.py"
    path.write_text(NOTED)
    assert cli.main(["doctor", str(path)]) == 0
    printed = capsys.readouterr().out
    assert f"{path}:3:5: note: torch.nn.Embedding [operator]" in printed
    assert "(and 1 more: noted.py:4)" in printed and printed.count("covered by reprocuda.enable()") == 1


def test_a_clean_script(tmp_path, capsys):
    path = tmp_path / "clean.py"
    path.write_text("x = 1\n")
    assert cli.main(["doctor", str(path)]) == 0
    assert f"{path}: nothing found" in capsys.readouterr().out


def test_json(script, tmp_path, capsys):
    assert cli.main(["doctor", str(script), "--json", str(tmp_path / "report.json")]) == 1
    assert capsys.readouterr().out == ""
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["worst"], report["path"]) == ("warning", str(script))
    found = [(f["file"], f["line"], f["column"], f["code"]) for f in report["findings"] if f["file"]]
    assert found == [(str(script), 2, 13, "listing-order"), (str(script), 3, 9, "unseeded")]
    assert report["environment"]["torch"]["version"]


def test_the_environment_alone(capsys):
    assert cli.main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["path"] is None and {f["file"] for f in report["findings"]} == {None}


def test_bad_usage(tmp_path, capsys, script):
    assert cli.main(["doctor", str(tmp_path / "missing.py")]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert cli.main(["doctor", str(tmp_path / "empty")]) == 2
    assert cli.main(["doctor", "--json", str(script)]) == 2
    assert script.read_text() == FAULTY
