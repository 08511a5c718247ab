"""What an audit says."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field

KINDS = ("operator", "randomness", "data", "control_flow", "uninitialised", "environment")


@dataclass(frozen=True)
class Place:
    """A record of a trace, for a reader: which operator, called where, in which module and step."""

    operator: str
    file: str
    line: int
    module: str
    step: int

    def __str__(self) -> str:
        module = f" in {self.module}" if self.module else ""
        return f"{self.operator} at {_short(self.file)}:{self.line}{module}, step {self.step}"


@dataclass(frozen=True)
class AuditResult:
    """The verdict of an audit.

    Attributes:
        identical: did all runs do the same to the bit?
        kind: one of `KINDS`; None without a finding.
        operator: the aten operator, as "aten::index_add_".
        file, line: the line of the user's own code that did it.
        module: the path of the module whose forward ran.
        step: the number of optimizer steps that had been made.
        cure: what to do, in a sentence or two.
        reason: how the records differ.
        first_difference: the first record that differs, whatever the reason.
        also: later records whose inputs agree and outputs differ: causes of their own.
        records: how many records agree before the first difference.
        runs: how many runs were compared.
        notes: what else there is to know.
    """

    identical: bool
    kind: str | None = None
    operator: str | None = None
    file: str | None = None
    line: int | None = None
    module: str | None = None
    step: int | None = None
    cure: str | None = None
    reason: str | None = None
    first_difference: Place | None = None
    also: tuple[Place, ...] = ()
    records: int = 0
    runs: int = 2
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict:
        """In plain types, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"identical: {self.runs} runs agree in all {self.records} records"] if self.identical else []
        if self.kind is not None:
            found = Place(self.operator or "", self.file or "", self.line or 0, self.module or "", self.step or 0)
            head = "note" if self.identical else "different"
            lines.append(f"{head}: {self.kind}: {found}")
            lines.append(f"  why:  {self.reason}")
            lines.append(f"  cure: {self.cure}")
        if self.first_difference is not None:
            lines.append(f"  first difference, after {self.records} equal records: {self.first_difference}")
        lines += [f"  also: {place}" for place in self.also]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def _short(file: str) -> str:
    """A path as short as it can be said from here."""
    if not file or file.startswith("<"):
        return file or "nowhere"
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
