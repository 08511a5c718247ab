"""Sums of float64 into few targets: the same bits whether their numbers fit one window of integers or not."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

import reprocuda
from tests.operators.forcing import forced

WAYS = [("auto", "filter"), ("bins", "filter"), ("rows", "filter"), ("bins", "superaccumulators")]


def draw(kind: str, count: int, generator: torch.Generator) -> torch.Tensor:
    x = torch.randn(count, dtype=torch.float64, generator=generator)
    exponents = torch.randint(-60, 60, (count,), generator=generator)
    if kind == "wide":  # fits no window
        return torch.ldexp(x, exponents)
    if kind == "edge":  # the lowest bits lie where windows end
        return torch.where(x > 1, torch.ldexp(x, torch.randint(-36, -26, (count,), generator=generator)), x)
    if kind == "few bits":  # ties and exact zeros
        return torch.round(x * 4) / 4 + 0.0
    if kind == "one sign":  # sums far above their terms
        return x.abs() + 1
    if kind == "tiny":
        return x * 2.0**-1040
    if kind == "huge":
        return x * 2.0**960
    if kind == "negative zeros":
        return torch.where(x.abs() < 1, -0.0, x)
    return x


def exact(start: float, terms: list[float]) -> float:
    total = sum((Fraction(term) for term in terms), Fraction(start))
    if total:
        return float(total)
    return -0.0 if all(math.copysign(1, term) < 0 and term == 0 for term in [start, *terms]) else 0.0


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.view(torch.int64).tolist()


KINDS = ["plain", "wide", "edge", "few bits", "one sign", "tiny", "huge", "negative zeros"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows, targets", [(1, 1), (7, 3), (4000, 1), (3000, 61), (2500, 2500)])
def test_every_way_rounds_the_exact_sum_once(kind, rows, targets):
    generator = torch.Generator().manual_seed(rows + targets)
    values = draw(kind, rows, generator)
    index = torch.randint(targets, (rows,), generator=generator)
    start = draw(kind, targets, generator)
    wanted = [exact(start[t].item(), values[index == t].tolist()) for t in range(min(targets, 61))]
    for algorithm, stage in WAYS:
        for dtype in (torch.int64, torch.int32):
            with forced(algorithm, stage):
                found = reprocuda.index_add(start, 0, index.to(dtype), values)
            assert bits(found[: len(wanted)]) == bits(torch.tensor(wanted, dtype=torch.float64)), (algorithm, stage)


@pytest.mark.parametrize("kind", ["plain", "edge", "one sign", "wide"])
def test_neither_order_nor_threads_matter(kind):
    generator = torch.Generator().manual_seed(5)
    values = draw(kind, 200_000, generator)
    index = torch.randint(1000, (200_000,), generator=generator)
    start = torch.zeros(1000, dtype=torch.float64)
    threads = torch.get_num_threads()
    results = set()
    try:
        for count in (1, 2, 7):
            torch.set_num_threads(count)
            order = torch.randperm(200_000, generator=generator)
            results.add(tuple(bits(reprocuda.index_add(start, 0, index[order], values[order]))))
    finally:
        torch.set_num_threads(threads)
    with forced("bins", "superaccumulators"):
        results.add(tuple(bits(reprocuda.index_add(start, 0, index, values))))
    assert len(results) == 1


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan, 1e300, 5e-324])
@pytest.mark.parametrize("where", [0, 1234, 39_999])
def test_one_number_that_does_not_fit(special, where):
    generator = torch.Generator().manual_seed(where)
    values = torch.randn(40_000, dtype=torch.float64, generator=generator)
    values[where] = special
    index = torch.randint(50, (40_000,), generator=generator)
    start = torch.ones(50, dtype=torch.float64)
    with forced("rows"):
        wanted = bits(reprocuda.index_add(start, 0, index, values))
    assert bits(reprocuda.index_add(start, 0, index, values)) == wanted
    start[7] = special
    with forced("rows"):
        wanted = bits(reprocuda.index_add(start, 0, index, values))
    assert bits(reprocuda.index_add(start, 0, index, values)) == wanted


def test_untouched_targets_keep_what_they_hold():
    start = torch.tensor([-0.0, math.nan, 3.0, 0.0, -math.inf, 0.1], dtype=torch.float64)
    start.view(torch.int64)[1] += 5  # the payload
    found = reprocuda.index_add(start, 0, torch.tensor([2, 2]), torch.tensor([1.0, 2.0], dtype=torch.float64))
    wanted = start.clone()
    wanted[2] = 6.0
    assert bits(found) == bits(wanted)
    finite = start[[2, 3, 5]]
    found = reprocuda.index_add(finite, 0, torch.tensor([0, 0]), torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert found.tolist() == [6.0, 0.0, 0.1]


def test_an_ignored_target_gets_nothing():
    index = torch.tensor([0, 1, 2, 1, 1] * 9000)
    grad = torch.full((45_000, 1), 0.5, dtype=torch.float64)
    found = torch.ops.reprocuda.embedding_dense_backward(grad, index, 4, 1, False)
    assert found.flatten().tolist() == [4500.0, 0.0, 4500.0, 0.0]


def test_an_index_out_of_range_is_named_and_nothing_is_written():
    index = torch.randint(10, (50_000,))
    index[31_234] = 10
    out = torch.ones(10, dtype=torch.float64)
    with pytest.raises(IndexError, match="10"):
        reprocuda.index_add_(out, 0, index, torch.ones(50_000, dtype=torch.float64))
    assert out.tolist() == [1.0] * 10
