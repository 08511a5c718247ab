"""The option --json, which every command has, and the error for what cannot be done."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..plain_json import dumps


class UsageError(Exception):
    """What the user asked for cannot be done; exit code 2."""


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    text = f"write {what} as JSON (to stdout without FILE)"
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help=text)


def check_json(target: str | None) -> None:
    """Refuses a place where JSON cannot go: before a long command, rather than after it.

    Raises:
        UsageError: `target` is a Python file (`--json train.py` would take the script for the file's name), a folder,
        or in no folder.
    """
    if target in (None, "-"):
        return
    path = Path(target)
    if path.suffix == ".py" or path.is_dir():
        raise UsageError(f"--json: {target} is not a file for JSON; write `--json -` for stdout")
    if not path.parent.is_dir():
        raise UsageError(f"--json: {target} is in no folder that exists")


def write_json(document: object, target: str) -> None:
    """Writes `document` to the file `target`, or to stdout for "-"; its NaNs and infinities as strings.

    Raises:
        UsageError: as `check_json`, or the file cannot be written.
    """
    check_json(target)
    text = dumps(document) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json: {target} cannot be written: {error.strerror}") from error
