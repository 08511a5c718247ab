"""The divergence plot as SVG for a page: its colours are the page's, so that it is legible on light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .divergence import UNSEEN, Divergence, Point, largest

_WIDTH, _HEIGHT = 860, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, 16, 16, 48
_DRAWN_WEIGHTS = 40  # more lines are not told apart; the table has all
_NAMED_WEIGHTS = 6
_POINTS = 400  # of a line: the largest of neighbouring steps


@dataclass(frozen=True)
class _Scales:
    """Where steps and relative differences lie. Below the smallest decade are two stated lines: "bits differ" and 0."""

    first: int
    last: int
    low: int  # decades
    high: int

    def x(self, step: int) -> float:
        share = (step - self.first) / (self.last - self.first) if self.last > self.first else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, difference: float | None) -> float:
        if difference == 0:
            return _HEIGHT - _BOTTOM
        if difference is None:
            return _HEIGHT - _BOTTOM - 22
        share = (math.log10(difference) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - 44 - min(1.0, max(0.0, share)) * (_HEIGHT - _BOTTOM - 44 - _TOP)


def divergence_plot(found: Divergence) -> str:
    """The relative difference of the loss and of each weight over the steps, on a logarithmic scale, as an <svg>.

    Args:
        found: what `divergence` gave.

    Returns:
        The element, with a title and a description for those who do not see it; "" if no step was recorded by both.

    Example:
        >>> from reprocuda.reports.divergence import Divergence, Point
        >>> svg = divergence_plot(Divergence([Point(0, 0.0), Point(1, 1e-7)], {}, 1, ("loss",), None))
        >>> svg.startswith("<svg"), "0: identical bits" in svg
        (True, True)
    """
    curves = {name: points for name, points in {"loss": found.loss, **found.weights}.items() if points}
    if not curves:
        return ""
    steps = [p.step for points in curves.values() for p in points]
    seen = [p.difference for points in curves.values() for p in points if p.difference]
    low = math.floor(math.log10(min(seen))) if seen else -8
    high = max(low + 1, math.ceil(math.log10(max(seen))) if seen else 0)
    scales = _Scales(min(steps), max(steps), low, high)

    weights = sorted(found.weights, key=lambda name: -largest(found.weights[name]))[:_DRAWN_WEIGHTS]
    named = [name for name in weights if largest(found.weights[name]) > 0][:_NAMED_WEIGHTS]
    others = [_line(scales, name, found.weights[name], "other") for name in reversed(weights) if name not in named]
    lines = [_line(scales, name, found.weights[name], f"w{i}") for i, name in reversed([*enumerate(named)])]
    loss = [_line(scales, "loss", found.loss, "loss")] if found.loss else []
    body = "\n".join([*_axes(scales), *others, *lines, *loss])
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="plot-title plot-description">\n'
        '<title id="plot-title">Relative difference of the loss and of each weight over the steps</title>\n'
        f'<desc id="plot-description">{escape(describe(found))}</desc>\n{body}\n</svg>\n'
        f"{_legend(found, named, weights)}"
    )


def describe(found: Divergence) -> str:
    """The plot in words.

    Example:
        >>> from reprocuda.reports.divergence import Divergence, Point
        >>> describe(Divergence([Point(0, 0.0)], {}, None, (), None))
        'The loss and all 0 weights have the same bits at every step that both runs kept.'
    """
    if found.first_step is None:
        return f"The loss and all {len(found.weights)} weights have the same bits at every step that both runs kept."
    first = ", ".join(found.first_names[:4]) + (" and others" if len(found.first_names) > 4 else "")
    differing = sum(largest(points) > 0 for points in found.weights.values())
    text = (
        f"The first difference is at step {found.first_step}: {first}. {differing} of {len(found.weights)} weights "
        "differ at some step"
    )
    worst = max(found.weights, key=lambda name: largest(found.weights[name]), default=None)
    if worst is not None and largest(found.weights[worst]) > UNSEEN:
        text += f", {worst} most, by up to {largest(found.weights[worst]):.2g}"
    return f"{text}. The loss differs by up to {largest(found.loss):.2g}."


def _axes(scales: _Scales) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    decades = range(scales.low, scales.high + 1)
    for exponent in decades[:: max(1, math.ceil(len(decades) / 8))]:
        y = scales.y(10.0**exponent) if exponent > -308 else scales.y(1e-308)
        parts.append(_rule(y, "grid"))
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">1e{exponent}</text>')
    for difference, label in ((0.0, "0: identical bits"), (None, "other bits*")):
        y = scales.y(difference)
        parts.append(_rule(y, "zero" if difference == 0 else "grid"))
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="small">{label}</text>')
    span = scales.last - scales.first
    spacing = _round_spacing(span / 8) if span else 1
    step = math.ceil(scales.first / spacing) * spacing
    while step <= scales.last:
        parts.append(f'<text x="{scales.x(step):.1f}" y="{bottom + 18}" text-anchor="middle">{step}</text>')
        step += spacing
    middle = (_LEFT + right) / 2
    parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">step</text>')
    return parts


def _rule(y: float, kind: str) -> str:
    return f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" class="{kind}"/>'


def _round_spacing(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is not below."""
    power = 10 ** math.floor(math.log10(max(least, 1)))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """At most `_POINTS`: of each run of neighbours the one that differs most."""
    size = math.ceil(len(points) / _POINTS)
    runs = [points[start : start + size] for start in range(0, len(points), size)]
    return [max(run, key=lambda p: largest([p])) for run in runs]


def _line(scales: _Scales, name: str, points: Sequence[Point], kind: str) -> str:
    places = [(scales.x(p.step), scales.y(p.difference)) for p in _thinned(points)]
    title = f"<title>{escape(name)}</title>"
    if len(places) == 1:
        return f'<circle class="{kind}" cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="3">{title}</circle>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline class="{kind}" points="{path}">{title}</polyline>'


def _legend(found: Divergence, named: list[str], drawn: list[str]) -> str:
    entries = [("loss", "loss")] if found.loss else []
    entries += [(f"w{i}", name) for i, name in enumerate(named)]
    if len(drawn) > len(named):
        entries.append(("other", f"{len(drawn) - len(named)} other weights"))
    items = "".join(f'<li><i class="{kind}"></i>{escape(name)}</li>' for kind, name in entries)
    hidden = len(found.weights) - len(drawn)
    note = f" {hidden} more weights, which differ less, are in the table only." if hidden else ""
    return (
        f'<ul class="legend">{items}</ul>\n<p class="note">Relative difference: of the loss |a - b| / |a|, of a weight '
        "|a - b| / |a| in the 2-norm over the elements that were kept. * The digest of the whole weight differs, the "
        f"elements that were kept do not.{note}</p>\n"
    )
