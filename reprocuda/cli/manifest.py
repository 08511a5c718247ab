"""reprocuda manifest: write down what pins a run; manifest diff: what two of them do not share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from .output import UsageError, add_json, write_json

_STYLES = {"certain": "bad", "likely": "bad", "possible": "warn", "unlikely": "dim"}


def add(subparsers: argparse._SubParsersAction) -> None:
    text = "write what pins a run here: versions, processors, flags, operators, commit, data"
    parser = subparsers.add_parser("manifest", help=text, description=text.capitalize())
    parser.add_argument("--output", metavar="FILE", default="-", help="where to (stdout)")
    parser.add_argument("--json", metavar="FILE", dest="output", nargs="?", const="-", help="the same as --output")
    parser.add_argument("--data", metavar="PATH", action="append", default=[], help="hash a file or folder; repeatable")
    parser.set_defaults(run=write)
    actions = parser.add_subparsers(dest="action", metavar="diff")
    text = "what differs between two manifests, by how likely it changes bits"
    diff = actions.add_parser(
        "diff", help=text, description=text.capitalize(), epilog="Exit code 0: the same; 1: different; 2: a bad file."
    )
    diff.add_argument("a")
    diff.add_argument("b")
    add_json(diff, "the differences")
    diff.set_defaults(run=compare)


def write(arguments: argparse.Namespace) -> int:
    from ..inspection.manifest import describe

    try:
        found = describe(data={path: path for path in arguments.data} or None, generators=False)
    except OSError as error:
        raise UsageError(str(error)) from error
    write_json(found.document, arguments.output)
    return 0


def write_run(settings: dict[str, Any], script: str, arguments: list[str]) -> None:
    """The manifest of a run that is about to start; each further rank writes a file of its own."""
    from ..inspection.manifest import describe

    target = Path(settings["manifest"])
    rank = os.environ.get("RANK", "0")
    if rank != "0":
        target = target.with_name(f"{target.stem}.rank{rank}{target.suffix}")
    file = None if settings["is_module"] or not Path(script).is_file() else Path(script)
    run = {"script": script, "mode": settings["mode"], "same_on_all_ranks": settings["same_on_all_ranks"]}
    describe(seed=settings["seed"], extra={"run": run}, script=file, arguments=arguments).save(target)


def compare(arguments: argparse.Namespace) -> int:
    from ..inspection.manifest import Manifest
    from ..reports.terminal import Cell, console, print_line, print_table

    try:
        a, b = Manifest.load(arguments.a), Manifest.load(arguments.b)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error
    found = a.diff(b)
    if arguments.json:
        write_json({"same": not found, "differences": [d.as_dict() for d in found]}, arguments.json)
        return int(bool(found))
    to = console()
    if not found:
        print_line(to, f"the same: {arguments.a} and {arguments.b} pin one run", "good")
        return 0
    rows = [[Cell(d.likelihood, _STYLES[d.likelihood]), d.name, _short(d.a), _short(d.b)] for d in found]
    print_table(to, f"{len(found)} differ", ["changes bits", "what", arguments.a, arguments.b], rows)
    return 1


def _short(text: str) -> str:
    """The first digits of a digest, which are enough to compare by eye."""
    return f"{text[:12]}..." if len(text) == 64 and text.isalnum() else text
