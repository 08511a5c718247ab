"""What each replaced operator costs: torch's and ours in turn, on the shapes and indices that a run has used."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ..dispatch.overrides import DEVICES, installed
from ..dispatch.registry import registry, replacing
from ..dispatch.scopes import enabled

_KEPT_INDICES = 1 << 22  # elements, of all calls together: 32 MiB


@dataclass(frozen=True)
class Shape:
    """A tensor argument: what is needed to make one like it. `values`: those of an index."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    values: torch.Tensor | None = None

    def make(self) -> torch.Tensor:
        if self.values is not None:
            return self.values.to(self.device)
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return torch.randn(self.shape, generator=torch.Generator().manual_seed(0)).to(self.device, self.dtype)
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)


@dataclass
class Call:
    """Calls of one aten overload with arguments of one form.

    Attributes:
        overload: "index_add_", "scatter_add.out" and so on.
        operator: the entry of `reprocuda.registry` that replaces it.
        device: "cpu" or "cuda".
        arguments: the shapes and dtypes of the tensors, in words.
        count: how many such calls there were.
        function: the overload itself.
        inputs: its arguments and keyword arguments, a `Shape` for each tensor.
        drawn: the indices were not known, and are drawn uniformly.
    """

    overload: str
    operator: str
    device: str
    arguments: str
    count: int
    function: Any
    inputs: tuple[tuple, dict]
    drawn: bool = False


class Calls(TorchDispatchMode):
    """Notes the calls of replaced operators, forward and backward, that run inside; a few steps are enough.

    Example:
        >>> import torch
        >>> calls = Calls()
        >>> with calls:
        ...     _ = torch.zeros(3).index_add(0, torch.tensor([0, 0, 2]), torch.ones(3))
        >>> [(call.overload, call.operator, call.arguments, call.count) for call in calls.found]
        [('index_add', 'index_add', 'float32 [3], int64 [3], float32 [3]', 1)]
    """

    def __init__(self):
        super().__init__()
        self._calls: dict[tuple, Call] = {}
        self._room = _KEPT_INDICES

    @property
    def found(self) -> list[Call]:
        """One entry an overload and form of arguments, in the order of their first calls."""
        return list(self._calls.values())

    def state(self) -> list[dict[str, Any]]:
        """The calls as plain values and tensors, for a file; `measure` takes them as they are."""
        return [
            {
                "overload": call.overload,
                "operator": call.operator,
                "device": call.device,
                "arguments": call.arguments,
                "count": call.count,
                "inputs": _plain(call.inputs),
            }
            for call in self.found
        ]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.__name__.removesuffix(".default")
        operator = replacing(name) if func.namespace == "aten" else None
        if operator is not None:
            self._note(name, operator.name, func, args, kwargs)
        return func(*args, **kwargs)

    def _note(self, name: str, operator: str, func: Any, args: tuple, kwargs: dict) -> None:
        tensors = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        device = tensors[0].device.type
        if device not in DEVICES:
            return
        words = ", ".join(f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}" for x in tensors)
        form = name, device, words, repr(tree_map(lambda x: "" if isinstance(x, torch.Tensor) else x, (args, kwargs)))
        if form in self._calls:
            self._calls[form].count += 1
            return
        indices = sum(x.numel() for x in tensors if _is_index(x))
        if indices > self._room:
            return
        self._room -= indices
        inputs = tree_map(lambda x: _shape(x) if isinstance(x, torch.Tensor) else x, (tuple(args), dict(kwargs)))
        self._calls[form] = Call(name, operator, device, words, 1, func, inputs)


def _plain(x: Any) -> Any:
    if isinstance(x, Shape):
        return {"is": "tensor", **vars(x)}
    if isinstance(x, dict):
        return {"is": "dict", **{name: _plain(value) for name, value in x.items()}}
    return [_plain(part) for part in x] if isinstance(x, (list, tuple)) else x


