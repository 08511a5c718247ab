"""The benchmark's table, Markdown and picture."""

import statistics
from pathlib import Path

import matplotlib
from rich.console import Console

from benchmarks.cases.base import OURS
from reprocuda.reports.terminal import Cell, print_table

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLUMNS = ("operator", "rows, features, segments", "dtype", "threads", "contestant")
COLUMNS += ("median ms", "quartiles", "right", "ratio")


def _milliseconds(row: dict) -> tuple[str, str]:
    timing = row["milliseconds"]
    if timing is None:
        return "-", row["wrong"]
    return f"{timing['median']:.3g}", f"{timing['quartile_low']:.3g} - {timing['quartile_high']:.3g}"


def _goals(row: dict) -> str:
    """Every ratio that has a goal, or else the one to the baseline."""
    parts = []
    for other, entry in row["ratios"].items():
        if entry["goal"] is not None:
            met = "met" if entry["ratio"] <= entry["goal"] else "MISSED"
            parts.append(f"{entry['ratio']:.2f} x {other} (goal {entry['goal']:g}: {met})")
    baseline = row["baseline"]
    if not parts and baseline in row["ratios"]:
        parts.append(f"{row['ratios'][baseline]['ratio']:.2f} x {baseline}")
    return "; ".join(parts)


def _right(row: dict) -> str:
    return "" if row["share_right"] is None else f"{row['share_right']:.0%}"


def show(console: Console, rows: list[dict]) -> None:
    first = rows[0]
    title = f"{first['family']} (rows, features, segments) = ({first['shape']}), {first['dtype']}"
    columns = ("threads", "contestant", "median ms", "quartiles", "sampled outputs\nexactly right", "ratio")
    lines = []
    for row in rows:
        style = "title" if row["contestant"] == OURS else "plain"
        cells = (str(row["threads"]), row["contestant"], *_milliseconds(row), _right(row), _goals(row))
        lines.append([Cell(text, style) for text in cells])
    print_table(console, title, columns, lines)


def markdown(document: dict) -> str:
    lines = [
        f"# Benchmarks on the {document['device'].upper()}",
        "",
        f"{document['machine']}; torch {document['torch']}; {document['date']}; medians of {document['repeats']} "
        "interleaved rounds. Written by `python -m benchmarks`.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "| --- " * len(COLUMNS) + "|",
    ]
    for row in document["rows"]:
        cells = (row["family"], row["shape"], row["dtype"], str(row["threads"]), row["contestant"],
                 *_milliseconds(row), _right(row), _goals(row))  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    if document["overhead_microseconds"]:
        lines += ["", "| a tiny call, microseconds | never enabled | enabled | disabled again | cost on | cost off |"]
        lines.append("| --- " * 6 + "|")
    for call, cost in document["overhead_microseconds"].items():
        native = cost["never enabled"]
        numbers = (native, cost["on"], cost["off"], cost["on"] - native, cost["off"] - native)
        lines.append(f"| {call} | " + " | ".join(f"{number:.2f}" for number in numbers) + " |")
    return "\n".join(lines) + "\n"


def draw(path: Path, document: dict) -> None:
    """A line for each operator and dtype: our time over that of the operator we replace, a dot a case."""
    threads = max((row["threads"] for row in document["rows"]), default=0)
    ratios: dict[str, list[float]] = {}
    for row in document["rows"]:
        if row["contestant"] == OURS and row["threads"] == threads and row["baseline"] in row["ratios"]:
            label = f"{row['family']}, {row['dtype']}"
            ratios.setdefault(label, []).append(row["ratios"][row["baseline"]]["ratio"])
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.22 * len(ratios)), layout="constrained")
    for line, of_label in enumerate(ratios.values()):
        middle = statistics.median(of_label)
        colour = "tab:green" if middle <= 1 else "tab:orange"
        axes.hlines(line, min(of_label), max(of_label), color=colour, linewidth=1)
        axes.plot(of_label, [line] * len(of_label), "o", color=colour, markersize=3, alpha=0.6)
        axes.plot(middle, line, "|", color="black", markersize=9)
    axes.set_yticks(range(len(ratios)), ratios, fontsize=7)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("time / time of torch's operator (less is faster); a dot a case, a bar the median")
    axes.set_title(f"{document['machine']}, {threads} threads")
    figure.savefig(path, dpi=110)
    plt.close(figure)
