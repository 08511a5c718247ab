"""The option --json, which every command has, and how an error of usage is said."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


class UsageError(Exception):
    """What the user asked for cannot be done; exit code 2."""


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    text = f"write {what} as JSON (to stdout without FILE)"
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help=text)


def write_json(document: object, target: str) -> None:
    """Writes `document` to the file `target`, or to stdout for "-".

    Raises:
        UsageError: `target` is not a place for JSON: a Python file or a folder, or it cannot be written. `--json
        train.py` would take the script for the file's name.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    if Path(target).suffix == ".py" or Path(target).is_dir():
        raise UsageError(f"--json: {target} is not a file for JSON; write `--json -` for stdout")
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json: {target} cannot be written: {error.strerror}") from error
