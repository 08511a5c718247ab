"""The static part of doctor: what in a script or package makes two runs differ, by reading it."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from .finding import SEVERITIES, Finding
from .operators import check_operators
from .order import check_hashes, check_listings, check_sets
from .randomness import Reach, check_clock, check_generators, check_loaders, check_unseeded
from .source import Source
from .uninitialised import check_uninitialised

_IN_ONE_FILE = (
    check_sets,
    check_listings,
    check_hashes,
    check_generators,
    check_clock,
    check_uninitialised,
    check_operators,
)
_WITH_REACH = (check_unseeded, check_loaders)


def python_files(path: Path) -> list[Path]:
    """The file itself, or the folder's Python files in sorted order, hidden folders and environments left out.

    Raises:
        FileNotFoundError: there is nothing at path.
        ValueError: the folder holds no Python file, or the file is a notebook.
    """
    if not path.exists():
        raise FileNotFoundError(f"doctor: path is {path}; there is no such file or folder")
    if path.is_file():
        if path.suffix == ".ipynb":
            raise ValueError(f"doctor: path is {path}, a notebook: convert it: `jupyter nbconvert --to script`")
        return [path]
    files = sorted(file for file in path.rglob("*.py") if file.is_file() and not _is_aside(file.relative_to(path)))
    if not files:
        raise ValueError(f"doctor: path is {path}; there is no Python file in that folder")
    return files


def _is_aside(relative: Path) -> bool:
    return any(
        part.startswith(".") or part in ("__pycache__", "site-packages", "node_modules") for part in relative.parts
    )


def scan(path: str | Path) -> tuple[Finding, ...]:
    """Looks through a script, or all Python files of a folder, for what makes two runs differ.

    A seed set in one of the files holds for all of them. A finding is silenced by `# reprocuda: ignore` in its line, or
    `# reprocuda: ignore[code]` for one kind.

    Returns:
        The findings, file by file in the order of the lines.

    Raises:
        FileNotFoundError: there is nothing at path.
        ValueError: a folder without a Python file.
    """
    sources: list[Source] = []
    findings: list[Finding] = []
    for file in python_files(Path(path)):
        try:
            sources.append(Source(file))
        except (SyntaxError, ValueError, RecursionError) as error:
            line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
            text = f"this is no Python source: {getattr(error, 'msg', None) or error}"
            findings.append(Finding("problem", "syntax", file.name, text, "", str(file), line, column))
    reach = Reach()
    for source in sources:
        reach.add(source)
    for source in sources:
        findings += _findings(source, reach)
    return tuple(sorted(set(findings), key=lambda f: (f.file, f.line, f.column, f.code, SEVERITIES.index(f.severity))))


def _findings(source: Source, reach: Reach) -> Iterator[Finding]:
    def check_all() -> Iterator[tuple[ast.AST, Finding]]:
        for check in _IN_ONE_FILE:
            yield from check(source)
        for check in _WITH_REACH:
            yield from check(source, reach)

    for node, finding in check_all():
        if not source.is_ignored(node, finding.code):
            yield dataclasses.replace(finding, file=source.label, line=node.lineno, column=node.col_offset + 1)
