"""Writes the table of operators in docs/contract.md from the registry: `python -m docs.operators`."""

from pathlib import Path

import reprocuda
from reprocuda.dispatch.registry import BOOL, COMPLEX, FLOATING, INTEGER

CONTRACT = Path(__file__).resolve().parent / "contract.md"
BEGIN = "<!-- operators: begin (python -m docs.operators) -->\n"
END = "<!-- operators: end -->\n"


COLUMNS = ("operator", "tier", "what is summed", "dtypes", "devices", "replaces", "aten overloads", "notes")
KINDS = {"floating": FLOATING, "complex": COMPLEX, "integer": INTEGER, "bool": BOOL}


def kinds(dtypes: tuple[str, ...]) -> str:
    """By kind where all of a kind are taken, by name where some are."""
    words = []
    for kind, members in KINDS.items():
        taken = [dtype for dtype in members if dtype in dtypes]
        words += [kind] if len(taken) == len(members) else taken
    return ", ".join(words)


def table() -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "| --- " * len(COLUMNS) + "|"]
    for operator in reprocuda.registry.values():
        summed = "its result" if operator.part == "forward" else "its gradient"
        replaces = ", ".join(f"`{name}`" for name in operator.replaces)
        overloads = ", ".join(f"`{name}`" for name in dict.fromkeys(operator.overloads))
        cells = (f"`{operator.name}`", operator.tier, summed, kinds(operator.dtypes), ", ".join(operator.devices),
                 replaces, overloads, operator.notes)  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def rewritten(contract: str) -> str:
    before, _, rest = contract.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    CONTRACT.write_text(rewritten(CONTRACT.read_text()))
