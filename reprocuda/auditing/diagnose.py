"""From two traces to a verdict: which difference is the cause, what kind of cause it is, and what to do."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from dataclasses import replace

from ..inspection.difference import different_leaves
from . import cures, source
from .align import Comparison, Difference, Reason, compare_traces
from .lineage import LOADED, LOADER, OWN_STATE
from .origins import clock_behind, draw_behind
from .result import AuditResult, Place
from .trace import FROM_SAMPLER, ORDER, SEEDED, STARTING, STATISTICS, Record

_ENVIRONMENT = ("torch", "numpy", "python", "platform", "cpu", "threads", "varied")
# By intent another in every run of a script; whether it matters is found by a run that repeats it.
_HASH_SEED = "PYTHONHASHSEED"


def compare(first: str | os.PathLike, second: str | os.PathLike) -> AuditResult:
    """Compares two traces that `Recorder` or `reprocuda audit --keep` wrote.

    Args:
        first: the file of one run, a path.
        second: the file of the other, a path.

    Returns:
        The verdict: where the two runs part, why, and what to do.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: one of them is no trace.

    Example:
        >>> import tempfile, torch, reprocuda
        >>> folder = tempfile.mkdtemp()
        >>> for name in ("a", "b"):
        ...     with reprocuda.Recorder(f"{folder}/{name}"):
        ...         total = torch.ones(3).sum()
        >>> print(reprocuda.compare(f"{folder}/a", f"{folder}/b"))
        identical: 2 runs agree in all 2 records
    """
    return diagnose(compare_traces(first, second))


def diagnose(comparison: Comparison) -> AuditResult:
    """The verdict on a comparison."""
    notes = _notes(comparison)
    if not comparison.differences:
        result = AuditResult(True, records=comparison.records, notes=notes)
        return _with_finding(result, comparison)
    difference = comparison.differences[0]
    also = tuple(
        _place(other)
        for other in comparison.differences[1:]
        if other.reason.is_own_cause and other.first.key != difference.record.key
    )
    verdict = _VERDICTS[difference.reason](difference, comparison)
    return replace(verdict, first_difference=_place(difference), also=also, records=comparison.records, notes=notes)


def _output(difference: Difference, comparison: Comparison) -> AuditResult:
    record = difference.record
    if record.flags & SEEDED:
        generator = "Generator" in record.arguments
        reason = "same inputs, other draw"
        if difference.seed is not None:
            file, line, _ = difference.seed.record.site
            reason += f", after torch.seed() at {os.path.basename(file)}:{line} had taken a seed from the system"
        return _found("randomness", record, cures.randomness(record.operator, generator), reason)
    changed = environment_difference(comparison)
    if changed:
        return _found("environment", record, cures.varied(changed), f"same inputs, other output; {changed}")
    return _found("operator", record, cures.operator(record.operator), "same inputs, other output")


def _unwritten_input(difference: Difference, comparison: Comparison) -> AuditResult:
    record = difference.record
    reason = f"{record.operator} read memory that was allocated here and never written"
    found = _found("uninitialised", record, cures.UNINITIALISED, reason)
    file, line, allocated_by = difference.origin_site
    return replace(found, operator=allocated_by, file=file, line=line) if line else found


def _setting(difference: Difference, comparison: Comparison) -> AuditResult:
    record = difference.record
    if record.operator.endswith("set_num_threads"):
        return _found("environment", record, cures.SETTING, f"other argument: {_versus(difference)}")
    return _found("randomness", record, cures.SEED_CALL, f"other seed: {_versus(difference)}")


def _selection(difference: Difference, comparison: Comparison) -> AuditResult:
    reason = "another tensor of the same run, with the same operator"
    return _by_draw(_found("control_flow", difference.record, cures.SELECTION, reason))


def _external_input(difference: Difference, comparison: Comparison) -> AuditResult:
    reason = "an input that no recorded operator made differs"
    record = difference.record
    if difference.origin == OWN_STATE:
        return _found("environment", record, cures.OWN_STATE, reason)
    if difference.origin in (LOADED, LOADER):
        found = _found("data", record, cures.LOADED, reason)
        file, line, _ = difference.origin_site
        return replace(found, file=file, line=line) if line else found
    return _outside_value(record, "the input", reason)


def _argument(difference: Difference, comparison: Comparison) -> AuditResult:
    return _outside_value(difference.record, "the argument", f"other arguments: {_versus(difference)}")


def _outside_value(record: Record, what: str, reason: str) -> AuditResult:
    """A value that torch did not compute differs: a tensor made of one, or a number."""
    file, line, _ = record.site
    clock = clock_behind(file, line)
    if clock is not None:
        cure = cures.CLOCK if clock.decides == line else cures.STRUCTURE_CLOCK
        return replace(_found("control_flow", record, cure, reason), line=clock.decides)
    return _found("randomness", record, cures.foreign_randomness(what), reason)


def _structure(difference: Difference, comparison: Comparison) -> AuditResult:
    first, second = difference.first, difference.second
    record = difference.record
    if first is None or second is None:
        ended = "second" if second is None else "first"
        return _found("control_flow", record, cures.STRUCTURE, f"the {ended} run ended before this")
    reason = " in one run, ".join(f"{record.operator} at line {record.site[1]}" for record in (first, second))
    reason += " in the other"
    found = _found("control_flow", record, cures.STRUCTURE, reason)
    changed = environment_difference(comparison)
    if changed:
        found = _found("environment", record, cures.varied(changed), reason)
    branch = source.branch(first.site, second.site) if first.site != second.site else None
    if branch is not None:
        line, which = branch
        inside, outside = (first, second) if which == 0 else (second, first)
        file = outside.site[0]
        found = replace(found, operator=inside.operator, module=inside.module, file=file, line=line)
        if clock_behind(file, line) is not None:
            return replace(found, cure=cures.STRUCTURE_CLOCK)
    return found if changed else _by_draw(found)


def _by_draw(found: AuditResult) -> AuditResult:
    """Moves a verdict to the draw without a seed that decides the path or the order, if the source shows one."""
    draw = draw_behind(found.file, found.line)
    if draw is None:
        return found
    return replace(found, kind="randomness", line=draw.call, cure=cures.UNSEEDED)


def _data(difference: Difference, comparison: Comparison) -> AuditResult:
    """A batch differs; what differed inside the loader before says why."""
    record = difference.first
    workers, own_generator, ordering, making = _loader_facts(difference.loader)
    pairs = difference.inside_loader
    drawn = next((x for x, y in pairs if x.flags & FROM_SAMPLER and x.flags & SEEDED and x.outputs != y.outputs), None)
    seeds = next((x for x, y in pairs if x.flags & STARTING and x.flags & SEEDED and x.outputs != y.outputs), None)
    order = any(x.operator == ORDER and x.arguments != y.arguments for x, y in pairs)
    own = [x for x, _ in pairs if x.site[:2] != record.site[:2] and not x.flags & (FROM_SAMPLER | STARTING)]
    if drawn is not None:
        cure = cures.LOADER_GENERATOR if own_generator else cures.LOADER_ORDER
        found = _found("data", drawn, cure, "the sampler drew another order", record.site)
    elif order and not (own and own[0].flags & SEEDED):
        found = _found("data", record, cures.SAMPLER, "the sampler gave another order")
        found = _at_draw(found, ordering)
    elif own:
        seeded = own[0].flags & SEEDED
        cure = cures.randomness(own[0].operator, "Generator" in own[0].arguments) if seeded else cures.loader_values(0)
        found = _found("data", own[0], cure, "it differs inside the loader")
    elif workers and seeds is not None:
        cure = cures.LOADER_GENERATOR if own_generator else cures.LOADER_WORKERS
        found = _found("data", record, cure, "the workers got other seeds")
    else:
        found = _found("data", record, cures.loader_values(workers), "a batch came out of the loader different")
        found = _at_draw(found, making)
    for later in comparison.following:
        if later.flags & STATISTICS:
            return replace(found, cure=found.cure + cures.batch_norm(later.module))
    return found


_VERDICTS: dict[Reason, Callable[[Difference, Comparison], AuditResult]] = {
    Reason.STRUCTURE: _structure,
    Reason.OUTPUT: _output,
    Reason.EXTERNAL_INPUT: _external_input,
    Reason.ARGUMENT: _argument,
    Reason.SELECTION: _selection,
    Reason.UNWRITTEN_INPUT: _unwritten_input,
    Reason.DATA: _data,
    Reason.SETTING: _setting,
}


def _at_draw(found: AuditResult, places: tuple[tuple[str, int], ...]) -> AuditResult:
    """Moves a verdict to the first line that draws from NumPy or random, if there is one in the code at `places`."""
    for file, line in places:
        drawn = source.random_draw(file, line)
        if drawn is not None:
            return replace(found, file=file, line=drawn)
    return found


def _loader_facts(record: Record | None) -> tuple[int, bool, tuple, tuple]:
    """(workers, has a generator of its own, where its samplers' code is, where the code that makes batches is)."""
    return (0, False, (), ()) if record is None else ast.literal_eval(record.arguments)


def environment_difference(comparison: Comparison) -> str:
    """In words, how the environments of the two runs differ; "" if they do not."""
    first, second = (
        {name: header[name] for name in _ENVIRONMENT if name in header} | header["variables"]
        for header in comparison.headers
    )
    return ", ".join(f"{name} ({a} and {b})" for name, a, b in different_leaves(first, second) if name != _HASH_SEED)


def _notes(comparison: Comparison) -> tuple[str, ...]:
    notes = []
    if not comparison.complete:
        notes.append("a trace has no end: its run was killed; only what was recorded is compared")
    changed = environment_difference(comparison)
    if changed:
        notes.append(f"the environments differ: {changed}")
    return tuple(notes)


def _with_finding(result: AuditResult, comparison: Comparison) -> AuditResult:
    """What is wrong though nothing differs."""
    for finding in comparison.footers[0].get("findings", ()):
        return replace(
            result,
            kind="data",
            operator="",
            file=finding["file"],
            line=finding["line"],
            module="",
            step=finding["step"],
            cure=cures.SET_EPOCH,
            reason=f"the DistributedSampler was in epoch {finding['epoch']} for two epochs",
        )
    return result


def _place(difference: Difference) -> Place:
    record = difference.record
    return Place(record.operator, record.site[0], record.site[1], record.module, record.step)


def _found(kind: str, record: Record, cure: str, reason: str, site: tuple[str, int, str] | None = None) -> AuditResult:
    file, line, _ = site or record.site
    return AuditResult(False, kind, record.operator, file, line, record.module, record.step, cure, reason)


def _versus(difference: Difference) -> str:
    return f"{difference.first.arguments} and {difference.second.arguments}"
