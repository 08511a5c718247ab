"""reprocuda report: one self-contained HTML page about two runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

from .output import UsageError, add_json, write_json

_WHAT = "histories, traces, manifests and the JSON of an audit"


def add(subparsers: argparse._SubParsersAction) -> None:
    text = "show two runs on one HTML page: verdict, divergence, variability, costs, environments"
    parser = subparsers.add_parser(
        "report",
        help=text,
        description=text.capitalize(),
        epilog="Exit code 0: identical; 1: different; 2: a file that cannot be read.",
    )
    text = f"{_WHAT}, in any order; of each kind the first run's before the second's"
    parser.add_argument("files", nargs="+", metavar="FILE", help=text)
    parser.add_argument("--output", metavar="FILE", default="report.html", help="the page (report.html)")
    parser.add_argument("--title", default="Reproducibility report")
    parser.add_argument("--no-costs", action="store_true", help="do not time the operators that the first run noted")
    add_json(parser, "what was found")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..auditing import compare
    from ..reports import divergence, html, measure
    from ..reports.terminal import console, print_line
    from ..reports.traced import calls_of_trace
    from ..reports.verdict import verdict

    found = _read(arguments.files)
    parts: dict[str, Any] = {"manifests": found["manifest"], "title": arguments.title}
    if found["audit"]:
        parts["audit"] = found["audit"][0]
    if found["trace"]:
        parts["audit"] = compare(*found["trace"]).as_dict()
    calls = []
    if found["history"]:
        parts["divergence"] = divergence(*found["history"])
        calls = found["history"][0].calls
    if found["trace"] and not calls:
        calls = calls_of_trace(found["trace"][0])
    if calls and not arguments.no_costs:
        parts["costs"] = measure(calls)
    parts["names"] = _names(arguments.files, found)
    try:
        html.write(arguments.output, **parts)
    except OSError as error:
        raise UsageError(f"--output: {arguments.output} cannot be written: {error.strerror}") from error
    same = verdict(parts.get("audit"), parts.get("divergence"), parts["manifests"]).identical
    if arguments.json:
        write_json(_document(same, parts, arguments.output), arguments.json)
    elif same is None:
        print_line(console(), f"nothing to compare among {len(arguments.files)} files; {arguments.output}", "warn")
    else:
        answer = "identical" if same else "the runs differ"
        print_line(console(), f"{answer}; {arguments.output}", "good" if same else "bad")
    return 1 if same is False else 0


def _read(files: list[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"history": [], "trace": [], "manifest": [], "audit": []}
    for file in files:
        try:
            kind, content = _read_one(Path(file))
        except (OSError, ValueError) as error:
            raise UsageError(str(error)) from error
        found[kind].append(content)
    for kind in ("history", "trace"):
        if len(found[kind]) not in (0, 2):
            plural = {"history": "histories", "trace": "traces"}[kind]
            raise UsageError(f"got {len(found[kind])} {plural}, expected two")
    if len(found["manifest"]) > 2:
        raise UsageError(f"got {len(found['manifest'])} manifests, expected at most two")
    if len(found["audit"]) + bool(found["trace"]) > 1:
        raise UsageError("got several audits (two traces are one), expected at most one")
    return found


def _read_one(path: Path) -> tuple[str, Any]:
    from ..auditing.trace import MAGIC
    from ..inspection.manifest import FORMAT
    from ..reports.history import History

    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if start == MAGIC:
        return "trace", path
    if zipfile.is_zipfile(path):
        return "history", History.load(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # a text that is no JSON, or bytes that are no text
        document = None
    if isinstance(document, dict) and "identical" in document:
        return "audit", document
    if isinstance(document, dict) and document.get("format") == FORMAT:
        return "manifest", document
    raise ValueError(f"{path} is none of {_WHAT}")


def _names(files: list[str], found: dict[str, list[Any]]) -> tuple[str, str]:
    """The two files' names, where two files are what is compared."""
    if len(files) == 2 and not found["audit"]:
        return files[0], files[1]
    return "first run", "second run"


def _document(same: bool | None, parts: dict[str, Any], page: str) -> dict[str, Any]:
    divergence, costs = parts.get("divergence"), parts.get("costs")
    document: dict[str, Any] = {"identical": same, "page": page, "audit": parts.get("audit")}
    if divergence is not None:
        final = divergence.final
        document["divergence"] = {
            "first_step": divergence.first_step,
            "first_names": list(divergence.first_names),
            "unmatched": divergence.unmatched,
            "final": None
            if final is None
            else {
                "all": dataclasses.asdict(final.total),
                **{name: dataclasses.asdict(one) for name, one in final.tensors.items()},
            },
        }
    if costs is not None:
        document["costs"] = [{**dataclasses.asdict(cost), "ratio": cost.ratio} for cost in costs]
    return document
