"""Tables: plain and stable when piped, coloured on a terminal only, and nothing in a cell is obeyed."""

import io

import pytest

import reprocuda
from reprocuda import cli
from reprocuda.reports.terminal import Cell, console, print_line, print_table


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


ROWS = [("loss", 0.25), ("a.very.long.name" * 20, Cell("1e-7", "bad"))]


def printed(file, title="what differs", rows=ROWS):
    print_table(console(file), title, ["name", "value"], rows, right=["value"])
    print_line(console(file), "done", "good")
    return file.getvalue()


@pytest.fixture
def terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal()


def test_piped_output_is_plain_and_never_wrapped(monkeypatch):
    widths = []
    for columns in ("20", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        widths.append(printed(io.StringIO()))
    assert widths[0] == widths[1]
    lines = widths[0].splitlines()
    assert len(lines) == 6 and widths[0].isascii() and "\x1b" not in widths[0]
    assert lines[0] == "what differs" and lines[3].endswith("0.25") and lines[4].endswith("1e-7")
    assert len(lines[3]) == len(lines[4])  # flush right


def test_headings_of_several_lines_are_one_when_piped():
    file = io.StringIO()
    print_table(console(file), None, ["run", "differs\nfrom", ""], [["a", "3", "note"]], right=["differs\nfrom"])
    assert file.getvalue() == "run  differs from\n---  ------------\na               3  note\n"


def test_status_is_printed_by_the_command_as_by_print(capsys):
    assert cli.main(["status"]) == 0
    assert capsys.readouterr().out.endswith(f"\n\n{reprocuda.status()}\n")


def test_colours_on_a_terminal_only(terminal, monkeypatch):
    assert "\x1b[1;31m" in printed(terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed(Terminal())


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_what_a_cell_holds_is_printed_not_obeyed(kind, terminal):
    text = printed(kind(), title="[red]t[/]", rows=[("[bold]a[/] :smile:", "\x1b[2Jb\x07")])
    assert "[bold]a[/] :smile:" in text and "[red]t[/]" in text
    assert "\x1b[2J" not in text and "\\x1b[2Jb\\x07" in text


def test_characters_beyond_the_encoding_do_not_stop_a_report():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_table(console(file), None, ["name"], [["naïve.py"]])
    print_line(console(file), "naïve.py")
    file.flush()
    assert file.buffer.getvalue().decode().split() == ["name", "-" * 11, "na\\xefve.py", "na\\xefve.py"]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="'t' must have 2 cells, got 1"):
        print_table(console(io.StringIO()), "t", ["a", "b"], [["x"]])
