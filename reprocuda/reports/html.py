"""One self-contained HTML page about two runs: verdict, divergence, variability, costs and environments.

Nothing is loaded from anywhere, no script runs, and whatever a file name, a weight or a message contains is shown as
text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..inspection.difference import compare_documents, flatten
from .costs import Cost
from .divergence import UNSEEN, Divergence, largest
from .plots import describe, divergence_plot
from .variability import StateVariability
from .verdict import verdict

_STYLE = Path(__file__).with_name("page.css")
_ROWS = 400  # of a table: a page that opens
_KINDS = {
    "operator": "an operator that gave other bits for the same inputs",
    "randomness": "random numbers that were not seeded alike",
    "data": "data that came different from the loader",
    "control_flow": "another sequence of operators",
    "uninitialised": "memory that was read before it was written",
    "environment": "another environment",
}
_COMPARED = {
    "audit": "every record of the audit",
    "histories": "the loss and every weight at every step that was kept",
    "environments": "the two environments",
}


def render(
    *,
    audit: Mapping[str, Any] | None = None,
    divergence: Divergence | None = None,
    costs: Sequence[Cost] | None = None,
    manifests: Sequence[Mapping[str, Any]] = (),
    names: Sequence[str] = ("first run", "second run"),
    title: str = "Reproducibility report",
) -> str:
    """The page, from whatever is known; what is not known has no section.

    Args:
        audit: the document that `reprocuda audit --json` writes.
        divergence: what `divergence` found in two histories.
        costs: what `measure` found.
        manifests: one run's manifest, or both runs'.
        names: what to call the two runs.
        title: the heading.

    Returns:
        A complete HTML document.

    Raises:
        ValueError: more than two manifests, or not two names.

    Example:
        >>> page = render(audit={"identical": True})
        >>> page.startswith("<!DOCTYPE html>"), "<h2>Identical</h2>" in page, "http:" in page
        (True, True, False)
    """
    if len(manifests) > 2:
        raise ValueError(f"reprocuda.reports.html.render: manifests must be at most two, got {len(manifests)}")
    if len(names) != 2:
        raise ValueError(f"reprocuda.reports.html.render: names must be two, got {names!r}")
    sections = [
        _verdict(audit, divergence, manifests),
        _divergence(divergence),
        _final(divergence.final if divergence else None),
        _costs(costs),
        _environments(manifests, names),
    ]
    body = "\n".join(section for section in sections if section)
    runs = f"<p>{escape(names[0])} (a) and {escape(names[1])} (b)</p>" if divergence or len(manifests) == 2 else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # No script, no network, even if something had got past the escaping.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE.read_text()}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{runs}</header>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def write(path: str | os.PathLike, **parts: Any) -> None:
    """Writes the page to a file.

    Args:
        path: the file.
        parts: the arguments of `render`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(f"{folder}/report.html", audit={"identical": True})
        ...     open(f"{folder}/report.html").read().count("<h1>")
        1
    """
    # A file name may hold bytes that are no text; they are shown, not fatal.
    Path(path).write_bytes(render(**parts).encode("utf-8", "backslashreplace"))


def _verdict(
    audit: Mapping[str, Any] | None, divergence: Divergence | None, manifests: Sequence[Mapping[str, Any]]
) -> str:
    found = verdict(audit, divergence, manifests)
    if found.identical is None:
        return _box("plain", "Nothing was compared", "")
    if found.identical:
        compared = " and ".join(_COMPARED[name] for name in found.compared)
        also = _finding(audit, "Found all the same") if audit is not None and audit.get("kind") else ""
        return _box("good", "Identical", f"<p>The same bits: {compared}.</p>{also}")
    inner = ""
    if found.audit is False:
        inner += _finding(audit, "First difference")
    elif found.audit:
        inner += "<p>The audit found every record identical; what was recorded of the runs' histories differs.</p>"
    if found.histories is False:
        inner += f"<p>{escape(describe(divergence))}</p>"
    return _box("bad", "The runs differ", inner)


def _finding(audit: Mapping[str, Any], heading: str) -> str:
    kind = str(audit.get("kind") or "unknown")
    facts = [
        ("cause", f"{kind}: {_KINDS[kind]}" if kind in _KINDS else kind),
        ("operator", audit.get("operator")),
        ("where", _place(audit)),
        ("module", audit.get("module")),
        ("step", audit.get("step")),
        ("why", audit.get("reason")),
        ("cure", audit.get("cure")),
    ]
    first = audit.get("first_difference")
    if isinstance(first, Mapping):
        facts.append(("the first record that differs at all", _record(first)))
    facts += [("another cause", _record(other)) for other in audit.get("also") or () if isinstance(other, Mapping)]
    facts += [("note", note) for note in audit.get("notes") or ()]
    known = "".join(f"<dt>{name}</dt><dd>{escape(str(v))}</dd>" for name, v in facts if v not in (None, ""))
    return f"<h3>{heading}</h3>\n<dl>{known}</dl>"


def _place(where: Mapping[str, Any]) -> str | None:
    file, line = where.get("file"), where.get("line")
    return file if file is None or line is None else f"{file}:{line}"


def _record(record: Mapping[str, Any]) -> str:
    module = f" in {record['module']}" if record.get("module") else ""
    return f"{record.get('operator')} at {_place(record)}{module}, step {record.get('step')}"


def _box(kind: str, heading: str, inner: str) -> str:
    return f'<section class="verdict {kind}" role="status"><h2>{heading}</h2>{inner}</section>'


def _divergence(found: Divergence | None) -> str:
    if found is None:
        return ""
    curves = {"loss": found.loss, **found.weights}
    rows = []
    for name, points in curves.items():
        if points:
            first = next((p.step for p in points if p.difference != 0), None)
            last = points[-1].difference
            rows.append(
                (
                    name,
                    "never" if first is None else first,
                    _difference(largest(points) if first is not None else 0.0),
                    "other bits" if last is None else _difference(last),
                )
            )
    rows.sort(key=lambda row: (row[1] == "never", row[1] if row[1] != "never" else 0))
    unmatched = ""
    if found.unmatched:
        unmatched = _table("what cannot be compared", ("what", "why"), found.unmatched.items())
    columns = ("", "first differs at step", "largest relative difference", f"at the last step, {_last_step(curves)}")
    table = _table("relative differences, loss and weights", columns, rows, right=(1, 2, 3))
    figure = f"<figure>{divergence_plot(found)}</figure>" if rows else "<p>No step was recorded by both runs.</p>"
    return f"<section><h2>Divergence over the steps</h2>\n{figure}\n{table}\n{unmatched}</section>"


def _last_step(curves: Mapping[str, Sequence[Any]]) -> Any:
    return max((points[-1].step for points in curves.values() if points), default="none")


def _difference(value: float) -> str:
    return "0" if value == 0 else "other bits" if value == UNSEEN else f"{value:.3g}"


def _final(found: StateVariability | None) -> str:
    if found is None:
        return ""
    rows = [("all together", *_measures(found.total))]
    ordered = sorted(found.tensors.items(), key=lambda item: -item[1].vermv)
    rows += [(name, *_measures(one)) for name, one in ordered]
    rows += [(name, why, "", "", "") for name, why in found.unmatched.items()]
    columns = ("weight", "Vermv", "Vc", "largest distance in ulp", "elements")
    return (
        f"<section><h2>Final weights</h2>\n{_table('variability of the final weights', columns, rows, (1, 2, 3, 4))}\n"
        '<p class="note">Vermv: the mean of |A - B| / |A| over the elements (where that has no value: 0 for equal '
        "bits, 1 for others). Vc: the fraction of elements whose bits differ. Both are 0 if and only if all bits are "
        "equal.</p></section>"
    )


def _measures(one: Any) -> tuple[str, str, int, int]:
    return f"{one.vermv:.3g}", f"{one.vc:.3g}", one.max_ulp, one.elements


def _costs(costs: Sequence[Cost] | None) -> str:
    if costs is None:
        return ""
    if not costs:
        return "<section><h2>Cost of the replaced operators</h2>\n<p>The run called none of them.</p></section>"
    rows = [
        (c.operator, c.overload, c.device, c.arguments, c.count, f"{c.native:.4f}", f"{c.ours:.4f}", f"{c.ratio:.2f}")
        for c in costs
    ]
    columns = ("operator", "aten overload", "device", "arguments", "calls", "torch, ms", "ours, ms", "ratio")
    indices = "of the run, with uniform indices" if any(c.drawn for c in costs) else "and indices of the run"
    change = sum(c.count * (c.ours - c.native) for c in costs)
    return (
        "<section><h2>Cost of the replaced operators</h2>\n"
        f"{_table('torch and ours, on the shapes of the run', columns, rows, (4, 5, 6, 7))}\n"
        f'<p class="note">Medians of {costs[0].rounds} calls of each, in turn, after one that warms up, on the shapes '
        f"{indices} and random values, by the machine that made this page. torch's operator is called with "
        "ours installed and off, which adds a few microseconds to it. All calls together: "
        f"{change:+.3f} ms.</p></section>"
    )


def _environments(manifests: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    if not manifests:
        return ""
    parts = ["<h2>Environment</h2>"]
    if len(manifests) == 2:
        found = [(d.name, d.a, d.b, d.likelihood) for d in compare_documents(*manifests)]
        if found:
            parts.append(_table("what differs", ("", names[0], names[1], "changes bits"), found))
        else:
            parts.append("<p>The two runs' environments are the same.</p>")
    rows = flatten(manifests[0])
    table = _table("the environment" + (f" of {names[0]}" if len(manifests) == 2 else ""), ("", "value"), rows.items())
    parts.append(f"<details><summary>All of it: {len(rows)} entries</summary>\n{table}</details>")
    return "<section>" + "\n".join(parts) + "</section>"


def _table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[int] = ()) -> str:
    rows = list(rows)
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    lines = []
    for row in rows[:_ROWS]:
        cells = [f'<th scope="row">{escape(str(row[0]))}</th>']
        for number, cell in enumerate(row[1:], 1):
            kind = ' class="number"' if number in right else ""
            cells.append(f"<td{kind}>{escape(str(cell))}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    rest = f'<p class="note">{len(rows) - _ROWS} more rows are left out.</p>' if len(rows) > _ROWS else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table><caption>{escape(caption)}'
        f"</caption><thead><tr>{head}</tr></thead>\n<tbody>{''.join(lines)}</tbody></table></div>{rest}"
    )
