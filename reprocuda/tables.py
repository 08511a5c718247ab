"""The layout of a table as plain text, for what prints without rich and for `reports.terminal` where there is no
terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def aligned(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> str:
    """A table as text: columns two spaces apart, a rule under each heading that is not empty, nothing wrapped.

    Args:
        columns: the headings.
        rows: one text a column each.
        right: the headings of the columns that are flush right.

    Returns:
        The lines, without a line break at the end.

    Example:
        >>> print(aligned(["name", "Vc", ""], [["bias", "0.5", "all of it"]], right=["Vc"]))
        name   Vc
        ----  ---
        bias  0.5  all of it
    """
    lines = [[" ".join(text.split("\n")) for text in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width if heading else "" for heading, width in zip(columns, widths, strict=True)])
    flush = [str.rjust if column in right else str.ljust for column in columns]
    return "\n".join(
        "  ".join(pad(text, width) for pad, text, width in zip(flush, line, widths, strict=True)).rstrip()
        for line in lines
    )
