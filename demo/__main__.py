"""The experiment: train a small text model several times, on torch's operators and on reprocuda's, and compare bits."""

import argparse
import sys
import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

import reprocuda
from demo.report import draw, show
from demo.text import Examples, read_examples
from demo.training import EPOCHS, Run, train
from reprocuda.reports.terminal import console, print_line


@dataclass(frozen=True)
class Variation:
    """One more training; `options` is all that differs from the first."""

    label: str
    options: dict


def choose_experiment() -> tuple[str, str, list[Variation]]:
    """The device, what is changed between runs (in words), and the runs."""
    if torch.cuda.is_available() and reprocuda.build_info()["cuda_loaded"]:
        changed = "nothing at all is changed between the runs: the same script, simply run again on the GPU"
        return "cuda", changed, [Variation(label, {}) for label in ("first run", "run again", "run once more")]
    threads = torch.get_num_threads()
    other = 1 if threads > 1 else 2
    changed = (
        "the rows of each batch come in another order, or another number of CPU threads is used, or not even that; "
        "nothing else is changed between the runs"
    )
    return "cpu", changed, [
        Variation(f"first run (threads: {threads})", {}),
        Variation("rows in another order", {"order_seed": 1}),
        Variation("rows in a third order", {"order_seed": 2}),
        Variation(f"threads: {other}", {"num_threads": other}),
        Variation("run again, unchanged", {}),
    ]  # fmt: skip


def run_all(examples: Examples, device: str, variations: list[Variation], epochs: int, ours: bool) -> list[Run]:
    scope = reprocuda.enabled if ours else nullcontext
    runs = []
    for variation in variations:
        with scope():
            runs.append(train(examples, device, epochs=epochs, **variation.options))
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--output", type=Path, default=Path("demo_output"), help="folder for the picture")
    options = parser.parse_args()

    warnings.simplefilter("ignore", reprocuda.CompileWarning)  # nothing is compiled here
    to = console()
    started = time.perf_counter()
    device, changed, variations = choose_experiment()
    examples = read_examples(torch.Generator().manual_seed(2))
    print_line(
        to,
        f"A word-embedding model learns to fill gaps in the text of Python's help topics: {len(examples)} "
        f"gaps, {len(examples.words)} words, {options.epochs} passes, on the {device.upper()}. Same data, same seeds, "
        f"same batches every time.\nThe experiment: {changed}.\n",
    )
    results = {
        "native torch": run_all(examples, device, variations, options.epochs, ours=False),
        "reprocuda": run_all(examples, device, variations, options.epochs, ours=True),
    }
    for name, runs in results.items():
        show(to, name, [variation.label for variation in variations], runs)
    options.output.mkdir(parents=True, exist_ok=True)
    picture = options.output / "drift.png"
    draw(picture, [variation.label for variation in variations], results)
    print_line(to, f"picture: {picture}   ({time.perf_counter() - started:.0f} s)")

    same = len({run.sha256 for run in results["reprocuda"]}) == 1
    verdict = "reprocuda: one SHA-256." if same else "reprocuda's runs differ: a bug."
    print_line(to, verdict, "good" if same else "bad")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
