"""The audit of a function in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .diagnose import compare
from .hooks import StopRecording
from .recorder import Recorder, check_steps
from .result import AuditResult


def audit(fn: Callable, *args, runs: int = 2, steps: int | None = None, **kwargs) -> AuditResult:
    """Calls a function several times and says where its calls first differ, to the bit.

    No generator is seeded or restored between the calls: what draws from one that the function does not seed itself is
    what the audit is there to find. Hash order cannot differ within a process; `python -m reprocuda audit` runs whole
    scripts in fresh ones.

    Args:
        fn: the function.
        *args, **kwargs: what it is called with, each time the same objects.
        runs: how many calls, at least 2.
        steps: end each call after that many optimizer steps.

    Returns:
        The verdict; its `str` names the operator and the line.

    Raises:
        TypeError: fn cannot be called, or runs or steps is no int.
        ValueError: runs is less than 2, or steps less than 1.

    Cost: a call under audit takes about two to three times as long; its trace, some 60 bytes an operator, is
    written to the temporary folder and deleted.

    Example:
        >>> import torch, reprocuda
        >>> result = reprocuda.audit(lambda: torch.rand(2) + 1)
        >>> result.identical, result.kind, result.operator
        (False, 'randomness', 'aten::rand')
    """
    if not callable(fn):
        raise TypeError(f"reprocuda.audit: fn must be callable, got {type(fn).__name__}")
    if not isinstance(runs, int) or isinstance(runs, bool):
        raise TypeError(f"reprocuda.audit: runs must be an int of at least 2, got {runs!r}")
    if runs < 2:
        raise ValueError(f"reprocuda.audit: runs must be at least 2, got {runs}")
    check_steps("reprocuda.audit", steps)
    with tempfile.TemporaryDirectory(prefix="reprocuda-audit-") as folder:
        paths = [Path(folder) / f"{run}.trace" for run in range(runs)]
        earlier: list[Recorder] = []
        for run, path in enumerate(paths):
            recorder = Recorder(path, run=run, steps=steps, earlier=earlier)
            earlier.append(recorder)
            try:
                with recorder:
                    fn(*args, **kwargs)
            except StopRecording:
                pass
        result = compare(paths[0], paths[1])
        for path in paths[2:]:
            if not result.identical:
                break
            result = compare(paths[0], path)
    return replace(result, runs=runs)
