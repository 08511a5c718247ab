"""Writes the table of operators in docs/contract.md from the registry: `python -m docs.operators`."""

from pathlib import Path

import reprocuda

CONTRACT = Path(__file__).resolve().parent / "contract.md"
BEGIN = "<!-- operators: begin (python -m docs.operators) -->\n"
END = "<!-- operators: end -->\n"


def table() -> str:
    lines = ["| operator | tier | what is summed | replaces | aten overloads | notes |", "| --- " * 6 + "|"]
    for operator in reprocuda.registry.values():
        summed = "its result" if operator.part == "forward" else "its gradient"
        replaces = ", ".join(f"`{name}`" for name in operator.replaces)
        overloads = ", ".join(f"`{name}`" for name in operator.overloads)
        cells = (f"`{operator.name}`", operator.tier, summed, replaces, overloads, operator.notes)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def rewritten(contract: str) -> str:
    before, _, rest = contract.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    CONTRACT.write_text(rewritten(CONTRACT.read_text()))
