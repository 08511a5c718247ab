"""What a training run did to its loss and its weights, step by step, kept small enough to be compared later."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..auditing.fingerprint import Digests
from ..dispatch.overrides import DEVICES

_FORMAT = "reprocuda history 1"
_DIGEST = "reprocuda fingerprint 1"
_READ_TOGETHER = 256  # losses: one copy from the device for so many


@dataclass(frozen=True)
class KeptWeight:
    """How a weight is kept: `samples` evenly spaced elements of it, in the tensor of its dtype's group."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    samples: int
    offset: int


@dataclass
class KeptStep:
    step: int
    digests: torch.Tensor  # [weights, 2] int64
    samples: dict[torch.dtype, torch.Tensor]  # a dtype: [samples of all its weights]


class History:
    """Records the loss and every weight of a run, in bounded memory, so that two runs can be compared.

    For each recorded step and weight (parameters and buffers) it keeps a digest of 128 bits, which tells any
    difference, and the values of some evenly spaced elements, which tell how large it is. When `memory` is used up,
    every second recorded step is dropped, and from then on half as many are recorded; which ones depends on nothing but
    the shapes and the number of steps, so two runs keep the same ones. Every loss is kept.

    Args:
        model: whose weights are recorded; None: they are given to each `record`.
        samples: how many elements of a weight to keep at a step; None: all, a full copy.
        memory: bytes for the recorded steps. At least two steps are kept whatever it is.

    Raises:
        ValueError: samples or memory is not positive.

    Cost: a digest of all weights, and one copy of the samples to the host, at each recorded step.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 1)
        >>> history = History(model)
        >>> history.record(loss=0.5)
        >>> history.losses, history.steps
        ({0: 0.5}, [0])
    """

    def __init__(self, model: torch.nn.Module | None = None, *, samples: int | None = 64, memory: int = 16 << 20):
        if samples is not None and samples < 1:
            raise ValueError(
                f"reprocuda.reports.History: samples must be positive, or None for full copies, got {samples!r}"
            )
        if memory < 1:
            raise ValueError(f"reprocuda.reports.History: memory must be a positive number of bytes, got {memory!r}")
        self._model = model
        self._samples = samples
        self._memory = memory
        self.kept_weights: list[KeptWeight] = []
        self.kept_steps: list[KeptStep] = []
        self._every = 1
        self._recorded = 0  # calls that had weights to record, kept or not
        self._losses: dict[int, float | torch.Tensor] = {}
        self._unread: list[int] = []  # steps whose loss is still on its device
        self._next = 0
        self._positions: dict[tuple[int, torch.device], torch.Tensor] = {}
        self.final: dict[str, torch.Tensor] = {}
        self.calls: list[dict[str, Any]] = []  # `costs.Calls.state()` of some steps, for the costs in a report

    def watch(self, model: torch.nn.Module) -> None:
        """From now on, records this model's weights."""
        self._model = model

    @property
    def length(self) -> int:
        """One more than the number of the last step that was recorded."""
        return self._next

    @property
    def steps(self) -> list[int]:
        """The steps whose weights are kept."""
        return [step.step for step in self.kept_steps]

    @property
    def losses(self) -> dict[int, float]:
        """The loss of each step."""
        if self._unread:
            values = torch.stack([self._losses[step] for step in self._unread]).tolist()
            self._losses.update(zip(self._unread, values, strict=True))
            self._unread.clear()
        return dict(self._losses)

    def record(
        self,
        loss: torch.Tensor | float | None = None,
        *,
        step: int | None = None,
        weights: torch.nn.Module | Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Records one step; call it after the optimizer's step.

        Args:
            loss: a number or a tensor of one element; None: the step has none.
            step: its number; None: one more than that of the last call.
            weights: instead of the model's: a model, or tensors by name; the same names, shapes and dtypes at each
                call. {}: only the loss is recorded.

        Raises:
            ValueError: loss has more than one element; weights have other names, shapes or dtypes than before.

        Example:
            >>> import torch
            >>> history = History()
            >>> history.record(torch.tensor(0.25), weights={"w": torch.ones(3)})
            >>> history.losses, history.steps
            ({0: 0.25}, [0])
        """
        step = self._next if step is None else int(step)
        if isinstance(loss, torch.Tensor):
            if loss.numel() != 1:
                raise ValueError(
                    f"reprocuda.reports.History.record: loss must be one number, got shape {tuple(loss.shape)}"
                )
            loss = loss.detach().reshape(()).to(torch.float64, copy=True)
        tensors = _tensors(weights if weights is not None else self._model)
        if tensors:
            self._record_weights(step, tensors)
        if loss is not None:
            self._record_loss(step, loss)
        self._next = step + 1

    def _record_loss(self, step: int, loss: torch.Tensor | float) -> None:
        """A tensor is read later, with others: reading waits for the device."""
        self._losses[step] = loss if isinstance(loss, torch.Tensor) else float(loss)
        self._unread = [other for other in self._unread if other != step]
        if isinstance(loss, torch.Tensor):
            self._unread.append(step)
        if len(self._unread) == _READ_TOGETHER:
            _ = self.losses

    def _record_weights(self, step: int, tensors: dict[str, torch.Tensor]) -> None:
        if not self.kept_weights:
            self.kept_weights = self._layout(tensors)
        found = [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()]
        known = [(weight.name, weight.dtype, weight.shape) for weight in self.kept_weights]
        if found != known:
            changed = next(
                (weight for weight in [*found, *known] if (weight in found) != (weight in known)), "the order"
            )
            raise ValueError(
                "reprocuda.reports.History.record: weights must have the names, shapes and dtypes of the first step; "
                f"{changed} differs"
            )
        due = self._recorded % self._every == 0
        self._recorded += 1
        if not due:
            return
        groups: dict[torch.dtype, list[torch.Tensor]] = {}
        for weight, tensor in zip(self.kept_weights, tensors.values(), strict=True):
            groups.setdefault(weight.dtype, []).append(self._sampled(weight, tensor))
        # One tensor a dtype, so that few copies cross to the host.
        samples = {dtype: _to_host(parts) for dtype, parts in groups.items()}
        self.kept_steps.append(KeptStep(step, _fingerprints(tensors.values()), samples))
        while len(self.kept_steps) > 2 and len(self.kept_steps) * self._bytes_a_step() > self._memory:
            self.kept_steps = self.kept_steps[::2]
            self._every *= 2

    def _layout(self, tensors: dict[str, torch.Tensor]) -> list[KeptWeight]:
        used: dict[torch.dtype, int] = {}
        weights = []
        for name, tensor in tensors.items():
            samples = tensor.numel() if self._samples is None else min(self._samples, tensor.numel())
            offset = used.get(tensor.dtype, 0)
            weights.append(KeptWeight(name, tensor.dtype, tuple(tensor.shape), samples, offset))
            used[tensor.dtype] = offset + samples
        return weights

    def _bytes_a_step(self) -> int:
        step = self.kept_steps[-1]
        return step.digests.nbytes + sum(samples.nbytes for samples in step.samples.values())

    def _sampled(self, weight: KeptWeight, tensor: torch.Tensor) -> torch.Tensor:
        flat = tensor.detach().reshape(-1)
        if weight.samples == len(flat):
            return flat
        key = (len(flat), weight.samples, flat.device)
        if key not in self._positions:
            self._positions[key] = torch.arange(weight.samples, device=flat.device) * len(flat) // weight.samples
        return flat[self._positions[key]]

    def state_dict(self) -> dict[str, Any]:
        """Everything recorded, as numbers, strings and tensors on the CPU: in a checkpoint it lets a resumed run go on.

        Example:
            >>> history = History()
            >>> history.record(1.0)
            >>> other = History()
            >>> other.load_state_dict(history.state_dict())
            >>> other.losses
            {0: 1.0}
        """
        losses = self.losses
        kept = [vars(weight) for weight in self.kept_weights]
        return {
            "format": _FORMAT,
            "digest": _DIGEST,
            "samples": self._samples,
            "memory": self._memory,
            "every": self._every,
            "recorded": self._recorded,
            "next": self._next,
            "weights": kept,
            "loss_steps": list(losses),
            "losses": torch.tensor(list(losses.values()), dtype=torch.float64),
            "steps": [vars(step) for step in self.kept_steps],
            "final": dict(self.final),
            "calls": list(self.calls),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what another history recorded; bounds included.

        Raises:
            ValueError: state is not that of a History, or of one that took other digests.
        """
        if not isinstance(state, Mapping) or state.get("format") != _FORMAT:
            given = state.get("format") if isinstance(state, Mapping) else type(state).__name__
            raise ValueError(
                f"reprocuda.reports.History.load_state_dict: state must be what state_dict() returned ({_FORMAT!r}), "
                f"got {given!r}"
            )
        if state["digest"] != _DIGEST:
            raise ValueError(
                f"reprocuda.reports.History.load_state_dict: the digests of state must be {_DIGEST!r}, got "
                f"{state['digest']!r}"
            )
        self._samples, self._memory = state["samples"], state["memory"]
        self._every, self._recorded, self._next = state["every"], state["recorded"], state["next"]
        self.kept_weights = [KeptWeight(**weight) for weight in state["weights"]]
        self._losses = dict(zip(state["loss_steps"], state["losses"].tolist(), strict=True))
        self._unread = []
        self.kept_steps = [KeptStep(**step) for step in state["steps"]]
        self.final, self.calls = dict(state["final"]), list(state["calls"])

    def finish(self, weights: torch.nn.Module | Mapping[str, torch.Tensor] | None = None) -> None:
        """Keeps a full copy of the weights as they are now, in `final`: for Vermv and Vc of the end of the run.

        Args:
            weights: instead of the model's: a model, or tensors by name.
        """
        tensors = _tensors(weights if weights is not None else self._model)
        self.final = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}

    def save(self, path: str | os.PathLike) -> None:
        """Writes all of it, with the weights as they are now, to a file that `load` reads.

        Args:
            path: the file; one that is there is replaced, and never left half-written.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     history = History()
            ...     history.record(1.0)
            ...     history.save(f"{folder}/run.history")
            ...     History.load(f"{folder}/run.history").losses
            {0: 1.0}
        """
        if self._model is not None:
            self.finish()
        path = Path(path)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
        try:
            # By way of memory: torch.save writes a file's name into it, and equal histories are to be equal files.
            content = io.BytesIO()
            torch.save(self.state_dict(), content)
            unfinished.write_bytes(content.getbuffer())
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike) -> History:
        """Reads what `save` has written; no code in the file is run.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it holds something else.
        """
        history = cls()
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except OSError:
            raise
        except Exception as error:  # whatever torch raises for a file that is not its own
            raise ValueError(
                f"reprocuda.reports.History.load: {os.fspath(path)} was not written by History.save"
            ) from error
        history.load_state_dict(state)
        return history


