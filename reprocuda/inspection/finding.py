"""What an inspection finds: facts with a severity, a meaning and a cure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

SEVERITIES = ("ok", "note", "warning", "problem")


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        severity: "ok"; "note": worth knowing; "warning": runs may differ by it; "problem": runs do, or will raise.
        code: the kind of finding, by which `# reprocuda: ignore[code]` silences it in a source.
        subject: what it is about: a call, a setting, a variable.
        message: what it means.
        cure: what to do; empty where there is nothing to do.
        file, line, column: where in a source, line and column counted from 1; None for the environment.
    """

    severity: str
    code: str
    subject: str
    message: str
    cure: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def place(self) -> str:
        return "" if self.file is None else f"{self.file}:{self.line}:{self.column}"

    def as_dict(self) -> dict:
        return dataclasses.asdict(self)


def worst(findings: tuple[Finding, ...] | list[Finding]) -> str:
    """The gravest severity among them; "ok" for none."""
    return max((finding.severity for finding in findings), key=SEVERITIES.index, default="ok")
