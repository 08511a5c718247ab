"""The script that a command runs, with the script's own arguments behind it."""

from __future__ import annotations

import argparse
import importlib.machinery
import os
from collections.abc import Sequence
from typing import Any

from .output import UsageError


class _Script(argparse.Action):
    """Sets `script` and `arguments`. All that stands behind the script is its own, a `--` too."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Sequence[str], *_: Any) -> None:
        values = values[1:] if values[0] == "--" else values
        if not values:
            parser.error("the following arguments are required: script")
        namespace.script, namespace.arguments = values[0], list(values[1:])


def add_script(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "script", nargs=argparse.PARSER, action=_Script, help="the script, with its arguments behind it"
    )


def check_script(path: str) -> None:
    """Refuses what Python could not run: it takes a file, or a folder or archive with a `__main__.py`.

    Raises:
        UsageError: there is nothing at path, or a folder without `__main__.py`.
    """
    if not os.path.exists(path):
        raise UsageError(f"there is no script {path}")
    if os.path.isdir(path) and importlib.machinery.PathFinder.find_spec("__main__", [path]) is None:
        raise UsageError(f"{path} is a folder without __main__.py")
