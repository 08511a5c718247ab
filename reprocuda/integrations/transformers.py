"""The callback for Hugging Face's Trainer: `Trainer(..., callbacks=[ReproducibilityCallback()])`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch

from ..reports.history import History
from ..toolkit.flags import ReproducibilityWarning
from .session import Session, missing

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as error:
    raise missing("transformers", "transformers", error) from None

_STATE = "reprocuda.pt"


class ReproducibilityCallback(TrainerCallback):
    """Makes a training by transformers.Trainer repeat: flags, enabled operators, epochs, history.

    Seeds stay the Trainer's own: `TrainingArguments(seed=..., data_seed=...)`, which it gives to all generators when it
    is made, and to the order of the data; nothing is seeded again. Weights drawn before the Trainer is made come before
    its seed: use `model_init`, or call `reprocuda.seed_everything(seed)` ahead of the model. Checkpoints hold the
    generators by Trainer itself; this callback adds the history and the flags, and tells if a resumed run has others.

    Args:
        mode: "train", "debug" or "fast", as in `reprocuda.reproducible`. `TrainingArguments(full_determinism=True)`
            stays as strict as it is.
        history: a `History`, or a file to which one is written at the end (ranks above 0 add their number); None: none.
        recorder: a file for a trace of every operator of the training, for `reprocuda.compare`; None: no trace.
        costs: note which replaced operators the first step calls, and how, so that a report can time them.
        options: more arguments of `reprocuda.reproducible`, such as ops, devices, tf32.

    Example:
        >>> callback = ReproducibilityCallback(history="run.history")
        >>> callback.history.losses
        {}
    """

    def __init__(
        self,
        mode: str = "train",
        *,
        history: History | str | os.PathLike | None = None,
        recorder: str | os.PathLike | None = None,
        costs: bool = False,
        **options: Any,
    ):
        trainer = "TrainingArguments(full_determinism=...)"
        self._session = Session(trainer, mode, options, history, recorder, costs)
        self._losses: list[torch.Tensor] = []
        self._hook: Any = None

    @property
    def history(self) -> History | None:
        """What was recorded."""
        return self._session.history

    def on_train_begin(self, args, state, control, model=None, train_dataloader=None, **kwargs):
        self._session.start(args.seed, reseed=False)
        if state.global_step > 0:
            self._load(Path(args.output_dir, f"checkpoint-{state.global_step}", _STATE), state.global_step)
        self._session.start_recording(model)
        if self.history is not None:
            self._hook = model.register_forward_hook(self._note_loss)

    def _note_loss(self, module: torch.nn.Module, inputs: tuple, output: Any) -> None:
        loss = output.get("loss") if hasattr(output, "get") else None
        if module.training and isinstance(loss, torch.Tensor):
            self._losses.append(loss.detach())

    def on_step_begin(self, args, state, control, **kwargs):
        self._session.begin_step()

    def on_step_end(self, args, state, control, **kwargs):
        self._session.end_step()
        if self.history is None:
            return
        # Of several micro-batches, the mean; a loss that the model did not compute comes with the logs.
        loss = torch.stack(self._losses).mean() if self._losses else None
        self._losses.clear()
        self.history.record(loss, step=state.global_step - 1)

    def on_log(self, args, state, control, logs=None, **kwargs):
        step = state.global_step - 1
        if self.history is not None and logs and "loss" in logs and step not in self.history.losses:
            self.history.record(float(logs["loss"]), step=step, weights={})

    def on_save(self, args, state, control, **kwargs):
        folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
        if state.is_world_process_zero and folder.is_dir():
            kept = self._session.state()
            torch.save({name: kept[name] for name in ("flags", "history")}, folder / _STATE)

    def _load(self, path: Path, step: int) -> None:
        if not path.exists():
            if self.history is not None:
                warnings.warn(
                    f"{path} is not there: the history of the resumed run begins at step {step}",
                    ReproducibilityWarning,
                    stacklevel=2,
                )
            return
        saved = torch.load(path, map_location="cpu", weights_only=True)
        self._session.warn_of_other_flags(saved["flags"])
        self._session.load_history(saved["history"])

    def on_train_end(self, args, state, control, **kwargs):
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._session.stop_recording()
        self._session.save_history()
        self._session.stop(keep_generators=True)
