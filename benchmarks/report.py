"""The benchmark's table, Markdown and picture."""

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
    """Bars: our time over that of the operator we replace, for each case; 1 is the same speed."""
    threads = max((row["threads"] for row in document["rows"]), default=0)
    rows = [
        row
        for row in document["rows"]
        if row["contestant"] == OURS and row["threads"] == threads and row["baseline"] in row["ratios"]
    ]
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.32 * len(rows)), layout="constrained")
    labels = [f"{row['family']} ({row['shape']}) {row['dtype']}" for row in rows]
    ratios = [row["ratios"][row["baseline"]]["ratio"] for row in rows]
    colours = ["tab:green" if ratio <= 1 else "tab:orange" for ratio in ratios]
    bars = axes.barh(labels, [ratio - 1 for ratio in ratios], left=1, color=colours)  # from 1 to the ratio
    axes.bar_label(bars, [f"{ratio:.2f}" for ratio in ratios], padding=3)
    axes.set_xscale("log")
    axes.set_xlim(min([*ratios, 1]) / 2, max([*ratios, 1]) * 2)
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("time / time of torch's operator (less is faster)")
    axes.set_title(f"{document['machine']}, {threads} threads")
    figure.savefig(path, dpi=130)
    plt.close(figure)
