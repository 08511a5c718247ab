"""reprocuda report: two runs' files in, one page and an exit code out."""

import json

import pytest
import torch

import reprocuda
from reprocuda.cli import main
from reprocuda.reports import Calls, History


@pytest.fixture
def files(tmp_path):
    def history(name, last):
        made = History()
        with Calls() as calls:
            torch.zeros(3).index_add(0, torch.tensor([0, 0, 2]), torch.ones(3))
        made.calls = calls.state()
        for step in range(3):
            made.record(1.0, weights={"w": torch.full((2,), last if step == 2 else 1.0)})
        made.finish({"w": torch.full((2,), last)})
        made.save(tmp_path / name)

    history("a.history", 1.0)
    history("b.history", 1.5)
    for name, threads in (("a.json", 1), ("b.json", 2)):
        (tmp_path / name).write_text(json.dumps({"format": "reprocuda-manifest", "version": 1, "threads": threads}))
    audit = {"identical": False, "kind": "operator", "operator": "aten::put_", "file": "<train>.py", "line": 3}
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    return tmp_path


def test_two_runs_that_differ(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    assert main(["report", "a.history", "b.history", "a.json", "b.json", "audit.json", "--output", "page.html"]) == 1
    assert capsys.readouterr().out == "the runs differ; page.html\n"
    page = (files / "page.html").read_text()
    for part in (
        "&lt;train&gt;.py:3",
        "Divergence over the steps",
        "Final weights",
        "Cost of the replaced",
        "what differs",
    ):
        assert part in page, part


def test_two_runs_that_agree(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    assert main(["report", "a.history", "a.history", "--json", "--no-costs"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["identical"] is True and found["divergence"]["first_step"] is None and "costs" not in found
    assert found["page"] == "report.html" and "<h2>Identical</h2>" in (files / "report.html").read_text()


def test_two_traces_name_the_line(files, monkeypatch):
    monkeypatch.chdir(files)
    for name, seed in (("a.trace", 1), ("b.trace", 2)):
        generator = torch.Generator().manual_seed(seed)
        with reprocuda.Recorder(name):
            torch.rand(3, generator=generator).sum()
    assert main(["report", "a.trace", "b.trace", "--json", "found.json"]) == 1
    found = json.loads((files / "found.json").read_text())
    assert found["audit"]["operator"] == "aten::rand.generator" and found["audit"]["kind"] == "randomness"
    page = (files / "report.html").read_text()
    assert f"{__file__}:{found['audit']['line']}" in page and "random numbers that were not seeded alike" in page
    assert main(["report", "a.trace", "a.trace"]) == 0


def test_the_json_has_the_figures(files, monkeypatch):
    monkeypatch.chdir(files)
    assert main(["report", "a.history", "b.history", "--json", "found.json"]) == 1
    found = json.loads((files / "found.json").read_text())
    assert found["divergence"]["first_step"] == 2 and found["divergence"]["first_names"] == ["w"]
    assert found["divergence"]["final"]["w"]["vermv"] == 0.5 and found["divergence"]["final"]["all"]["vc"] == 1.0
    assert found["costs"][0]["overload"] == "index_add" and found["costs"][0]["native"] > 0


def test_two_manifests_alone_are_compared(files):
    output = ["--output", str(files / "page.html")]
    assert main(["report", str(files / "a.json"), str(files / "b.json"), *output]) == 1
    assert main(["report", str(files / "a.json"), str(files / "a.json"), *output]) == 0


@pytest.mark.parametrize(
    "given, message",
    [
        (["missing.history", "a.history"], "No such file"),
        (["a.history"], "got 1 histories, expected two"),
        (["a.json", "a.json", "b.json"], "got 3 manifests"),
        (["audit.json", "audit.json"], "got several audits"),
        (["plain.txt", "a.history"], "plain.txt is none of histories, traces, manifests"),
        (["a.json", "b.json", "--output", "no/folder/page.html"], "no/folder/page.html cannot be written"),
    ],
)
def test_bad_usage_says_what_is_wrong(files, capsys, monkeypatch, given, message):
    monkeypatch.chdir(files)
    (files / "plain.txt").write_text("hello")
    assert main(["report", *given]) == 2
    assert message in capsys.readouterr().err and not (files / "report.html").exists()
