"""What the documents show is what happens: examples run, links lead somewhere, numbers come from the measurement."""

import doctest
import json
import re
from pathlib import Path

import pytest

from benchmarks.readme import RESULTS, rewritten
from docs import operators

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning", "ignore::reprocuda.ReproducibilityWarning")
def test_readme_example_runs():
    failures, attempts = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert attempts >= 5
    assert failures == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for link in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert (document.parent / link).exists(), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document):
    """From the root, or from where the sources of either language begin."""
    in_a_room, with_a_suffix = r"(?:csrc|tests|docs|benchmarks|demo|\.ci)/[\w./]+", r"[\w./-]+/[\w-]+\.\w+"
    named = re.findall(f"`({in_a_room}|{with_a_suffix})`", document.read_text())
    roots = (ROOT, ROOT / "csrc", ROOT / "reprocuda")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_measured_costs_are_those_of_the_last_measurement():
    readme = (ROOT / "README.md").read_text()
    assert readme == rewritten(readme, json.loads(RESULTS.read_text()))


def test_the_table_of_operators_is_the_registry():
    contract = operators.CONTRACT.read_text()
    assert contract == operators.rewritten(contract)
    assert "| `index_add` | exact |" in contract
