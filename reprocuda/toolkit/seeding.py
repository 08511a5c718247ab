"""Every generator of random numbers at once: seeded, read, put back, and put aside for a block.

Python's random, NumPy's legacy global generator, torch's on the CPU and on every CUDA device.
"""

from __future__ import annotations

import hashlib
import operator
import os
import random
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..dispatch.scopes import Layers, Scope
from .flags import ReproducibilityWarning

_PLAIN_SEEDS = 2**32  # NumPy takes no more, and torch's CPU generator ignores the bits above
_PARTS = ("python", "numpy", "torch", "torch_seed", "cuda", "seeded")


@dataclass(frozen=True)
class Seeds:
    """What `seed_everything` gave to each generator.

    Attributes:
        seed: the seed that was asked for.
        rank: the rank whose streams these are.
        python: what random.seed got.
        numpy: what np.random.seed got: a number, or eight words of 32 bits.
        torch: what torch.manual_seed got, for the CPU and every GPU.
    """

    seed: int
    rank: int
    python: int
    numpy: int | tuple[int, ...]
    torch: int


_latest: Seeds | None = None
_all_ranks_alike = False


def checked_number(function: str, name: str, value: Any, expected: str = "an integer") -> int:
    """`value`, an integer from 0, as Python's; or the error that names function, argument and what was given."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"reprocuda.{function}: {name} must be {expected}, got {value!r} ({type(value).__name__})")
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"reprocuda.{function}: {name} must not be negative, got {number}")
    return number


def derive(seed: int, *path: int | str) -> int:
    """256 bits that depend on the seed and on every part of the path: SHA-256 of "reprocuda" and their repr()s.

    The same on every machine, Python and version of NumPy or torch.
    """
    text = "/".join(["reprocuda", *map(repr, (seed, *path))])
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "little")


def detected_rank() -> int:
    """This process's rank: torch.distributed's where it is initialised, else that of $RANK, else 0."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    text = os.environ.get("RANK", "0")
    if not text.isdecimal():
        raise ValueError(f"the environment's RANK must be a number from 0, got {text!r}")
    return int(text)


def _seeds(seed: int, rank: int) -> Seeds:
    if rank == 0 and seed < _PLAIN_SEEDS:
        return Seeds(seed, rank, seed, seed, seed)
    of_numpy = derive(seed, rank, "numpy")
    return Seeds(
        seed,
        rank,
        derive(seed, rank, "python"),
        tuple(of_numpy >> shift & 0xFFFFFFFF for shift in range(0, 256, 32)),
        derive(seed, rank, "torch") & 0xFFFFFFFFFFFFFFFF,
    )


def _apply(seeds: Seeds) -> None:
    random.seed(seeds.python)
    np.random.seed(seeds.numpy)
    torch.manual_seed(seeds.torch)


def seed_everything(seed: int = 42, rank: int | str | None = None, *, same_on_all_ranks: bool = False) -> Seeds:
    """Seeds Python's random, NumPy's legacy global generator, and torch on the CPU and every GPU.

    CUDA is not initialised by it: as with torch.manual_seed, the GPUs get their seed when it is.

    Below 2**32 and on rank 0, each generator gets the seed itself, as in `random.seed(seed); np.random.seed(seed);
    torch.manual_seed(seed)`. Larger seeds (NumPy refuses them, and torch's CPU generator ignores all but 32 bits) and
    other ranks get seeds of their own: parts of SHA-256 over seed, rank and the generator's name.

    Args:
        seed: any integer from 0.
        rank: whose streams: an integer from 0, or "auto" (torch.distributed's rank, else $RANK, else 0), so that
            dropout masks and augmentations differ from rank to rank and repeat from run to run. What has to be the
            same on all ranks belongs in `fork_rng(shared=True)` (initial weights); `data.loader` takes the order of
            samples from the shared seed and the samples' own random numbers from seed and rank. None: rank 0.
        same_on_all_ranks: every rank gets rank 0's streams, and workers of the same number too.

    Returns:
        A `Seeds`: what each generator got.

    Raises:
        TypeError: seed is not an integer (bool, float and None included), or rank is neither integer, "auto" nor None.
        ValueError: seed or rank is negative, or $RANK is no number.

    Example:
        >>> import torch, reprocuda
        >>> def mask(rank):
        ...     reprocuda.seed_everything(11, rank=rank)
        ...     return torch.nn.functional.dropout(torch.ones(64))
        >>> torch.equal(mask(0), mask(0)), torch.equal(mask(0), mask(1))
        (True, False)
    """
    global _latest, _all_ranks_alike
    seed = checked_number("seed_everything", "seed", seed)
    if rank is None and not same_on_all_ranks and detected_rank() > 0:
        warnings.warn(
            f"reprocuda.seed_everything({seed}) on rank {detected_rank()} of several gives every rank the same dropout "
            "masks. Pass rank='auto' for streams of its own, or same_on_all_ranks=True",
            ReproducibilityWarning,
            stacklevel=2,
        )
    if rank == "auto":
        number = detected_rank()
    else:
        number = 0 if rank is None else checked_number("seed_everything", "rank", rank, "an integer, 'auto' or None")
    seeds = _seeds(seed, 0 if same_on_all_ranks else number)
    _apply(seeds)
    _latest, _all_ranks_alike = seeds, same_on_all_ranks
    return seeds


def seeded() -> tuple[int, int, bool] | None:
    """What `seed_everything` was given: seed, rank, and whether all ranks are alike."""
    return None if _latest is None else (_latest.seed, _latest.rank, _all_ranks_alike)


def set_seeded(what: tuple[int, int, bool] | None) -> None:
    """Notes what another process or another time was seeded with; no generator changes."""
    global _latest, _all_ranks_alike
    seed, rank, _all_ranks_alike = what or (0, 0, False)
    _latest = None if what is None else _seeds(seed, rank)


