"""The callback for Lightning's Trainer: `Trainer(callbacks=[ReproducibilityCallback(seed=42)])`."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..reports.history import History
from ..toolkit.seeding import set_rng_state
from .session import Session, gathered, missing, own

try:
    import lightning.pytorch as pl
except ModuleNotFoundError as error:
    raise missing("lightning", "lightning", error) from None


class ReproducibilityCallback(pl.Callback):
    """Makes fit, validate, test and predict repeat: seeds, flags, enabled operators, epochs, and resuming.

    From `setup` to `teardown` it holds what `reprocuda.reproducible` sets. Weights that the module's constructor draws
    come before: call `reprocuda.seed_everything(seed)` ahead of it, or build them in `configure_model`. Checkpoints get
    the state of all generators on every rank, the flags, and the history; a resumed run gives the bits of the
    uninterrupted one. In mid-epoch that takes a loader that knows its position, such as `reprocuda.data.loader`'s,
    which Lightning saves by itself.

    Args:
        seed: for every generator. Each rank draws its own numbers.
        mode: "train", "debug" or "fast", as in `reprocuda.reproducible`.
        history: a `History`, or a file to which one is written at the end of fit (ranks above 0 add their number);
            None: no history.
        recorder: a file for a trace of every operator of fit, for `reprocuda.compare`; None: no trace.
        costs: note which replaced operators the first step calls, and how, so that a report can time them.
        options: more arguments of `reprocuda.reproducible`, such as ops, devices, tf32.

    Raises:
        TypeError: an option that `reproducible` does not have.
        ValueError: whatever `reproducible` refuses, at `setup`.

    A `ReproducibilityWarning` tells of a `Trainer(deterministic=...)` that asks for something else than the mode (the
    stricter of both holds), and of a `Trainer(benchmark=True)`.

    Example:
        >>> callback = ReproducibilityCallback(seed=7, mode="train", history="run.history")
        >>> trainer = pl.Trainer(
        ...     callbacks=[callback], logger=False, enable_checkpointing=False, enable_progress_bar=False, max_epochs=1
        ... )
    """

    def __init__(
        self,
        seed: int = 42,
        mode: str = "train",
        *,
        history: History | str | os.PathLike | None = None,
        recorder: str | os.PathLike | None = None,
        costs: bool = False,
        **options: Any,
    ):
        super().__init__()
        self._seed = seed
        self._session = Session("Trainer(deterministic=..., benchmark=...)", mode, options, history, recorder, costs)
        self._trainer: pl.Trainer | None = None
        self._last_step = 0
        self._restored: dict[str, Any] | None = None

    @property
    def history(self) -> History | None:
        """What was recorded."""
        return self._session.history

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._trainer = trainer
        self._session.start(self._seed, reseed=True)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._session.stop()
        self._trainer = self._restored = None

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        # Lightning calls no teardown of callbacks then.
        self.teardown(trainer, pl_module, "fit")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._last_step = trainer.global_step
        if self._restored is not None and not self._restored["mid_epoch"] and trainer.current_epoch > 0:
            self._begin_epoch_again(trainer)
        self._session.start_recording(pl_module)

    def _begin_epoch_again(self, trainer: pl.Trainer) -> None:
        """Lightning makes the resumed epoch's iterator before it tells the samplers which epoch it is, and the iterator
        draws from the generators.
        """
        for loader in tree_leaves(trainer.train_dataloader):
            for thing in (loader, getattr(loader, "sampler", None)):
                if hasattr(thing, "set_epoch"):
                    thing.set_epoch(trainer.current_epoch)
        set_rng_state(self._restored["rng"])
        iter(trainer.fit_loop._data_fetcher)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for loader in tree_leaves(trainer.train_dataloader):
            if hasattr(loader, "set_epoch"):  # samplers' is called by Lightning
                loader.set_epoch(trainer.current_epoch)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._restored is not None:
            if self._restored["mid_epoch"]:  # what was drawn since, to find the place in the epoch, does not count
                set_rng_state(self._restored["rng"])
            self._restored = None
        self._session.begin_step()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._session.end_step()
        if self.history is None or trainer.global_step == self._last_step:
            return  # gradients are still being accumulated
        self._last_step = trainer.global_step
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self.history.record(loss if isinstance(loss, torch.Tensor) else None, step=trainer.global_step - 1)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._session.stop_recording()
        self._session.save_history()

    def state_dict(self) -> dict[str, Any]:
        if not self._session.is_open:
            return {}
        state = self._session.state()
        trainer = self._trainer
        state["mid_epoch"] = trainer is not None and bool(trainer.training) and not trainer.is_last_batch
        return {"ranks": gathered(state)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if "ranks" not in state_dict:
            return
        state = own(state_dict["ranks"])
        if state is not None and self._trainer is not None and self._trainer.state.fn == "fit":
            self._session.warn_of_other_flags(state["flags"])
            self._session.load_history(state["history"])
            self._restored = state
