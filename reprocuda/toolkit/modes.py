"""The whole checklist of a reproducible run in one call, and scopes that switch determinism for a region."""

from __future__ import annotations

import os
import re
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._starting import CUBLAS, CUBLAS_DETERMINISTIC
from ..dispatch.scopes import Layers, Scope, enabled
from .flags import CUDNN_TF32, DETERMINISTIC, FILL, MATMUL_PRECISION, Flags, ReproducibilityWarning, hash_seed, write
from .nondeterminism import ExceptHook, explained
from .seeding import Seeds, generators, rng_state, seed_everything

Devices = Sequence[str | torch.device] | str | torch.device | None

# torch's deterministic flag (on, warn only), cuDNN's two, the fill of uninitialised memory, and whether our operators
# are enabled, strictly. None: left as it is.
MODES: dict[str, dict[str, Any]] = {
    "debug": {"flag": (True, False), "cudnn": True, "benchmark": False, "fill": True, "ours": True, "strict": True},
    "train": {"flag": (True, True), "cudnn": True, "benchmark": False, "fill": False, "ours": True, "strict": False},
    "fast": {"flag": (False, False), "cudnn": False, "benchmark": None, "fill": None, "ours": False, "strict": False},
}
_PRECISIONS = ("highest", "high", "medium")
_SHOWN = (
    DETERMINISTIC,
    FILL,
    "torch.backends.cudnn.deterministic",
    "torch.backends.cudnn.benchmark",
    MATMUL_PRECISION,
    CUDNN_TF32,
    CUBLAS,
    "PYTHONHASHSEED",
)
_WARNED_ONCE = ".*does not have a deterministic implementation"


def _checked_bool(function: str, name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"reprocuda.{function}: {name} must be True, False or None, got {value!r}")
    return value


def _set_workspace_config() -> str | None:
    """Gives cuBLAS its workspace; says what to do where that is too late."""
    value = os.environ.get(CUBLAS)
    if value in CUBLAS_DETERMINISTIC:
        return None
    if torch.cuda.is_initialized():
        return (
            f"{CUBLAS} is {value!r} and CUDA is initialised: matrix products may differ from run to run on several "
            "streams, and torch refuses them. Set it to :4096:8 before the first CUDA call, or start the script with "
            "`python -m reprocuda run`"
        )
    os.environ[CUBLAS] = CUBLAS_DETERMINISTIC[0]
    return None


def _warn_once_each() -> tuple[Any, ...]:
    """Makes torch's warning about an operator appear once for each operator, wherever it is called; returns the entry
    of warnings.filters.
    """
    for key in [key for key in warnings.onceregistry if re.match(_WARNED_ONCE, str(key[0]))]:
        del warnings.onceregistry[key]
    warnings.filterwarnings("once", message=_WARNED_ONCE)
    return warnings.filters[0]


def _put_workspace(value: str | None) -> None:
    if value is None:
        os.environ.pop(CUBLAS, None)
    else:
        os.environ[CUBLAS] = value


_flags = Layers(Flags.apply)
_workspaces = Layers(_put_workspace)


class Reproducible:
    """What `reproducible` set, what it could not, and what was there before. Print it; end it with `restore()`, or use
    it as a context manager.

    Attributes:
        mode: "debug", "train" or "fast".
        seeds: the `Seeds` that the generators got.
        flags: the `Flags` as they were set.
        before: the `Flags` as they were.
        rng_before: the generators' states as they were, for `set_rng_state`.
        operators: the operators of ours that it enabled.
        remaining: what can still make two runs differ, with what to do about it.
    """

    def __init__(self, mode: str, before: Flags, state: dict[str, Any], workspace: str | None):
        self.mode = mode
        self.before = before
        self.flags = before
        self.seeds: Seeds
        self.operators: tuple[str, ...] = ()
        self.remaining: tuple[str, ...] = ()
        self.rng_before = state
        self._layers = [(_flags, _flags.open(before)), (_workspaces, _workspaces.open(workspace))]
        self._layers.append((generators, generators.open(state)))
        self._scope: enabled | None = None
        self._hook: ExceptHook | None = None
        self._filter: tuple[Any, ...] | None = None
        self._open = True

    def _begin(self, scope: enabled | None, wanted: Mapping[str, Any]) -> None:
        if scope is not None:
            scope.__enter__()
            self._scope = scope
            self.operators = tuple(operator.name for operator in scope.operators)
        write(wanted)
        if self.mode != "fast":
            self.remaining = tuple(_still_open())
        if self.mode == "debug":
            self._hook = ExceptHook()
        if self.mode == "train":
            self._filter = _warn_once_each()
        self.flags = Flags.read()

    def restore(self) -> None:
        """Puts generators, flags, environment and operators back to what they were. A second call does nothing.

        Where another that began later is still open, that one does it at its end.
        """
        if not self._open:
            return
        self._open = False
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)
        if self._hook is not None:
            self._hook.remove()
        if self._scope is not None:
            self._scope.__exit__(None, None, None)
        for layers, layer in self._layers:
            layers.close(layer)

    def __enter__(self) -> Reproducible:
        if not self._open:
            raise RuntimeError("reprocuda.reproducible: this one has ended; call reproducible() again")
        return self

    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> None:
        self.restore()
        if error is not None and self.mode == "debug":
            found = explained(error, tb)
            if found is not None:
                raise found from error

    def __str__(self) -> str:
        changed = self.before.diff(self.flags)
        rows = {
            "mode": self.mode,
            "seed": self.seeds.seed,
            "rank": self.seeds.rank,
            "operators replaced": ", ".join(self.operators) or "none",
        }
        for name, value in {**self.flags.switches, **self.flags.environment}.items():
            if name in changed:
                rows[name] = f"{_in_words(name, value)} (was {_in_words(name, changed[name][0])})"
            elif name in _SHOWN:
                rows[name] = _in_words(name, value)
        width = max(map(len, rows))
        text = [f"{name.ljust(width)}  {value}" for name, value in rows.items()]
        text += [textwrap.fill(f"still open: {line}", 116, subsequent_indent="  ") for line in self.remaining]
        return "\n".join(text)


