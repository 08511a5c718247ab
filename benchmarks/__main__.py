"""Runs the cases and writes JSON, a table and a picture into benchmarks/results."""

import argparse
import gc
import json
import os
import platform
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import torch

import reprocuda
from benchmarks.cases import all_cases
from benchmarks.cases.base import OURS, Case, exists_on
from benchmarks.report import draw, markdown, show
from benchmarks.timing import Contestant, interleave
from reprocuda.reports.terminal import console, print_line

RESULTS = Path(__file__).resolve().parent / "results"


def processor() -> str:
    if Path("/proc/cpuinfo").exists():
        model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        if model:
            return model.group(1)
    return platform.processor() or platform.machine()


def judge(contestants: list[Contestant]) -> dict[str, tuple[str, float | None]]:
    verdicts = {}
    for contestant in contestants:
        with contestant.scope():
            verdicts[contestant.name] = contestant.judge()
    return verdicts


def run_case(case: Case, device: str, thread_counts: list[int], repeats: int) -> list[dict]:
    """A row for each contestant and number of threads; one whose result is wrong has a reason and no time."""
    problem = case.make_problem(device)
    contestants = case.contestants(problem)
    rows = []
    for threads in thread_counts:
        torch.set_num_threads(threads)
        verdicts = judge(contestants)
        fit = [contestant for contestant in contestants if not verdicts[contestant.name][0]]
        timings = interleave(fit, device, len(problem.copies), repeats)
        goals = case.goals.get(threads, {}) if device == "cpu" else {}
        for contestant in contestants:
            wrong, share = verdicts[contestant.name]
            timing = timings.get(contestant.name)
            row = {
                "family": case.family,
                "shape": case.shape,
                "dtype": case.dtype,
                "threads": threads,
                "contestant": contestant.name,
                "baseline": contestants[0].name,  # what our ratios are quoted against: the operator that ours replaces
                "wrong": wrong,
                "share_right": share,
                "milliseconds": vars(timing) if timing else None,
                "ratios": {},
            }
            for other in contestants:
                if timing and other.name in timings and contestant.name.startswith(OURS) and other != contestant:
                    ratio = timing.median / timings[other.name].median
                    row["ratios"][other.name] = {"ratio": ratio, "goal": goals.get((contestant.name, other.name))}
            rows.append(row)
    return rows


def measure_overhead() -> dict:
    command = [sys.executable, "-m", "benchmarks.overhead"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=RESULTS.parent.parent)
    return json.loads(run.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=None,
                        help="numbers of CPU threads, as in 1,2; torch's own where it is not given")  # fmt: skip
    parser.add_argument("--only", default="", help="a regular expression on family, shape and dtype")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the JSON, the table and the picture")
    options = parser.parse_args()
    if not exists_on(options.device):
        sys.exit(f"no {options.device} here: {reprocuda.build_info()['why_cuda_not_loaded']}")

    to = console()
    machine = torch.cuda.get_device_name() if options.device == "cuda" else f"{processor()}, {os.cpu_count()} cores"
    document = {
        "date": date.today().isoformat(),
        "device": options.device,
        "machine": machine,
        "torch": torch.__version__,
        "reprocuda": reprocuda.build_info(),
        "repeats": options.repeats,
        "rows": [],
        "overhead_microseconds": {},
    }
    print_line(to, f"{machine}; torch {torch.__version__}; medians of {options.repeats} interleaved rounds")
    thread_counts = options.threads or [torch.get_num_threads()]
    for case in all_cases():
        if re.search(options.only, f"{case.family} {case.shape} {case.dtype}"):
            rows = run_case(case, options.device, thread_counts, options.repeats)
            document["rows"] += rows
            show(to, rows)
            gc.collect()
    if re.search(options.only, "overhead"):
        document["overhead_microseconds"] = measure_overhead()
        print_line(to, f"microseconds a tiny call: {document['overhead_microseconds']}")

    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / options.device
    stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(document))
    draw(stem.with_suffix(".png"), document)
    print_line(to, f"written: {stem}.json, .md, .png")
    wrong = [row for row in document["rows"] if row["wrong"] and row["contestant"].startswith(OURS)]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
