"""The command line as a whole: its exit codes, --json, and what an import costs."""

import json
import subprocess
import sys

import pytest

import reprocuda
from reprocuda import cli
from reprocuda.cli import bench
from reprocuda.cli.output import write_json


def reprocuda_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "reprocuda", *map(str, arguments)], capture_output=True, text=True, timeout=300
    )


def test_status_says_what_is_replaced(capsys):
    assert cli.main(["status"]) == 0
    printed = capsys.readouterr().out
    assert "index_add" in printed and "torch.compile" in printed and "torch:" in printed


def test_status_as_json(capsys, tmp_path):
    assert cli.main(["status", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {operator["name"] for operator in printed["operators"]} == set(reprocuda.registry)
    assert cli.main(["status", "--json", str(tmp_path / "status.json")]) == 0
    assert json.loads((tmp_path / "status.json").read_text()) == printed


def test_the_module_and_its_exit_codes(tmp_path):
    good = reprocuda_command("status")
    assert good.returncode == 0 and "index_add" in good.stdout
    assert reprocuda_command().returncode == 2
    unknown = reprocuda_command("status", "--nonsense")
    assert unknown.returncode == 2 and "--nonsense" in unknown.stderr


@pytest.mark.parametrize("target", ["train.py", ".", "no/such/folder/status.json"])
def test_json_never_overwrites_what_is_not_its_own(target, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("precious")
    assert cli.main(["status", "--json", target]) == 2
    assert target in capsys.readouterr().err
    assert (tmp_path / "train.py").read_text() == "precious"


def test_bench_says_where_the_benchmarks_are(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench, "_REPOSITORY", tmp_path)
    assert cli.main(["bench", "--only", "nothing"]) == 2
    assert "source repository" in capsys.readouterr().err


def test_bench_passes_its_arguments_on():
    ran = reprocuda_command("bench", "--only", "no such family", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["rows"] == []


def test_import_reprocuda_is_cheap():
    code = "import sys, torch; before = set(sys.modules); import reprocuda; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    loaded = ran.stdout.split()
    assert "reprocuda.dispatch.scopes" in loaded
    assert not [name for name in loaded if name.split(".")[0] in ("rich", "matplotlib", "lightning", "transformers")]


def test_lazy_names_are_listed_and_load():
    for name in reprocuda._LAZY:
        assert name in dir(reprocuda)
        assert getattr(reprocuda, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = reprocuda.nonsense


def test_whatever_json_is_written_any_reader_takes(capsys):
    write_json({"ratios": (float("nan"), -float("inf"), 1.5)}, "-")
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"ratios": ["nan", "-inf", 1.5]}