def _in_words(name: str, value: Any) -> str:
    if name == DETERMINISTIC:
        mode, warn_only = value
        return "off" if not mode else "on, warns" if warn_only else "on, raises"
    if value is None:
        return "not set"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _switches(choice: Mapping[str, Any], tf32: bool | None, matmul_precision: str | None) -> dict[str, Any]:
    if tf32 is not None and matmul_precision is None:
        matmul_precision = "high" if tf32 else "highest"
    wanted = {
        DETERMINISTIC: choice["flag"],
        FILL: choice["fill"],
        "torch.backends.cudnn.deterministic": choice["cudnn"],
        "torch.backends.mkldnn.deterministic": choice["cudnn"],
        "torch.backends.cudnn.benchmark": choice["benchmark"],
        MATMUL_PRECISION: matmul_precision,
        CUDNN_TF32: tf32,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _still_open() -> list[str]:
    """What a running process cannot change any more."""
    remaining = []
    problem = _set_workspace_config()
    if problem is not None:
        remaining.append(problem)
    if hash_seed() is None:
        remaining.append(
            "PYTHONHASHSEED was not set when this interpreter started: hash() and the order of sets of strings change "
            "from run to run. Start the script with `python -m reprocuda run SCRIPT`"
        )
    return remaining


def reproducible(
    seed: int = 42,
    mode: str = "debug",
    *,
    rank: int | str | None = None,
    same_on_all_ranks: bool = False,
    ops: Sequence[str] | str | None = None,
    devices: Devices = None,
    fill_uninitialized: bool | None = None,
    cudnn_benchmark: bool | None = None,
    tf32: bool | None = None,
    matmul_precision: str | None = None,
) -> Reproducible:
    """Everything a run needs to repeat, in one call: seeds, torch's flags, cuBLAS's workspace, our operators.

    As a function it holds from the call on, until `restore()`; as a context manager, `with reproducible(...):`, until
    the end of the block, after which generators, flags, environment and operators are what they were.

    | | "debug" | "train" | "fast" |
    | --- | --- | --- | --- |
    | every generator seeded | yes | yes | yes |
    | our operators | enabled, strict: compiled functions run eagerly | enabled | left as they are |
    | torch.use_deterministic_algorithms | on, raises | on, warns once an operator | off |
    | cudnn.deterministic, mkldnn.deterministic | on | on | off |
    | cudnn.benchmark | off | off | left as it is |
    | fill of uninitialised memory | on | off (it costs 10 to 15 % of a step) | left as it is |
    | CUBLAS_WORKSPACE_CONFIG | :4096:8, unless CUDA is initialised | the same | left as it is |
    | TF32, matmul precision | left as they are: they repeat on one model of GPU | the same | the same |

    In debug mode an operator that torch refuses becomes a `NondeterministicError` at the end of the block: the
    operator, its arguments, the caller's line and the cure. Called as a function, the same is printed below the
    traceback of an error that is not caught.

    Args:
        seed: for `seed_everything`.
        mode: "debug", "train" or "fast".
        rank: for `seed_everything`: an integer, "auto", or None.
        same_on_all_ranks: for `seed_everything`.
        ops: which operators of ours; None: all. Names are those of `reprocuda.registry`.
        devices: on which devices; None: all that this build has.
        fill_uninitialized: overrides the mode.
        cudnn_benchmark: overrides the mode.
        tf32: True or False sets it for matrix products and convolutions alike; None leaves both.
        matmul_precision: "highest", "high" or "medium", for torch.set_float32_matmul_precision; None leaves it.

    Returns:
        A `Reproducible`: what was set and what was there before. It prints as a table.

    Raises:
        TypeError: a seed that is no integer, a switch that is no bool.
        ValueError: a negative seed, an unknown mode, operator, device or precision. Nothing is changed then.

    What a running process cannot change (PYTHONHASHSEED; cuBLAS's workspace once CUDA is initialised) is in
    `remaining`, and a `ReproducibilityWarning` says it, except in "fast".

    Example:
        >>> import torch, reprocuda
        >>> with reprocuda.reproducible(7, mode="train") as run:
        ...     first = torch.rand(3)
        >>> with reprocuda.reproducible(7, mode="train"):
        ...     torch.equal(torch.rand(3), first)
        True
        >>> torch.are_deterministic_algorithms_enabled(), run.seeds.seed
        (False, 7)
    """
    if mode not in MODES:
        raise ValueError(f"reprocuda.reproducible: mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}")
    if matmul_precision is not None and matmul_precision not in _PRECISIONS:
        raise ValueError(
            f"reprocuda.reproducible: matmul_precision must be one of {', '.join(map(repr, _PRECISIONS))} or None, got "
            f"{matmul_precision!r}"
        )
    choice = dict(MODES[mode])
    overrides = {"fill": ("fill_uninitialized", fill_uninitialized), "benchmark": ("cudnn_benchmark", cudnn_benchmark)}
    for key, (name, value) in overrides.items():
        if _checked_bool("reproducible", name, value) is not None:
            choice[key] = value
    _checked_bool("reproducible", "tf32", tf32)
    scope = enabled(ops, devices, choice["strict"]) if choice["ours"] else None

    run = Reproducible(mode, Flags.read(), rng_state(), os.environ.get(CUBLAS))
    try:
        run.seeds = seed_everything(seed, rank, same_on_all_ranks=same_on_all_ranks)
        run._begin(scope, _switches(choice, tf32, matmul_precision))
    except BaseException:
        run.restore()
        raise
    try:
        for text in run.remaining:
            warnings.warn(f"reprocuda.reproducible: {text}", ReproducibilityWarning, stacklevel=2)
    except BaseException:  # a filter makes it an error: then nothing is changed
        run.restore()
        raise
    return run


class deterministic(Scope):
    """Determinism for a block or for each call of a function, without seeding: torch's flag, cuDNN's, our operators.

    Whatever it changes is put back at the end, also after an exception: flag, warn_only, cuDNN's flags, fill. It covers
    what *runs* inside it, in every thread: a backward() called after its end is not covered.

    Args:
        ops: which operators of ours; None: all.
        devices: on which devices; None: all that this build has.
        native: also torch's own deterministic forms (torch.use_deterministic_algorithms, cudnn.deterministic,
            cudnn.benchmark off). False: our operators alone; nothing else gets slower, cuBLAS needs no workspace, and
            nothing raises.
        warn_only: torch warns about operators that have no deterministic form, and does not raise.
        strict: run compiled functions eagerly meanwhile, as `enabled(strict=True)` does.
        fill_uninitialized: torch's fill of uninitialised memory, which costs 10 to 15 % of a step; it shows reads of
            memory that was never written.

    Raises:
        TypeError: a switch that is no bool.
        ValueError: an unknown operator or device.

    Example:
        >>> import torch, reprocuda
        >>> index, values = torch.zeros(3, dtype=torch.long), torch.tensor([1e8, 1.0, -1e8])
        >>> with reprocuda.deterministic("index_add", native=False, strict=True):
        ...     torch.zeros(1).index_add(0, index, values)
        tensor([1.])
        >>> with reprocuda.deterministic(strict=True):
        ...     torch.are_deterministic_algorithms_enabled()
        True
    """

    def __init__(
        self,
        ops: Sequence[str] | str | None = None,
        devices: Devices = None,
        *,
        native: bool = True,
        warn_only: bool = False,
        strict: bool = False,
        fill_uninitialized: bool = False,
    ):
        switches = {
            "native": native,
            "warn_only": warn_only,
            "strict": strict,
            "fill_uninitialized": fill_uninitialized,
        }
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise TypeError(f"reprocuda.deterministic: {name} must be True or False, got {value!r}")
        self._scope = enabled(ops, devices, strict)
        choice = {"flag": (True, warn_only), "fill": fill_uninitialized, "cudnn": True, "benchmark": False}
        self._wanted = _switches(choice, None, None) if native else {}
        self._layers: list[list[Any]] = []

    def __enter__(self) -> deterministic:
        before = Flags.read()
        self._scope.__enter__()
        self._layers.append(_flags.open(before))
        try:
            write(self._wanted)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._scope.__exit__(None, None, None)
        _flags.close(self._layers.pop())
