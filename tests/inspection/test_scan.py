"""The static analysis: each kind of finding where it belongs, and nothing in what is clean."""

import re
import textwrap
from pathlib import Path

import pytest
import torch

import demo
from reprocuda.dispatch.registry import registry
from reprocuda.inspection import operators
from reprocuda.inspection.scan import scan
from tests.inspection.faults import CLEAN, FAULTS


def written(folder, text, name="script.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def places(findings):
    return sorted((finding.line, finding.code) for finding in findings)


@pytest.mark.parametrize("code", FAULTS)
def test_every_fault_is_found_in_its_line(tmp_path, code):
    path = written(tmp_path, FAULTS[code])
    expected = [
        (number, wanted)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for wanted in line.partition("#!")[2].split()
    ]
    found = [finding for finding in scan(path) if finding.code == code]
    assert places(found) == sorted(expected)
    for finding in found:
        assert finding.file == str(path) and finding.column >= 1 and finding.message
        assert finding.cure or code == "syntax"


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_said_of_what_is_clean(tmp_path, name):
    found = scan(written(tmp_path, CLEAN[name]))
    assert not found, [(f.line, f.code, f.subject) for f in found]


def test_real_code_that_repeats_has_notes_at_most():
    for folder in (Path(demo.__file__).parent, Path(torch.optim.__file__).parent):
        assert [finding.place for finding in scan(folder) if finding.severity != "note"] == []


def test_the_column_is_that_of_the_call(tmp_path):
    path = written(tmp_path, "import numpy as np\nprint(1, np.random.rand(3))\n")
    (finding,) = scan(path)
    assert (finding.line, finding.column, finding.place) == (2, 10, f"{path}:2:10")


def test_each_operator_has_its_status(tmp_path):
    path = written(
        tmp_path,
        """
        import torch, torch_scatter
        from torch import nn
        def f(x, i, s):
            torch.index_add(x, 0, i, s)
            nn.Conv2d(1, 1, 1)
            nn.AvgPool3d(2)
            torch_scatter.scatter_add(s, i)
            nn.NLLLoss()
            x.index_put_((i,), s)
        """,
    )
    found = {f.line: (f.severity, re.split("[;:]", f.message)[0]) for f in scan(path)}
    assert found == {
        5: ("note", operators.COVERED),
        6: ("note", operators.NATIVE),
        7: ("warning", operators.RAISES),
        8: ("note", operators.UNKNOWN),
        9: ("note", operators.RAISES),
        10: ("note", operators.COVERED),
    }


def test_all_that_the_registry_replaces_on_cuda_is_in_the_table():
    there = [
        operator
        for operator in registry.values()
        if operator.overrides and any("cuda" in override.keys for override in operator.overrides)
    ]
    names = {name for operator in there for name in operator.replaces}
    assert names <= operators.table().keys()


def test_a_seed_holds_for_all_files_of_a_folder(tmp_path):
    written(tmp_path, "import torch\nprint(torch.rand(3))\n", "draw.py")
    assert [f.code for f in scan(tmp_path)] == ["unseeded"]
    written(tmp_path, "import torch\ntorch.manual_seed(3)\n", "start.py")
    assert scan(tmp_path) == ()


def test_a_seed_of_one_generator_is_not_that_of_another(tmp_path):
    text = "import random, torch, numpy\nnumpy.random.seed(1)\nrandom.random()\nnumpy.random.rand()\ntorch.rand(1)\n"
    assert places(scan(written(tmp_path, text))) == [(3, "unseeded"), (5, "unseeded")]


def test_a_line_can_be_left_alone(tmp_path):
    path = written(
        tmp_path,
        """
        import os, torch
        a = torch.rand(3)  # reprocuda: ignore
        b = torch.rand(3)  # reprocuda: ignore[unseeded, clock]
        c = torch.rand(3)  # reprocuda: ignore[clock]
        d = torch.rand(
            3)  # reprocuda:ignore[unseeded]
        e = "# reprocuda: ignore", torch.rand(3)
        for name in os.listdir("."):  # reprocuda: ignore[listing-order]
            f = torch.rand(3)
            a[name] = f
        """,
    )
    assert places(scan(path)) == [(5, "unseeded"), (8, "unseeded"), (10, "unseeded")]


def test_a_seeded_loader_is_a_note_and_an_unseeded_one_a_warning(tmp_path):
    text = "import torch\nfrom torch.utils.data import DataLoader\n{}\nloader = DataLoader([1], shuffle=True)\n"
    (seeded,) = scan(written(tmp_path, text.format("torch.manual_seed(1)")))
    (unseeded,) = scan(written(tmp_path, text.format("")))
    assert (seeded.severity, unseeded.severity) == ("note", "warning")


def test_what_is_no_python_is_said(tmp_path):
    (tmp_path / "broken.py").write_bytes(b"x = 1\n\xff\xfe(")
    written(tmp_path, "import torch\ntorch.rand(1)\n", "good.py")
    assert [f.code for f in scan(tmp_path)] == ["syntax", "unseeded"]


@pytest.mark.parametrize(
    ("name", "error"), [("missing.py", FileNotFoundError), (".", ValueError), ("a.ipynb", ValueError)]
)
def test_a_path_without_python_raises(tmp_path, name, error):
    (tmp_path / "a.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["import random"]}]}')
    with pytest.raises(error, match=re.escape(str(tmp_path / name))):
        scan(tmp_path / name)


def test_hidden_folders_and_environments_are_left_out(tmp_path):
    for folder in (".git", ".venv", "venv/lib/site-packages"):
        (tmp_path / folder).mkdir(parents=True)
        written(tmp_path / folder, "import torch\ntorch.rand(1)\n")
    written(tmp_path, "x = 1\n")
    assert scan(tmp_path) == ()
