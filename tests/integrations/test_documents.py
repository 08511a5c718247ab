"""The examples of docs/integrations.md: the plain loop runs, twice to the same bits; the others are Python and
import what exists."""

import ast
import re
from pathlib import Path

import pytest

from reprocuda.reports import History, divergence

TEXT = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_plain_loop_repeats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    histories = []
    for _ in range(2):
        exec(compile(EXAMPLES[0], "plain loop", "exec"), {})
        histories.append(History.load("run.history"))
    assert divergence(*histories).identical and histories[0].length == 8
    assert len(set(histories[0].losses.values())) == 8


def test_the_other_examples_import_what_exists():
    imports = []
    for example in EXAMPLES[1:]:
        imports += [node for node in ast.parse(example).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert len(imports) == 5
    exec(compile(ast.Module(imports, []), "imports", "exec"), {})
