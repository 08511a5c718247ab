"""The demo's table and picture."""

from pathlib import Path

import matplotlib
import torch
from rich.console import Console

from demo.training import SNAPSHOT_EVERY, Run
from reprocuda.reports.terminal import Cell, print_line, print_table

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def share_of_other_bits(weights: torch.Tensor, reference: torch.Tensor) -> float:
    return (weights.view(torch.int32) != reference.view(torch.int32)).double().mean().item()


def first_difference(losses: list[float], reference: list[float]) -> str:
    steps = (step for step, pair in enumerate(zip(losses, reference, strict=True), 1) if pair[0] != pair[1])
    return str(next(steps, "never"))


def largest_gaps(losses: list[float], reference: list[float]) -> list[float]:
    """The largest distance within every SNAPSHOT_EVERY steps: single steps jump about too much to be read."""
    gaps = [abs(a - b) for a, b in zip(losses, reference, strict=True)]
    return [max(gaps[start : start + SNAPSHOT_EVERY]) for start in range(0, len(gaps), SNAPSHOT_EVERY)]


def show(console: Console, operators: str, labels: list[str], runs: list[Run]) -> None:
    columns = (
        "run",
        "final loss",
        "gaps filled",
        "loss differs\nfrom step",
        "weights with\nother bits",
        "SHA-256 of\nall weights",
    )
    reference = runs[0]
    rows = [
        (
            label,
            f"{run.losses[-1]:.7f}",
            f"{100 * run.accuracy:.2f} %",
            "" if run is reference else first_difference(run.losses, reference.losses),
            "" if run is reference else f"{share_of_other_bits(run.snapshots[-1], reference.snapshots[-1]):.2%}",
            Cell(run.sha256[:16], "good" if run.sha256 == reference.sha256 else "bad"),
        )
        for label, run in zip(labels, runs, strict=True)
    ]
    print_table(console, f"{operators}: the same training, {len(runs)} times", columns, rows, right=columns[1:5])
    print_line(console, "")


def draw(path: Path, labels: list[str], results: dict[str, list[Run]]) -> None:
    """Left: how far the loss is from the first run's. Right: the share of weights whose bits differ from that run's."""
    figure, (loss_axes, bits_axes) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for colour, (operators, runs) in zip(("tab:red", "tab:green"), results.items(), strict=True):
        reference = runs[0]
        for style, label, run in zip(("--", ":", "-.", "-"), labels[1:], runs[1:], strict=False):
            gaps = largest_gaps(run.losses, reference.losses)
            shares = [share_of_other_bits(a, b) for a, b in zip(run.snapshots, reference.snapshots, strict=True)]
            steps = [min(i * SNAPSHOT_EVERY, len(run.losses)) for i in range(len(shares))]
            loss_axes.plot(steps[: len(gaps)], gaps, style, color=colour, label=f"{operators}: {label}")
            bits_axes.plot(steps, [100 * share for share in shares], style, color=colour)
    loss_axes.set_yscale("symlog", linthresh=1e-8)
    loss_axes.set_ylim(bottom=-1e-9)
    loss_axes.set(xlabel="step", ylabel="|loss - loss of the first run|", title="Loss: distance from the first run")
    bits_axes.set(xlabel="step", ylabel="%", ylim=(-3, 103), title="Weights whose bits differ from the first run")
    figure.legend(*loss_axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    figure.savefig(path, dpi=130)
    plt.close(figure)
