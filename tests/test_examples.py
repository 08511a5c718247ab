"""Every public name of the modules that users or other rooms import says what it gives, and its example runs."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import reprocuda.reports

MODULES = [f"reports.{module.name}" for module in pkgutil.iter_modules(reprocuda.reports.__path__)]
MODULES += ["dispatch.registry", "inspection.difference"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(f"reprocuda.{name}")
    report = []
    attempted = 0
    for test in doctest.DocTestFinder().find(module):
        attempted += doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)[1]
    assert not report, "".join(report)
    public = [
        thing
        for thing_name, thing in vars(module).items()
        if not thing_name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]
    assert all(inspect.getdoc(thing) for thing in public)
    assert attempted > 0
