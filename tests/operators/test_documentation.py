"""Every public function says its shapes, errors, tier and cost, and shows an example that runs."""

import doctest
import inspect
import re

import pytest

import reprocuda

PUBLIC = [name for name in reprocuda.__all__ if callable(getattr(reprocuda, name))]
# shown by the functions that make them
RETURNED = ("AuditResult", "DoctorReport", "Manifest", "SegmentPlan", "Status", "Reproducible", "Seeds")
ERROR_CLASSES = ("CompileWarning", "NondeterministicError", "ReproducibilityWarning")
EXAMPLES = [name for name in PUBLIC if name not in (*RETURNED, *ERROR_CLASSES)] + [
    "checkpoint.load",
    "checkpoint.save",
    "data.loader",
    "data.reproduce",
    "SegmentPlan.from_index",
    "SegmentPlan.from_offsets",
    "SegmentPlan.from_sorted",
    *(name for name in reprocuda.registry if name.startswith("scatter.")),
]


def find(name):
    found = reprocuda
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name):
    thing = find(name)
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(thing), {}, name, None, 0)
    assert examples.examples, f"{name} has no example"
    report = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("operator", reprocuda.registry.values(), ids=lambda operator: operator.name)
def test_the_docstring_is_complete(operator):
    text = inspect.getdoc(find(operator.name))
    for section in (f"Determinism: {operator.tier}", "Cost:", "Example:"):
        assert section in text, f"{operator.name} says nothing under {section!r}"
    for section, word in {"Args:": "Arguments", "Returns:": "results?", "Raises:": "errors"}.items():
        assert section in text or re.search(rf"\b{word}\b[^.:]* those of `\w+`", text), (
            f"{operator.name} says nothing under {section!r}, and names no function whose are its own"
        )
