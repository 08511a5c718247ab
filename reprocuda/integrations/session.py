"""What the callbacks have in common: one training, from its first step to its last, made to repeat and recorded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..reports.costs import Calls
from ..reports.history import History
from ..toolkit.flags import DETERMINISTIC, Flags, ReproducibilityWarning, write
from ..toolkit.modes import Reproducible, reproducible
from ..toolkit.seeding import detected_rank, rng_state, set_rng_state

_BENCHMARK = "torch.backends.cudnn.benchmark"
# What torch.use_deterministic_algorithms demands, from nothing to everything: (on, warn only).
_STRICTNESS = {(False, False): 0, (False, True): 0, (True, True): 1, (True, False): 2}
_DEMANDS = ("nothing", "warn_only=True", "True: refused operators raise")


class Session:
    """Flags, operators, history and trace of one training.

    Args:
        trainer: what may have set flags before, for messages: "Trainer(deterministic=...)".
        mode: for `reprocuda.reproducible`.
        options: more arguments for it: ops, devices, tf32 and so on.
        history: a `History` to record into, or a file to write one to; None: nothing is recorded.
        recorder: a file for the trace of all operators, as `reprocuda.Recorder` writes it; None: none.
        costs: note the replaced operators' arguments in the first step, into the history, for a report to time them.
    """

    def __init__(
        self,
        trainer: str,
        mode: str,
        options: Mapping[str, Any],
        history: History | str | os.PathLike | None,
        recorder: str | os.PathLike | None,
        costs: bool = False,
    ):
        if costs and history is None:
            raise ValueError("ReproducibilityCallback: costs=True needs a history to note them in")
        self._trainer = trainer
        self._mode = mode
        self._options = {"rank": "auto", **options}
        self._path = None if history is None or isinstance(history, History) else Path(history)
        self.history = history if isinstance(history, History) or history is None else History()
        self._recorder_path = None if recorder is None else Path(recorder)
        self._recorder: Any = None
        self._run: Reproducible | None = None
        self._costs = costs
        self._calls: Calls | None = None

    @property
    def is_open(self) -> bool:
        return self._run is not None

    def start(self, seed: int, *, reseed: bool) -> None:
        """Sets flags, operators and, where `reseed`, generators. A stricter choice that was made before is kept."""
        if self.is_open:
            return
        state = None if reseed else rng_state()
        before = Flags.read()
        self._run = reproducible(seed, self._mode, **self._options)
        if state is not None:
            set_rng_state(state)
        for text in self._keep_stricter(before):
            warnings.warn(text, ReproducibilityWarning, stacklevel=3)

    def _keep_stricter(self, before: Flags) -> list[str]:
        now = Flags.read()
        asked, ours = (_STRICTNESS[tuple(flags.switches[DETERMINISTIC])] for flags in (before, now))
        conflicts = []
        if asked and asked != ours:
            kept = max(asked, ours)
            conflicts.append(
                f"{self._trainer} or the script set torch.use_deterministic_algorithms to {_DEMANDS[asked]}; "
                f"mode={self._mode!r} asks for {_DEMANDS[ours]}. The stricter holds: {_DEMANDS[kept]}"
            )
            if asked > ours:
                write({DETERMINISTIC: before.switches[DETERMINISTIC]})
        if before.switches[_BENCHMARK] and not now.switches[_BENCHMARK]:
            conflicts.append(
                f"{self._trainer} or the script turned cudnn.benchmark on, which picks algorithms by time; "
                f"mode={self._mode!r} turned it off for the training"
            )
        return conflicts

    def start_recording(self, model: torch.nn.Module) -> None:
        """Opens the trace and tells the history whose weights to record."""
        if self.history is not None:
            self.history.watch(model)
        if self._recorder_path is not None and self._recorder is None:
            from ..auditing import Recorder

            self._recorder = Recorder(_of_rank(self._recorder_path))
            self._recorder.__enter__()

    def stop_recording(self) -> None:
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            recorder.__exit__(None, None, None)

    def begin_step(self) -> None:
        """Called before each step; the first one's calls are noted."""
        if self._costs and self._calls is None and not self.history.calls:
            self._calls = Calls()
            self._calls.__enter__()

    def end_step(self) -> None:
        if self._calls is not None:
            calls, self._calls = self._calls, None
            calls.__exit__(None, None, None)
            self.history.calls = calls.state()

    def save_history(self) -> None:
        if self.history is not None:
            self.history.finish()
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self.history.save(_of_rank(self._path))

    def stop(self, *, keep_generators: bool = False) -> None:
        """Puts flags and operators back, and the generators unless they are to go on from where training left them."""
        self.end_step()
        self.stop_recording()
        if self._run is None:
            return
        run, self._run = self._run, None
        state = rng_state() if keep_generators else None
        run.restore()
        if state is not None:
            set_rng_state(state)

    def state(self) -> dict[str, Any]:
        """For a checkpoint: generators, flags and history of this process."""
        return {
            "rng": rng_state(),
            "flags": Flags.read().as_dict(),
            "history": None if self.history is None else self.history.state_dict(),
        }

    def load_history(self, state: Mapping[str, Any] | None) -> None:
        if self.history is not None and state is not None:
            self.history.load_state_dict(state)

    def warn_of_other_flags(self, saved: Mapping[str, Any]) -> None:
        """Says which flags are not those of the run that is resumed."""
        changed = Flags.from_dict(saved).diff(Flags.read())
        if changed:
            words = "; ".join(f"{name} was {was}, is {now}" for name, (was, now) in changed.items())
            warnings.warn(
                f"the run that is resumed had other flags; it may not give the bits of an uninterrupted one: {words}",
                ReproducibilityWarning,
                stacklevel=3,
            )


def _of_rank(path: Path) -> Path:
    """One file a process: the path itself for rank 0."""
    rank = detected_rank()
    return path if rank == 0 else path.with_name(f"{path.name}.rank{rank}")


def missing(package: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error for a package that is not installed, with the command that installs it.

    Anything else that could not be imported, within an installed package, is that package's own error.
    """
    if error.name is None or error.name.split(".")[0] != package:
        return error
    return ModuleNotFoundError(
        f"reprocuda.integrations.{extra} needs {package}, which is not installed: pip install 'reprocuda[{extra}]'",
        name=package,
    )


def gathered(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Every rank's state, on every rank: checkpoints are written by one."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [state]
    states: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(states, state)
    return states


def own(states: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """This rank's state among those of a checkpoint; None, with a warning, if another number of ranks wrote it."""
    here = torch.distributed.is_available() and torch.distributed.is_initialized()
    world, rank = (torch.distributed.get_world_size(), torch.distributed.get_rank()) if here else (1, 0)
    if len(states) != world:
        warnings.warn(
            f"the checkpoint was written by {len(states)} processes and is read by {world}: generators are not "
            "restored, and the run does not give the bits of an uninterrupted one",
            ReproducibilityWarning,
            stacklevel=3,
        )
        return None
    return states[rank]
