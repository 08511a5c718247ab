"""The script that a command runs, with the script's own arguments behind it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


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
