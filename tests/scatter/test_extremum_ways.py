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
    (10_000, 2_000, 1),
    (70_000, 9_001, 1),
    (70_000, 3_000, 1),
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


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8], ids=str)
@pytest.mark.parametrize("rows, targets, columns", [*SHAPES, (20_000, 500, 16)])
def test_the_first_index_out_of_range_is_reported_on_every_way(rows, targets, columns, dtype, count):
    generator = torch.Generator().manual_seed(rows + targets)
    src = torch.zeros(rows, columns, dtype=dtype)
    index = torch.randint(targets, (rows,), generator=generator)
    for first, second in ((0, 1), (rows // 3, rows // 3 + 1), (rows // 3, rows - 1), (rows - 2, rows - 1)):
        for wrong in ((targets, -1), (-(2**31), targets), (2**31 - 1, -7)):
            bad = index.clone()
            bad[first], bad[second] = wrong
            message = f"index {wrong[0]} is out of bounds for dimension 0 with size {targets}, at position {first}$"
            with threads(count):
                with pytest.raises(IndexError, match=message):
                    scatter_max(src, bad, 0, dim_size=targets)
                # The operator beneath, which finds the position itself, in the index before it was broadcast.
                beneath = (bad.int() if first else bad)[:, None].expand_as(src)
                with pytest.raises(IndexError, match=message):
                    torch.ops.reprocuda.scatter_extremum(src, 0, beneath, targets, None, False)


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("targets", [40, 9_000])
def test_columns_side_by_side_are_those_alone(targets, count):
    generator = torch.Generator().manual_seed(targets)
    src = make(torch.float32, (3, 20_000), generator)
    index = torch.randint(targets, (3, 20_000), generator=generator)
    with threads(count):
        values, positions = scatter_max(src, index, 1, dim_size=targets)
        for row in range(3):
            wanted, where = by_loop(src[row].tolist(), index[row].tolist(), None, targets, largest=True)
            assert_same_bits(values[row], torch.tensor(wanted))
            assert positions[row].tolist() == where
        index[1, 19_000], index[2, 5] = targets + 3, -1
        with pytest.raises(
            IndexError, match=f"index {targets + 3} is out of bounds for dimension 1 .* at position 39000$"
        ):
            torch.ops.reprocuda.scatter_extremum(src, 1, index, targets, None, True)


def test_without_outputs_no_index_is_in_range():
    with pytest.raises(IndexError, match="index 0 is out of bounds for dimension 0 with size 0"):
        scatter_max(torch.ones(2, 3), torch.zeros(2, dtype=torch.long), 0, dim_size=0)
    values, positions = scatter_max(torch.ones(2, 0), torch.zeros(2, dtype=torch.long), 0, dim_size=4)
    assert values.shape == positions.shape == (4, 0)


def test_out_is_what_competes_and_what_is_written():
    src, index = torch.tensor([1.0, 5.0, 2.0]), torch.tensor([0, 1, 1])
    out = torch.tensor([3.0, 4.0])
    values, positions = scatter_max(src, index, 0, out)
    assert values is out and out.tolist() == [3.0, 5.0] and positions.tolist() == [3, 1]
    leaf = torch.tensor([3.0, 4.0], requires_grad=True)
    values, _ = scatter_max(src, index, 0, leaf * 1)
    values.sum().backward()
    assert leaf.grad.tolist() == [1.0, 0.0]
