"""reprocuda audit: run a script twice and name the line at which the runs part."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator

from .output import UsageError, add_json, check_json, write_json
from .script import add_script, check_script


def add(subparsers: argparse._SubParsersAction) -> None:
    text = "run a script twice in fresh processes and name the line at which the runs part"
    parser = subparsers.add_parser(
        "audit",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Exit code 0: identical; 1: different; 2: the script failed.",
        usage="reprocuda audit [options] [-m] script [arguments]",
    )
    parser.add_argument("--steps", type=_at_least(1), metavar="N", help="record N optimizer steps, then end the run")
    parser.add_argument("--runs", type=_at_least(2), default=2, metavar="N", help="how many runs (2)")
    parser.add_argument(
        "--vary", type=_vary, default=(), metavar="WHAT", help="of the second run: threads, hash, workers, device"
    )
    parser.add_argument("--keep", metavar="DIR", help="keep the traces there")
    add_json(parser, "the verdict")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is a module, as for python -m")
    add_script(parser)
    parser.set_defaults(run=run)


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"has to be at least {least}, not {value}")
        return value

    return number


def _vary(text: str) -> tuple[str, ...]:
    from ..auditing.process import VARIATIONS

    names = tuple(text.split(","))
    unknown = [name for name in names if name not in VARIATIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such thing as {unknown[0]!r}; there are {', '.join(VARIATIONS)}")
    return names


def run(arguments: argparse.Namespace) -> int:
    from ..auditing.process import Plan, ScriptFailed, audit_script
    from ..reports.terminal import console, print_line

    _check(arguments)
    with _progress(arguments.runs, arguments.steps) as progress:
        plan = Plan(
            arguments.script,
            arguments.arguments,
            arguments.module,
            arguments.steps,
            arguments.vary,
            arguments.runs,
            arguments.keep,
            quiet=arguments.json == "-",
            progress=progress,
        )
        try:
            result = audit_script(plan)
        except ScriptFailed as error:
            raise UsageError(str(error)) from error
        except KeyboardInterrupt:
            print("reprocuda audit: interrupted", file=sys.stderr)
            return 130
    if arguments.json:
        write_json(result.as_dict(), arguments.json)
    to = console(sys.stderr if arguments.json == "-" else None)
    print_line(to, str(result), "good" if result.identical and result.kind is None else "warn")
    return 0 if result.identical else 1


def _check(arguments: argparse.Namespace) -> None:
    if not arguments.module:
        check_script(arguments.script)
    if "device" in arguments.vary:
        import torch

        if not torch.cuda.is_available():
            raise UsageError("--vary device needs a GPU, and there is none")
    check_json(arguments.json)


@contextlib.contextmanager
def _progress(runs: int, steps: int | None) -> Iterator[Callable[[int, int, int], None]]:
    """A progress bar on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda run, step, records: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        tasks: dict[int, int] = {}

        def show(run: int, step: int, records: int) -> None:
            if run not in tasks:
                tasks[run] = bar.add_task(f"run {run + 1} of {max(runs, run + 1)}", total=steps)
            text = f"run {run + 1} of {max(runs, run + 1)}: {step} steps, {records} operators"
            bar.update(tasks[run], completed=step, description=text)

        yield show