def shared_seed() -> int:
    """The seed that all ranks have in common: the latest `seed_everything`'s, or torch's where that was seeded since.

    Nothing is drawn.
    """
    current = torch.initial_seed()
    return _latest.seed if _latest is not None and _latest.torch == current else current


def stream_rank() -> int:
    """The rank whose streams workers and samples of this process take."""
    if _all_ranks_alike:
        return 0
    return (_latest.rank if _latest is not None else 0) or detected_rank()


def _cuda_is_usable() -> bool:
    return torch.backends.cuda.is_built() and not torch.cuda._is_in_bad_fork()


def _pickled(value: Any) -> Any:
    """NumPy's state in types that torch.load(weights_only=True) accepts."""
    if isinstance(value, Mapping):
        return {key: _pickled(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return ["array", str(value.dtype), value.tolist()]
    return value.item() if isinstance(value, np.generic) else value


def _unpickled(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _unpickled(part) for key, part in value.items()}
    if isinstance(value, list):
        _, dtype, items = value
        return np.array(items, dtype)
    return value


def rng_state() -> dict[str, Any]:
    """The state of every generator: Python's, NumPy's legacy global one, torch's on the CPU and on every CUDA device.

    Returns:
        A dictionary for `set_rng_state`, to be pickled or saved; torch.load(weights_only=True) reads it. Where CUDA is
        not initialised yet, it holds torch's seed, from which the GPUs would start.

    Cost: about 0.25 ms, and a synchronisation with each GPU.

    Example:
        >>> import torch, reprocuda
        >>> state = reprocuda.rng_state()
        >>> first = torch.rand(3)
        >>> reprocuda.set_rng_state(state)
        >>> torch.equal(torch.rand(3), first)
        True
    """
    cuda = None
    if _cuda_is_usable() and torch.cuda.is_initialized():
        cuda = [torch.cuda.get_rng_state(device) for device in range(torch.cuda.device_count())]
    return {
        "python": random.getstate(),
        "numpy": _pickled(np.random.get_state(legacy=False)),
        "torch": torch.get_rng_state(),
        "torch_seed": torch.initial_seed(),
        "cuda": cuda,
        "seeded": seeded(),
    }


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Puts every generator back to where it was at `rng_state()`. All of them, or none if one refuses.

    Args:
        state: what `rng_state` returned.

    Raises:
        TypeError: state is no dictionary.
        ValueError: a part is missing, or not a state.

    A `ReproducibilityWarning` says which GPU's state has no GPU here, or which GPU here got none.

    Example:
        >>> import reprocuda
        >>> reprocuda.set_rng_state(reprocuda.rng_state())
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"reprocuda.set_rng_state: state must be what rng_state() returned, got {type(state).__name__}")
    missing = [part for part in _PARTS if part not in state]
    if missing:
        raise ValueError(f"reprocuda.set_rng_state: state has no {missing[0]!r}; it must be what rng_state() returned")
    before = rng_state()
    try:
        _set(state)
    except Exception as error:
        _set(before)
        raise ValueError(f"reprocuda.set_rng_state: state is not what rng_state() returned: {error}") from error


def _set(state: Mapping[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(_unpickled(state["numpy"]))
    torch.set_rng_state(state["torch"].cpu())
    _set_cuda(state["cuda"], state["torch_seed"])
    set_seeded(state["seeded"])


def _set_cuda(states: list[torch.Tensor] | None, seed: int) -> None:
    if states is None:
        if _cuda_is_usable():
            torch.cuda.manual_seed_all(seed)
        return
    here = torch.cuda.device_count() if _cuda_is_usable() else 0
    for device, state in list(enumerate(states))[:here]:
        torch.cuda.set_rng_state(state.cpu(), device)
    if len(states) != here:
        warnings.warn(
            f"the state has the generators of {len(states)} GPUs, and this process has {here}: the others are "
            "neither restored nor seeded",
            ReproducibilityWarning,
            stacklevel=4,
        )


generators = Layers(_set)


class fork_rng(Scope):
    """Puts all generators aside for a block or for each call of a function, and back afterwards, even if it raises.

    Args:
        seed: what they are seeded with inside; None: they go on from where they are.
        shared: inside, they are seeded with what all ranks have in common, the seed given to `seed_everything` without
            its rank: for initial weights. Each block of one process starts from the same numbers.

    Raises:
        TypeError: seed is not an integer.
        ValueError: seed is negative, or given together with shared.

    Cost: that of `rng_state` and `set_rng_state`. Generators are process-wide: what other threads draw meanwhile is
    drawn from the inner state.

    Example:
        >>> import torch, reprocuda
        >>> seeds = reprocuda.seed_everything(11, rank=1)
        >>> with reprocuda.fork_rng(shared=True):
        ...     on_rank_1 = torch.nn.Linear(2, 2).weight
        >>> seeds = reprocuda.seed_everything(11, rank=0)
        >>> torch.equal(torch.nn.Linear(2, 2).weight, on_rank_1)
        True
    """

    def __init__(self, seed: int | None = None, *, shared: bool = False):
        if seed is not None and shared:
            raise ValueError(f"reprocuda.fork_rng: seed={seed!r} and shared=True exclude each other")
        self._seed = None if seed is None else checked_number("fork_rng", "seed", seed)
        self._shared = shared
        self._layers: list[list[Any]] = []

    def __enter__(self) -> fork_rng:
        self._layers.append(generators.open(rng_state()))
        if self._shared or self._seed is not None:
            _apply(_seeds(shared_seed() if self._shared else self._seed, 0))
        return self

    def __exit__(self, *_) -> None:
        generators.close(self._layers.pop())