def _tensors(weights: torch.nn.Module | Mapping[str, torch.Tensor] | None) -> dict[str, torch.Tensor]:
    """Every parameter and buffer once, by name; what wrappers (DDP, torch.compile) put before a name is taken off."""
    if weights is None:
        return {}
    if isinstance(weights, torch.nn.Module):
        weights = dict([*weights.named_parameters(), *weights.named_buffers()])
    named = {}
    for name, tensor in weights.items():
        plain = ".".join(part for part in str(name).split(".") if part not in ("module", "_orig_mod"))
        tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # of a sharded weight, this rank's part
        named[plain if plain and plain not in named else str(name)] = tensor.detach()
    return named


def _to_host(parts: list[torch.Tensor]) -> torch.Tensor:
    # Not torch.cat, which lacks some dtypes that a weight may have: bytes have none of them.
    flat = [
        part.contiguous().view(torch.uint8) if part.numel() else part.new_empty(0, dtype=torch.uint8) for part in parts
    ]
    return torch.cat(flat).to("cpu", copy=True).view(parts[0].dtype)


def _fingerprints(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """[weights, 2] int64"""
    digests = Digests()
    for tensor in tensors:
        digests.append(tensor if tensor.device.type in DEVICES else tensor.cpu())
    return torch.from_numpy(digests.take().view("int64"))
