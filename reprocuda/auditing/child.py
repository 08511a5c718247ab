"""One audited run: a fresh process that waits for its turn, then runs the user's script as `__main__` under a recorder.

It is started by `process.py`, which passes a JSON object as the only argument. Nothing of the script's surroundings is
ours when it starts: its own `sys.argv`, `sys.path[0]` and `__main__`, the same folder and standard streams.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """What one run is told.

    Attributes:
        target: the script, or the module with `module`.
        module: run it as `python -m` would.
        arguments: its own.
        trace: where the trace goes.
        run: the number of the run.
        steps: stop after so many optimizer steps.
        threads: for torch; None: as it is.
        workers: for every DataLoader; None: as the script says.
        varied: what was made different on purpose, in words.
        gate: a file descriptor to wait on; None: start at once.
    """

    target: str
    module: bool
    arguments: list[str]
    trace: str
    run: int
    steps: int | None = None
    threads: int | None = None
    workers: int | None = None
    varied: str = ""
    gate: int | None = None


def main(text: str) -> None:
    """Runs the job that `text` describes; the exit code is the script's."""
    try:
        _run(Job(**json.loads(text)))
    except KeyboardInterrupt:  # before or after the script; the user pressed the keys
        sys.exit(130)


def _run(job: Job) -> None:
    import torch

    from reprocuda.auditing.hooks import StopRecording
    from reprocuda.auditing.recorder import Recorder
    from reprocuda.main_script import execute, prepare

    sys.path[:1] = [] if getattr(sys.flags, "safe_path", False) else [""]  # it was the folder reprocuda is in

    if job.gate is not None and not os.read(job.gate, 1):
        return  # the audit ended without us
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    if job.workers is not None:
        _force_workers(job.workers)
    sys.argv = [job.target, *job.arguments]
    code, module = prepare(job.target, job.module)
    header = {"varied": job.varied} if job.varied else {}
    with contextlib.suppress(StopRecording), Recorder(job.trace, run=job.run, steps=job.steps, header=header):
        execute(code, module)


def _force_workers(workers: int) -> None:
    from torch.utils.data import DataLoader

    original = DataLoader.__init__

    def __init__(self, *args, **kwargs):
        names = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")
        given = dict(zip(names, args, strict=False)) | kwargs
        rest = args[len(names) :]
        given["num_workers"] = workers
        if workers == 0:
            for name in ("persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context"):
                given.pop(name, None)
        if rest:  # never written by position
            original(self, *(given[name] for name in names), *rest)
        else:
            original(self, **given)

    DataLoader.__init__ = __init__
