"""Without a library its callback says how to install it, and nothing else of reprocuda misses it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

CODE = """
import sys
sys.modules[{package!r}] = None  # as if it were not installed
import reprocuda
assert {package!r} in dir(reprocuda.integrations)
try:
    reprocuda.integrations.{package}.ReproducibilityCallback
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["lightning", "transformers"])
def test_the_error_names_the_command(package):
    ran = subprocess.run(
        [sys.executable, "-c", CODE.format(package=package)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == (
        f"reprocuda.integrations.{package} needs {package}, which is not installed: pip install 'reprocuda[{package}]'"
    )


def test_nothing_is_imported_before_it_is_used():
    code = (
        "import sys, reprocuda; reprocuda.integrations, reprocuda.reports; import reprocuda.reports.html; "
        "print([name for name in ('lightning', 'transformers', 'accelerate', 'matplotlib') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
