"""reprocuda status: what is replaced now, and what torch does by itself."""

from __future__ import annotations

import argparse
import dataclasses

from .output import add_json, write_json


def add(subparsers: argparse._SubParsersAction) -> None:
    text = "what reprocuda was built with, what it replaces, and what torch does by itself"
    parser = subparsers.add_parser("status", help=text, description=text)
    add_json(parser, "the status")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from .. import build_info, status
    from ..dispatch.status import COLUMNS
    from ..reports.terminal import console, print_line, print_table

    found = status()
    if arguments.json:
        write_json({"build": build_info(), **dataclasses.asdict(found)}, arguments.json)
        return 0
    to = console()
    for name, value in build_info().items():
        print_line(to, f"{name}: {value}")
    print_line(to, "")
    print_table(to, None, COLUMNS, found.rows)
    print_line(to, f"\n{found.remarks}")
    return 0
