"""Tables for the terminal, the same for every command: drawn by rich on a terminal, plain aligned text anywhere else.

Piped output has no colours, no box characters and no wrapping, whatever the width of the window that it was started in,
so that two runs' outputs can be compared by `diff` and read by scripts. NO_COLOR takes the colours off a terminal too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..tables import aligned

# What a cell or a line can be; the words, never the colours alone, say what they mean.
STYLES = {"good": "green", "bad": "bold red", "warn": "yellow", "dim": "dim", "title": "bold", "plain": ""}


@dataclass(frozen=True)
class Cell:
    """A text with one of the styles of `STYLES`; a plain string is a cell without style."""

    text: str
    style: str = "plain"


def console(file: IO[str] | None = None) -> Console:
    """The console that commands print to.

    Args:
        file: where to; None: standard output as it is now.

    Returns:
        A rich Console without automatic highlighting, markup and emoji, so that what a file name or a message contains
        is printed as it is.

    Example:
        >>> import io
        >>> console(io.StringIO()).is_terminal
        False
    """
    return Console(file=file or sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_line(to: Console, text: str, style: str = "plain") -> None:
    """One line (or several), in a style where there are colours.

    Example:
        >>> import sys
        >>> print_line(console(sys.stdout), "identical: all 40 records agree", "good")
        identical: all 40 records agree
    """
    to.print(Text(_printable(text, to), style=STYLES[style]))


def print_table(
    to: Console, title: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()
) -> None:
    """A table with a title.

    Args:
        to: the console.
        title: a line above it; None: none.
        columns: the headings.
        rows: one sequence of cells a row: `Cell`, or anything, by its `str`.
        right: the headings of the columns that are flush right.

    Raises:
        ValueError: a row has not as many cells as there are columns.

    Example:
        >>> import sys
        >>> print_table(console(sys.stdout), "weights", ["name", "Vc"], [["bias", 0.5]], right=["Vc"])
        weights
        name   Vc
        ----  ---
        bias  0.5
    """
    cells = [[cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row] for row in rows]
    for row in cells:
        if len(row) != len(columns):
            raise ValueError(
                f"reprocuda.reports.terminal.print_table: a row of {title!r} must have {len(columns)} cells, "
                f"got {len(row)}"
            )
    if to.is_terminal:
        _print_rich(to, title, columns, cells, right)
    else:
        _print_plain(to, title, columns, cells, right)


def _print_rich(
    to: Console, title: str | None, columns: Sequence[str], cells: list[list[Cell]], right: Sequence[str]
) -> None:
    table = Table(title=None if title is None else Text(title, style=STYLES["title"]), title_justify="left")
    table.box = SIMPLE_HEAD
    for column in columns:
        table.add_column(Text(column), justify="right" if column in right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_printable(cell.text, to), style=STYLES[cell.style]) for cell in row))
    to.print(table, soft_wrap=False)


def _print_plain(
    to: Console, title: str | None, columns: Sequence[str], cells: list[list[Cell]], right: Sequence[str]
) -> None:
    rows = ([_printable(cell.text, to) for cell in row] for row in cells)
    above = "" if title is None else f"{title}\n"
    to.file.write(f"{above}{aligned(columns, rows, right)}\n")


def _printable(text: str, to: Console) -> str:
    """Without control characters, which a file name may hold and a terminal would obey, and within the encoding."""
    safe = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
    encoding = getattr(to.file, "encoding", None) or "utf-8"
    return safe.encode(encoding, "backslashreplace").decode(encoding)
