"""reprocuda bench: the repository's benchmarks, where the repository is."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .output import UsageError, add_json, write_json

_REPOSITORY = Path(__file__).resolve().parents[2]


def add(subparsers: argparse._SubParsersAction) -> None:
    text = "time the operators against torch's own (in a clone of the repository)"
    parser = subparsers.add_parser(
        "bench", help=text, description=text, epilog="Other arguments go to `python -m benchmarks`."
    )
    add_json(parser, "the measurements")
    parser.set_defaults(run=run, passes_rest=True)


def run(arguments: argparse.Namespace) -> int:
    if not (_REPOSITORY / "benchmarks" / "__main__.py").exists():
        raise UsageError(
            "the benchmarks are part of the source repository, not of the installed package: clone it and run "
            "`make bench`"
        )
    command = [sys.executable, "-m", "benchmarks", *arguments.rest]
    if not arguments.json:
        return subprocess.run(command, cwd=_REPOSITORY, check=False).returncode
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([*command, "--output", folder], cwd=_REPOSITORY, check=False, stdout=sys.stderr)
        for path in Path(folder).glob("*.json"):
            write_json(json.loads(path.read_text()), arguments.json)
    return ran.returncode
