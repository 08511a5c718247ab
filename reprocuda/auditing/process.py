"""The audit of a script: fresh processes, one after another, and what their traces say together."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from . import cures, source
from .align import Comparison, compare_traces
from .child import Job
from .diagnose import diagnose
from .result import AuditResult
from .trace import BLOCK, LENGTH, MAGIC

_PACKAGES = str(Path(__file__).resolve().parents[2])
# The first path takes the place of `python -c`'s own, the current folder, which `python script` has not; -P has none.
# An interrupt while we are imported ends the process without a word.
_BOOT = """
import signal, sys
on_interrupt = signal.getsignal(signal.SIGINT)
if on_interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path[:not sys.path[0]] = [sys.argv.pop(1)]
from reprocuda.auditing.child import main
signal.signal(signal.SIGINT, on_interrupt)
main(sys.argv.pop(1))
"""
_HASH_TRIALS = 3
# What the source, or a draw that was seen, explains already.
_NOT_BY_HASH = (
    *(cures.CLOCK, cures.STRUCTURE_CLOCK),
    *(cures.LOADER_ORDER, cures.LOADER_GENERATOR, cures.LOADER_WORKERS),
)

VARIATIONS = ("threads", "hash", "workers", "device")


class ScriptFailed(Exception):
    """A run did not come to a good end; `code` is its exit code."""

    def __init__(self, run: int, code: int):
        how = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
        super().__init__(f"run {run + 1} of the script {how}")
        self.code = code


@dataclass
class Plan:
    """What to run.

    Attributes:
        target, module, arguments: the script, as `Job`.
        steps: optimizer steps to record; None: all.
        vary: what to make different in the second run, of VARIATIONS.
        runs: how many runs, at least 2.
        keep: a folder for the traces; None: they are deleted.
        quiet: send the script's stdout to stderr.
        progress: called with (run, steps, records) from time to time.
    """

    target: str
    arguments: Sequence[str] = ()
    module: bool = False
    steps: int | None = None
    vary: Sequence[str] = ()
    runs: int = 2
    keep: str | None = None
    quiet: bool = False
    progress: Callable[[int, int, int], None] = field(default=lambda run, step, records: None)


@dataclass
class _Run:
    process: subprocess.Popen
    trace: Path
    gate: int | None  # write a byte here and it starts
    hash_seed: str | None


def audit_script(plan: Plan) -> AuditResult:
    """Runs a script in fresh processes, one after another in the same folder, and compares what they did.

    Raises:
        ScriptFailed: a run failed.
    """
    if plan.keep is not None:
        Path(plan.keep).mkdir(parents=True, exist_ok=True)
    folder = Path(plan.keep or tempfile.mkdtemp(prefix="reprocuda-audit-"))
    audit = _Audit(plan, folder)
    try:
        return audit.run()
    finally:
        audit.stop()
        if plan.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


class _Audit:
    def __init__(self, plan: Plan, folder: Path):
        self.plan = plan
        self.folder = folder
        self.count = 0
        self._started: list[_Run] = []
        # A hash seed that the user has set is part of what is audited.
        self.hash_varies = "hash" in plan.vary or os.environ.get("PYTHONHASHSEED", "random") == "random"
        self.varied = [name for name in plan.vary if name != "hash"]

    def run(self) -> AuditResult:
        # Both are started at once, because a process spends its first second importing torch; the second waits for
        # the end of the first before it touches the script.
        first = self._start()
        second = self._start(vary=self.varied)
        self._finish(first)
        self._finish(second)
        comparison = compare_traces(first.trace, second.trace)
        if not comparison.differences:
            second, comparison = self._more_runs(first, second, comparison)
        if comparison.differences:
            return self._explain(first, second, comparison)
        return replace(diagnose(comparison), runs=self.count)

    def _more_runs(self, first: _Run, second: _Run, comparison: Comparison) -> tuple[_Run, Comparison]:
        """Runs that may still differ: those asked for, and more hash seeds where the source depends on them."""
        wanted = self.plan.runs
        if self.hash_varies and any(source.hash_order(file) for file in _files(comparison)):
            wanted = max(wanted, 2 + _HASH_TRIALS)
        while self.count < wanted and not comparison.differences:
            second = self._start()
            self._finish(second)
            comparison = compare_traces(first.trace, second.trace)
        return second, comparison

    def _explain(self, first: _Run, second: _Run, comparison: Comparison) -> AuditResult:
        """A verdict, with more runs where only they can tell what made the difference."""
        result = diagnose(comparison)
        known = any(source.hash_order(file) for file in _files(comparison))
        if self.varied:
            again = self._repeat(first, comparison)
            if again.differences:
                result = diagnose(again)
            else:
                changed = " and ".join(self.varied)
                cause = f"{result.reason}; with the same {changed} the runs agree"
                result = replace(result, kind="environment", cure=cures.varied(changed), reason=cause)
        elif (
            self.hash_varies
            and not comparison.differences[0].reason.is_own_cause
            and not (result.cure or "").startswith(_NOT_BY_HASH if known else (*_NOT_BY_HASH, cures.UNSEEDED))
        ):
            # A branch by chance may repeat by chance; by its hash seed each run repeats every time.
            repeated = (first, second) if known else (first, second, first)
            if not any(self._repeat(run, comparison).differences for run in repeated):
                result = _blame_hash(result, comparison)
        return replace(result, runs=self.count)

    def _repeat(self, run: _Run, comparison: Comparison) -> Comparison:
        """Compares a run with another of the same hash seed and nothing varied, as far as the difference."""
        record = comparison.differences[0].record
        limit = record.step + 1 if self.plan.steps is None else min(self.plan.steps, record.step + 1)
        repeated = self._start(hash_seed=run.hash_seed, steps=limit)
        self._finish(repeated)
        again = compare_traces(run.trace, repeated.trace)
        # The new one stops at a step of the optimizer, where the other went on.
        again.differences = [found for found in again.differences if found.index <= comparison.records]
        return again

    def _start(self, vary: Sequence[str] = (), hash_seed: str | None = None, steps: int | None = None) -> _Run:
        number = self.count
        self.count += 1
        trace = self.folder / f"run{number + 1}.trace"
        variables = dict(os.environ)
        if self.hash_varies:
            hash_seed = hash_seed or str(101 + number)
            variables["PYTHONHASHSEED"] = hash_seed
        job = Job(
            self.plan.target,
            self.plan.module,
            list(self.plan.arguments),
            str(trace),
            number,
            steps if steps is not None else self.plan.steps,
            varied=" and ".join(vary),
        )
        if "threads" in vary:
            job = replace(job, threads=_other_threads())
            variables["OMP_NUM_THREADS"] = str(job.threads)
        if "workers" in vary:
            job = replace(job, workers=2)
        if "device" in vary:
            variables["CUDA_VISIBLE_DEVICES"] = ""
        gate, passed = None, ()
        if hasattr(os, "register_at_fork"):  # elsewhere a descriptor cannot be passed on
            reading, gate = os.pipe()
            job, passed = replace(job, gate=reading), (reading,)
        command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", _BOOT, _PACKAGES]
        process = subprocess.Popen(
            [*command, json.dumps(asdict(job))],
            env=variables,
            pass_fds=passed,
            stdout=sys.stderr if self.plan.quiet else None,
        )
        for descriptor in passed:
            os.close(descriptor)
        run = _Run(process, trace, gate, hash_seed)
        self._started.append(run)
        return run

    def _finish(self, run: _Run) -> None:
        """Lets a run go, and waits for its end."""
        if run.gate is not None:
            with contextlib.suppress(BrokenPipeError):  # it could not even start; its exit code says so
                os.write(run.gate, b".")
            os.close(run.gate)
            run.gate = None
        number = self._started.index(run)
        watch = _watch(run.trace)
        while True:
            try:
                run.process.wait(timeout=0.1)
                break
            except subprocess.TimeoutExpired:
                self.plan.progress(number, *next(watch))
        self.plan.progress(number, *next(watch))
        if run.process.returncode != 0:
            raise ScriptFailed(number, run.process.returncode)

    def stop(self) -> None:
        """Ends what still runs."""
        for run in self._started:
            if run.gate is not None:
                os.close(run.gate)
                run.gate = None
        for run in self._started:
            try:
                run.process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                run.process.terminate()
                try:
                    run.process.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    run.process.kill()
                    run.process.wait()


def _watch(trace: Path) -> Iterator[tuple[int, int]]:
    """(steps, records) written so far, read from the heads of the blocks."""
    steps = records = 0
    while not trace.exists() or trace.stat().st_size < len(MAGIC) + LENGTH.size:
        yield steps, records
    with trace.open("rb") as file:
        at = len(MAGIC)
        file.seek(at)
        at += LENGTH.size + LENGTH.unpack(file.read(LENGTH.size))[0]
        while True:
            file.seek(at)
            head = file.read(BLOCK.size)
            if len(head) == BLOCK.size and head[:1] == b"B":
                _, steps, count, names, size = BLOCK.unpack(head)
                records += count
                at += BLOCK.size + names + size
            else:
                yield steps, records


def _files(comparison: Comparison) -> list[str]:
    return sorted({site[0] for site in comparison.sites if site[0].endswith(".py")})


def _blame_hash(result: AuditResult, comparison: Comparison) -> AuditResult:
    """The difference came and went with PYTHONHASHSEED alone."""
    file, line = result.file or "", result.line or 0
    found = source.nearest_hash_order(file, line)
    if found is None:
        for other in _files(comparison):
            found = source.nearest_hash_order(other, 0)
            if found is not None:
                file = other
                break
    kind = "data" if result.kind == "data" else "control_flow"
    reason = f"{result.reason}; with the same PYTHONHASHSEED the runs agree"
    place = {"file": file, "line": found} if found is not None else {}
    return replace(result, kind=kind, cure=cures.HASH, reason=reason, **place)


def _other_threads() -> int:
    """Another number of threads than torch takes by itself."""
    import torch

    return 1 if torch.get_num_threads() > 1 else 2
