"""How two runs went apart: the relative difference of the loss and of each weight, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from .history import History, KeptStep, KeptWeight
from .variability import StateVariability, relative_differences, variability


@dataclass(frozen=True)
class Point:
    """One step of a curve: `difference` is 0 if and only if the bits are equal; None: they differ, but not in the kept
    elements.
    """

    step: int
    difference: float | None


UNSEEN = math.ulp(0.0)  # stands for the difference of a `Point` that has None, where curves are ordered by size


def largest(points: Sequence[Point]) -> float:
    """The largest difference of a curve; one that the kept elements do not show counts as `UNSEEN`, the smallest.

    Example:
        >>> largest([Point(0, 0.0), Point(1, None)]) == UNSEEN, largest([Point(0, 0.5), Point(1, None)])
        (True, 0.5)
    """
    return max((UNSEEN if p.difference is None else p.difference for p in points), default=0.0)


@dataclass(frozen=True)
class Divergence:
    """How two runs went apart.

    Attributes:
        loss: the relative difference |a - b| / |a| of the loss at each step that both have.
        weights: that of each weight, |a - b| / |a| in the 2-norm over the kept elements.
        first_step: the first step at which anything differs; None: nothing does.
        first_names: what differs there: "loss" or names of weights.
        final: `variability` of the final weights; None where a run has none.
        unmatched: what only one of the runs has, or has in another shape, by name.
    """

    loss: list[Point]
    weights: dict[str, list[Point]]
    first_step: int | None
    first_names: tuple[str, ...]
    final: StateVariability | None
    unmatched: dict[str, str] = field(default_factory=dict)

    @property
    def identical(self) -> bool:
        return self.first_step is None and not self.unmatched and (self.final is None or self.final.identical)


def divergence(a: History, b: History) -> Divergence:
    """The relative difference of the loss and of each weight over the steps of two runs.

    Args:
        a: the history of the first run, the reference.
        b: that of the second.

    Returns:
        A `Divergence`.

    Example:
        >>> a, b = History(), History()
        >>> for history, loss in ((a, 2.0), (b, 3.0)):
        ...     history.record(1.0)
        ...     history.record(loss)
        >>> divergence(a, b).first_step, divergence(a, b).loss[1]
        (1, Point(step=1, difference=0.5))
    """
    unmatched = {}
    if a.length != b.length:
        unmatched["steps"] = f"the first run recorded {a.length} steps, the second {b.length}"
    loss = _losses(a.losses, b.losses, unmatched)
    kept = [{step.step: step for step in history.kept_steps} for history in (a, b)]
    steps = sorted(kept[0].keys() & kept[1].keys())
    if a.kept_weights and b.kept_weights and not steps:
        unmatched["weights"] = "no step at which both runs kept their weights"
    left, right = ({w.name: (number, w) for number, w in enumerate(history.kept_weights)} for history in (a, b))
    weights = {}
    for name in [*left, *(name for name in right if name not in left)]:
        if name not in left or name not in right:
            unmatched[name] = f"only in the {'first' if name in left else 'second'} run"
            continue
        pair = left[name], right[name]
        shapes = [(weight.dtype, weight.shape) for _, weight in pair]
        if shapes[0] != shapes[1]:
            unmatched[name] = "{} {} and {} {}".format(*shapes[0], *shapes[1])
        elif steps:
            weights[name] = _weight(pair, kept, steps)
    final = variability(a.final, b.final) if a.final and b.final else None
    curves = {"loss": loss, **weights}
    first = min((p.step for points in curves.values() for p in points if p.difference != 0), default=None)
    names = tuple(n for n, points in curves.items() if any(p.step == first and p.difference != 0 for p in points))
    return Divergence(loss, weights, first, names, final, unmatched)


def _losses(a: Mapping[int, float], b: Mapping[int, float], unmatched: dict[str, str]) -> list[Point]:
    if a.keys() != b.keys():
        alone = min(a.keys() ^ b.keys())
        unmatched["loss"] = f"only the {'first' if alone in a else 'second'} run has one at step {alone}"
    steps = sorted(a.keys() & b.keys())
    columns = [torch.tensor([losses[step] for step in steps], dtype=torch.float64)[:, None] for losses in (a, b)]
    return [Point(step, d) for step, d in zip(steps, relative_differences(*columns).tolist(), strict=True)]


def _weight(pair: tuple[tuple[int, KeptWeight], ...], kept: list[dict[int, KeptStep]], steps: list[int]) -> list[Point]:
    """The curve of one weight, which is number so-and-so in each run."""
    digests, samples = [], []
    for (number, weight), record in zip(pair, kept, strict=True):
        part = slice(weight.offset, weight.offset + weight.samples)
        digests.append(torch.stack([record[step].digests[number] for step in steps]))
        samples.append(torch.stack([record[step].samples[weight.dtype][part] for step in steps]))
    equal = (digests[0] == digests[1]).all(1).tolist()
    if samples[0].shape != samples[1].shape:  # the runs were told to keep other numbers of elements
        return [Point(step, 0.0 if same else None) for step, same in zip(steps, equal, strict=True)]
    values = relative_differences(*samples).tolist()
    return [Point(step, 0.0 if same else v or None) for step, same, v in zip(steps, equal, values, strict=True)]
