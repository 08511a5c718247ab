"""scatter_max and scatter_min on every way that their shape can take, against a plain loop."""

from __future__ import annotations

import math

import pytest
import torch

from reprocuda.scatter import scatter_max, scatter_min
from tests.operators.bits import assert_same_bits, threads

FUNCTIONS = {"max": scatter_max, "min": scatter_min}
# Cells in the results, a set for every worker, and targets shared out among the workers; many rows a target, and few.
SHAPES = [
    (50, 3, 1),
    (70_000, 6, 1),
    (70_000, 9_001, 1),
    (70_000, 150_000, 1),
    (40_000, 70_000, 2),
    (30_000, 50_000, 3),
]
DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
]


def make(dtype: torch.dtype, shape: tuple, generator: torch.Generator) -> torch.Tensor:
    """Numbers that are often equal, with zeros of both signs, infinities and NaN."""
    numbers = torch.randint(-40, 40, shape, generator=generator)
    if not dtype.is_floating_point:
        return (numbers + 40 if dtype == torch.uint8 else numbers).to(dtype)
    values = numbers.to(dtype) / 4
    odd = torch.rand(shape, generator=generator)
    values[(numbers == 0) & (odd < 0.5)] = -0.0
    values[odd > 0.9999] = math.nan
    values[(odd > 0.9990) & (odd < 0.9995)] = math.inf
    values[odd < 0.0005] = -math.inf
    return values


def rank(value: float, largest: bool) -> tuple:
    if value != value:
        return (1, 0, 0)
    sign = math.copysign(1, value) if value == 0 else 0
    return (0, value, sign) if largest else (0, -value, -sign)


def by_loop(src: list, index: list, start: list | None, targets: int, largest: bool) -> tuple[list, list]:
    """For one column."""
    numbers, positions, ranks = list(start or [0] * targets), [len(src)] * targets, [None] * targets
    if start is not None:
        ranks = [rank(number, largest) for number in start]
    for row, (target, number) in enumerate(zip(index, src, strict=True)):
        mine = rank(number, largest)
        if ranks[target] is None or mine > ranks[target]:
            numbers[target], positions[target], ranks[target] = number, row, mine
    return numbers, positions


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows, targets, columns", SHAPES)
def test_every_way_is_that_of_a_plain_loop(rows, targets, columns, dtype, name):
    generator = torch.Generator().manual_seed(rows + targets)
    src = make(dtype, (rows, columns), generator)
    index = torch.randint(targets, (rows,), generator=generator)
    for start in (None, make(dtype, (targets, columns), generator)):
        with threads(1):
            values, positions = FUNCTIONS[name](src, index, 0, None if start is None else start.clone(), targets)
        for column in range(columns):
            own = None if start is None else start[:, column].tolist()
            wanted, where = by_loop(src[:, column].tolist(), index.tolist(), own, targets, name == "max")
            right = torch.tensor(wanted, dtype=dtype)
            if start is not None:  # torch.tensor makes one NaN of all; what stands keeps its own
                right = torch.where(torch.tensor(where) == rows, start[:, column], right)
            assert_same_bits(values[:, column].contiguous(), right)
            assert positions[:, column].tolist() == where
        for count in (2, 7):
            with threads(count):
                again = FUNCTIONS[name](src, index.int(), 0, None if start is None else start.clone(), targets)
            assert_same_bits(again[0], values)
            assert torch.equal(again[1], positions)


def test_out_is_what_competes_and_what_is_written():
    src, index = torch.tensor([1.0, 5.0, 2.0]), torch.tensor([0, 1, 1])
    out = torch.tensor([3.0, 4.0])
    values, positions = scatter_max(src, index, 0, out)
    assert values is out and out.tolist() == [3.0, 5.0] and positions.tolist() == [3, 1]
    leaf = torch.tensor([3.0, 4.0], requires_grad=True)
    values, _ = scatter_max(src, index, 0, leaf * 1)
    values.sum().backward()
    assert leaf.grad.tolist() == [1.0, 0.0]
