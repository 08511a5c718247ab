"""Writes the measured costs in README.md from benchmarks/results/cpu.json, so that no number there is typed by hand."""

import json
import statistics
import sys
from pathlib import Path

from benchmarks.cases import FAMILIES
from benchmarks.cases.base import ALL_NAN, FORCED_EXACT, OURS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "cpu.json"
BEGIN = "<!-- measured: begin (python -m benchmarks.readme) -->\n"
END = "<!-- measured: end -->\n"


def _cell(rows: list[dict], family: str, contestant: str, baseline: str) -> str:
    """Our milliseconds, and how many times the baseline's that is."""
    for row in rows:
        if row["family"] == family and row["contestant"] == contestant and baseline in row["ratios"]:
            return f"{row['milliseconds']['median']:.1f} ms ({row['ratios'][baseline]['ratio']:.2f} x)"
    return ""


def _milliseconds(rows: list[dict], contestant: str) -> str:
    for row in rows:
        if row["family"] == "IndexAdd" and row["contestant"] == contestant and row["milliseconds"]:
            return f"{row['milliseconds']['median']:.1f} ms"
    return ""


def _families(rows: list[dict]) -> list[str]:
    """Of each family of operators how our times compare with torch's, in all dtypes that were measured."""
    lines = ["| family | cases | median | smallest | largest |", "| --- | --- | --- | --- | --- |"]
    for title, module in FAMILIES.items():
        names = {case.family for case in module.cases()}
        ratios = [
            (row["ratios"][row["baseline"]]["ratio"], row)
            for row in rows
            if row["family"] in names and row["contestant"] == OURS and row["baseline"] in row["ratios"]
        ]
        if ratios:
            largest, worst = max(ratios, key=lambda entry: entry[0])
            smallest = min(ratio for ratio, _ in ratios)
            median = statistics.median(ratio for ratio, _ in ratios)
            where = f"{worst['family']}: {worst['shape']}, {worst['dtype']}"
            lines.append(f"| {title} | {len(ratios)} | {median:.2f} | {smallest:.2f} | {largest:.2f} ({where}) |")
    return lines


def _against_torch_scatter(rows: list[dict]) -> list[str]:
    ratios = [
        row["ratios"]["torch_scatter"]["ratio"]
        for row in rows
        if row["contestant"] == OURS
        and row["family"] in ("Scatter max", "Scatter min")
        and "torch_scatter" in row["ratios"]
    ]
    if not ratios:
        return []
    quickest, slowest = (f"{1 / ratio:.1f}" for ratio in (min(ratios), max(ratios)))
    return ["", f"torch_scatter's `scatter_max` and `scatter_min` take {slowest} to {quickest} times as long as ours."]


def measured(document: dict) -> str:
    """The sums of float32 with the most threads, all families in short, and the cost of a replaced call."""
    threads = max(row["threads"] for row in document["rows"])
    of_all = [row for row in document["rows"] if row["threads"] == threads]
    rows = [row for row in of_all if row["dtype"] == "float32"]
    shapes = list(dict.fromkeys(row["shape"] for row in rows if row["family"] == "IndexAdd"))
    lines = [
        f"On a CPU ({document['machine']}), {threads} threads, torch {document['torch'].partition('+')[0]}, float32: "
        f"medians of {document['repeats']} interleaved rounds, and in brackets the ratio to torch's operator.",
        "",
        "| rows, features, segments | torch `index_add_` | ours | all NaN | all by the fallback | embedding backward |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for shape in shapes:
        of_shape = [row for row in rows if row["shape"] == shape]
        cells = (
            shape,
            _milliseconds(of_shape, "index_add_"),
            *(_cell(of_shape, "IndexAdd", contestant, "index_add_") for contestant in (OURS, ALL_NAN, FORCED_EXACT)),
            _cell(of_shape, "EmbeddingBackward", OURS, "embedding_dense_backward"),
        )
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "All families and dtypes, as ratios to torch's operator (1: the same time):", ""]
    lines += _families(of_all)
    lines += _against_torch_scatter(of_all)
    overhead = document["overhead_microseconds"]
    if overhead:
        extra = {name: (cost["on"] - cost["never enabled"], cost["off"] - cost["never enabled"])
                 for name, cost in overhead.items()}  # fmt: skip
        on, off = extra["scatter_add_"]
        most_on, most_off = map(max, zip(*extra.values(), strict=True))
        lines += [
            "",
            f"A call of a replaced operator costs {on:.1f} microseconds more while it is enabled (`scatter_add_`; at "
            f"most {most_on:.1f}: `index_add_` with alpha) and {off:.1f} once it is disabled again (at most "
            f"{most_off:.1f}: torch's `index_add_` of rows calls `scatter_add_`, and both are replaced); nothing "
            "before the first `enable()`.",
        ]
    return "\n".join(lines) + "\n"


def rewritten(readme: str, document: dict) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + measured(document) + END + after


def main() -> None:
    if not RESULTS.exists():
        sys.exit(f"{RESULTS} is not there: run `python -m benchmarks` first")
    readme = ROOT / "README.md"
    readme.write_text(rewritten(readme.read_text(), json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
