"""One audited run: a fresh process that waits for its turn, then runs the user's script as `__main__` under a recorder.

It is started by `process.py`, which passes a JSON object as the only argument. Nothing of the script's surroundings is
ours when it starts: its own `sys.argv`, `sys.path[0]` and `__main__`, the same folder and standard streams.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
import types
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
        sys.exit(_run(Job(**json.loads(text))))
    except KeyboardInterrupt:  # before or after the script; whoever pressed the keys knows
        sys.exit(130)


def _run(job: Job) -> int:
    import torch

    from reprocuda.auditing.hooks import StopRecording
    from reprocuda.auditing.recorder import Recorder

    if job.gate is not None and not os.read(job.gate, 1):
        return 0  # the audit ended without us
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    if job.workers is not None:
        _force_workers(job.workers)
    code, module = _load(job)
    header = {"varied": job.varied} if job.varied else {}
    failed = 0
    recorder = Recorder(job.trace, run=job.run, steps=job.steps, header=header)
    try:
        with recorder:
            exec(code, module.__dict__)
    except StopRecording:
        pass
    except KeyboardInterrupt:
        failed = 130
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        failed = 0 if stop.code is None else stop.code if isinstance(stop.code, int) else 1
    except BaseException as error:
        frames = error.__traceback__
        traceback.print_exception(type(error), error, frames.tb_next if frames is not None else None)
        failed = 1
    return failed


def _load(job: Job) -> tuple[types.CodeType, types.ModuleType]:
    """The script's code, and a new `__main__` for it."""
    module = types.ModuleType("__main__")
    sys.path.pop(0)
    try:
        if job.module:
            sys.path.insert(0, os.getcwd())
            spec = importlib.util.find_spec(job.target)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{job.target}.__main__")
            if spec is None or spec.origin is None:
                raise ImportError(f"no module named {job.target}")
            code = spec.loader.get_code(spec.name)
            module.__spec__, module.__file__, module.__package__ = spec, spec.origin, spec.parent
        else:
            sys.path.insert(0, os.path.dirname(os.path.realpath(job.target)))
            with open(job.target, "rb") as file:
                code = compile(file.read(), job.target, "exec")
            module.__file__ = job.target
    except (OSError, ImportError, SyntaxError, ValueError) as error:
        print(f"reprocuda audit: {job.target} cannot be run: {error}", file=sys.stderr)
        sys.exit(1)
    sys.argv = [module.__file__ if job.module else job.target, *job.arguments]
    sys.modules["__main__"] = module
    module.__builtins__ = __builtins__
    return code, module


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