def _from_plain(x: Any) -> Any:
    if isinstance(x, dict):
        rest = {name: value for name, value in x.items() if name != "is"}
        return Shape(**rest) if x["is"] == "tensor" else {name: _from_plain(v) for name, v in rest.items()}
    return [_from_plain(part) for part in x] if isinstance(x, list) else x


def _call(state: dict[str, Any]) -> Call:
    name, _, overload = state["overload"].partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload or "default")
    return Call(**{**state, "inputs": _from_plain(state["inputs"])}, function=function)


def _is_index(x: torch.Tensor) -> bool:
    return not (x.dtype.is_floating_point or x.dtype.is_complex)


def _shape(x: torch.Tensor) -> Shape:
    # The indices themselves: how often a target is hit decides what a sum costs.
    return Shape(tuple(x.shape), x.dtype, str(x.device), x.detach().to("cpu", copy=True) if _is_index(x) else None)


@dataclass(frozen=True)
class Cost:
    """What a call costs in milliseconds: medians of `rounds` calls of each, in turn, after one that warms up."""

    overload: str
    operator: str
    device: str
    arguments: str
    count: int
    native: float
    ours: float
    rounds: int
    drawn: bool = False

    @property
    def ratio(self) -> float:
        return self.ours / self.native


def measure(calls: Sequence[Call | dict[str, Any]], rounds: int = 9, seconds: float = 10.0) -> list[Cost]:
    """Times torch's operator and ours in turn, on the indices of the run and random values.

    torch's is called as it is while ours is installed and off, which adds a few microseconds to it.

    Args:
        calls: `Calls.found`, or what `Calls.state` gave.
        rounds: calls of each.
        seconds: no new operator is begun after so long.

    Returns:
        A `Cost` each, the costliest difference first.

    Raises:
        ValueError: rounds is not positive.
        RuntimeError: one of the operators is enabled now, so torch's own cannot be reached.

    Example:
        >>> import torch
        >>> with Calls() as calls:
        ...     _ = torch.zeros(3).index_add(0, torch.tensor([0, 0, 2]), torch.ones(3))
        >>> [cost.operator for cost in measure(calls.found, rounds=1)]
        ['index_add']
    """
    if rounds < 1:
        raise ValueError(f"reprocuda.reports.measure: rounds must be a positive number, got {rounds!r}")
    calls = [call if isinstance(call, Call) else _call(call) for call in calls]
    for call in calls:
        if installed.switch(registry[call.operator].overrides, call.device).on:
            raise RuntimeError(
                f"reprocuda.reports.measure: {call.operator} is enabled; call it outside of reprocuda's scopes"
            )
    started = time.perf_counter()
    costs = []
    for call in calls:
        if costs and time.perf_counter() - started > seconds:
            break
        args, kwargs = tree_map(lambda x: x.make() if isinstance(x, Shape) else x, call.inputs)
        samples: dict[bool, list[float]] = {False: [], True: []}
        for number in range(rounds + 1):
            for ours in (False, True) if number % 2 else (True, False):
                milliseconds = _time(call, args, kwargs, ours)
                if number > 0:
                    samples[ours].append(milliseconds)
        native, mine = (statistics.median(samples[ours]) for ours in (False, True))
        form = call.overload, call.operator, call.device, call.arguments, call.count
        costs.append(Cost(*form, native, mine, rounds, call.drawn))
    return sorted(costs, key=lambda cost: cost.count * (cost.native - cost.ours))


@torch.no_grad()
def _time(call: Call, args: tuple, kwargs: dict, ours: bool) -> float:
    synchronize = torch.cuda.synchronize if call.device == "cuda" else lambda: None
    scope = enabled(call.operator, devices=call.device, strict=True) if ours else nullcontext()
    with scope:
        synchronize()
        start = time.perf_counter()
        call.function(*args, **kwargs)
        synchronize()
        return 1e3 * (time.perf_counter() - start)
