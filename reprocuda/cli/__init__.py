"""The command line: `python -m reprocuda COMMAND`, or `reprocuda COMMAND`.

A command is a module here with two functions: `add(subparsers)` declares it and sets `run` as its default, and
`run(arguments)` does it and returns the exit code. Exit codes: 0 good; 1 something was found or differs; 2 bad usage,
or the script failed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from .output import UsageError

COMMANDS = ("run", "audit", "doctor", "manifest", "report", "status", "bench")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="reprocuda", description="Exact sums by index, and runs that repeat.")
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    for command in COMMANDS:
        importlib.import_module(f".{command}", __name__).add(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: the arguments after the program's name; those of this process by default.

    Returns:
        The exit code.
    """
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    if rest and not getattr(arguments, "passes_rest", False):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    arguments.rest = rest
    try:
        return arguments.run(arguments)
    except UsageError as error:
        print(f"{parser.prog} {arguments.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has read enough; the interpreter's own flush at exit must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
