"""reprocuda doctor: what makes two runs differ, from the environment and from the source."""

from __future__ import annotations

import argparse

from .output import UsageError, add_json, write_json


def add(subparsers: argparse._SubParsersAction) -> None:
    text = "inspect the environment, and a script or package without running it"
    parser = subparsers.add_parser(
        "doctor", help=text, description=text.capitalize(), epilog="Exit code 1: there is a warning or a problem."
    )
    parser.add_argument("path", nargs="?", help="a script, or a folder with Python files")
    add_json(parser, "facts and findings")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..inspection.doctor import doctor

    try:
        report = doctor(arguments.path)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error
    if arguments.json:
        write_json(report.as_dict(), arguments.json)
    else:
        report.print()
    return report.exit_code
