"""Times contestants side by side: one call of each in turn, so that a slow moment of the machine meets them all."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Contestant:
    """One way to do the work.

    `call(i)` does it once, on the i-th copy of the buffers, which `prepare(i)` has put back into their first state, so
    that nobody meets what another has left there; `judge()` does it from zero and says what is wrong with the result
    (nothing: an empty string) and which share of the sampled outputs is right.
    """

    name: str
    prepare: Callable[[int], object]
    call: Callable[[int], object]
    judge: Callable[[], tuple[str, float | None]]
    scope: Callable[[], AbstractContextManager] = nullcontext


@dataclass(frozen=True)
class Timing:
    median: float  # milliseconds, as the others
    quartile_low: float
    quartile_high: float
    minimum: float

    @classmethod
    def of(cls, samples: list[float]) -> "Timing":
        quartiles = statistics.quantiles(samples, n=4) if len(samples) > 1 else samples * 3
        return cls(statistics.median(samples), quartiles[0], quartiles[2], min(samples))


def _call_on_cpu(call: Callable[[int], object], copy: int) -> float:
    start = time.perf_counter()
    call(copy)
    return 1e3 * (time.perf_counter() - start)


def _call_on_cuda(call: Callable[[int], object], copy: int) -> float:
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    call(copy)
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop)


def interleave(contestants: list[Contestant], device: str, copies: int, repeats: int) -> dict[str, Timing]:
    """Medians over `repeats` rounds, after one round that warms up; who goes first rotates, and so do the buffers."""
    measure = _call_on_cuda if device == "cuda" else _call_on_cpu
    samples: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for repeat in range(repeats + 1):
        first = repeat % len(contestants)
        for contestant in contestants[first:] + contestants[:first]:
            contestant.prepare(repeat % copies)
            with contestant.scope():
                milliseconds = measure(contestant.call, repeat % copies)
            if repeat > 0:
                samples[contestant.name].append(milliseconds)
    return {name: Timing.of(values) for name, values in samples.items()}
