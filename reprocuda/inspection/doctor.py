"""doctor(): the environment's and a source's findings together."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..reports.terminal import Cell, console, print_line, print_table
from .environment import check_environment, environment
from .finding import SEVERITIES, Finding, worst
from .scan import scan

_STYLES = {"ok": "good", "note": "dim", "warning": "warn", "problem": "bad"}


@dataclass(frozen=True)
class DoctorReport:
    """What `doctor` found; print it.

    Attributes:
        environment: versions, processors, threads and variables, in plain types.
        findings: about the environment first, then about the source, by file and line.
        path: the source that was looked through; None for none.
    """

    environment: dict[str, Any]
    findings: tuple[Finding, ...]
    path: str | None = None

    @property
    def worst(self) -> str:
        """The gravest severity: "ok", "note", "warning" or "problem"."""
        return worst(self.findings)

    @property
    def exit_code(self) -> int:
        """1 where there is a warning or a problem, else 0."""
        return int(self.worst in ("warning", "problem"))

    def as_dict(self) -> dict[str, Any]:
        """In plain types, for JSON."""
        findings = [finding.as_dict() for finding in self.findings]
        return {"path": self.path, "worst": self.worst, "findings": findings, "environment": self.environment}

    def print(self, file: Any = None) -> None:
        """Prints tables to `file`, standard output by default."""
        to = console(file)
        print_table(to, "environment", ["of", "here"], _facts(self.environment))
        settings = [f for f in self.findings if f.file is None]
        rows = [[Cell(f.severity, _STYLES[f.severity]), f.subject, f.message, f.cure] for f in settings]
        print_line(to, "")
        print_table(to, "settings", ["is", "setting", "what it means", "cure"], rows)
        if self.path is not None:
            _print_source(to, self.path, [f for f in self.findings if f.file is not None])

    def __str__(self) -> str:
        text = io.StringIO()
        self.print(text)
        return text.getvalue().rstrip("\n")


def doctor(path: str | os.PathLike[str] | None = None) -> DoctorReport:
    """Looks for what makes two runs differ: in this process and around it, and in a source without running it.

    Args:
        path: a script, or a folder with Python files; None: the environment alone. In a source, a line with
            `# reprocuda: ignore`, or `# reprocuda: ignore[code]`, is left alone.

    Returns:
        A `DoctorReport`: facts, and findings with severity, meaning and cure; those of a source with file, line, column
        and code: "set-order", "listing-order", "hash-order", "unseeded", "unseeded-generator", "clock", "loader",
        "sampler-epoch", "uninitialised", "operator" or "syntax".

    Raises:
        FileNotFoundError: there is nothing at path.
        ValueError: path is a folder without Python files, or a notebook.

    It does not initialise CUDA. A source takes about a second for ten thousand lines.

    Example:
        >>> import pathlib, tempfile, reprocuda
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     script = pathlib.Path(folder, "train.py")
        ...     _ = script.write_text("import torch\\nx = torch.rand(3)\\n")
        ...     report = reprocuda.doctor(script)
        >>> [(f.line, f.code) for f in report.findings if f.file]
        [(2, 'unseeded')]
        >>> report.worst
        'warning'
    """
    found = scan(path) if path is not None else ()
    facts = environment()
    return DoctorReport(facts, (*check_environment(facts), *found), None if path is None else os.fspath(path))


def _facts(facts: dict[str, Any]) -> list[list[str]]:
    of_torch, cpu, threads = facts["torch"], facts["cpu"], facts["threads"]
    cuda = f"CUDA {of_torch['cuda']}, cuDNN {of_torch['cudnn']}" if of_torch["cuda"] else "no CUDA"
    cards = [f"{card['name']} (sm_{card['capability'].replace('.', '')})" for card in facts["gpus"]]
    rows = [
        ["Python", f"{facts['python']} on {facts['platform']}"],
        ["torch", f"{of_torch['version']}, {cuda}, BLAS {of_torch['blas']}; NumPy {facts['numpy']}"],
        ["CPU", f"{cpu['model']}, {cpu['isa']}, {cpu['cores']} cores"],
        ["threads", f"{threads['intra_op']} within an operator, {threads['inter_op']} between operators"],
        ["GPUs", ", ".join(cards) + f", driver {facts['driver']}" if cards else "none"],
    ]
    return rows + [[name, value] for name, value in facts["variables"].items()]


def _print_source(to: Any, path: str, findings: list[Finding]) -> None:
    print_line(to, "")
    if not findings:
        print_line(to, f"{path}: nothing found", "good")
        return
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, finding.code, finding.subject, finding.message), []).append(finding)
    for group in sorted(groups.values(), key=lambda group: -SEVERITIES.index(group[0].severity)):
        first = group[0]
        for finding in group if first.severity != "note" else group[:1]:
            print_line(
                to, f"{finding.place}: {first.severity}: {first.subject} [{first.code}]", _STYLES[first.severity]
            )
        print_line(to, f"    {first.message}{_more(group)}")
        if first.cure:
            print_line(to, f"    cure: {first.cure}", "dim")
    print_line(to, "")
    print_line(to, _count(findings))


def _more(group: list[Finding]) -> str:
    rest = group[1:] if group[0].severity == "note" else []
    return f" (and {len(rest)} more: {_lines(rest)})" if rest else ""


def _lines(findings: Iterable[Finding]) -> str:
    places = [f"{os.path.basename(finding.file or '')}:{finding.line}" for finding in findings]
    return ", ".join(places[:4]) + (", ..." if len(places) > 4 else "")


def _count(findings: list[Finding]) -> str:
    numbers = {severity: sum(f.severity == severity for f in findings) for severity in reversed(SEVERITIES)}
    return ", ".join(f"{n} {severity}{'s' * (n != 1)}" for severity, n in numbers.items() if n)
