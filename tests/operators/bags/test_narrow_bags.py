"""Sums over bags of rows narrower than a vector, against fractions; and rows that the table has not.

Bags of every size beside each other, by every instruction set and on several threads.
"""

import re

import pytest
import torch

import reprocuda
from tests.operators.adversarial import KINDS, make
from tests.operators.bags_of_rows import adversarial, fractions
from tests.operators.bits import DTYPES, assert_same_bits, threads
from tests.processes import run_python

SIZES = (0, 0, 1, 2, 3, 7, 8, 9, 10, 15, 16, 17, 24, 33)
LONG = (1100, 2100)  # more than what is multiplied at a time
WIDTHS = (1, 2, 3, 4, 5, 7)
HOWS = ("sum", "mean", "weights", "weighted mean")


def draw(features, kind, dtype, generator, bags=61):
    """table, rows, sizes, weights: of bags that neither groups nor chunks of them divide."""
    if kind == "in threes":
        table = adversarial(300, dtype, generator)[:, :features].contiguous()
    else:
        table = make(kind, (300, features), dtype, generator)
    sizes = torch.tensor(SIZES)[torch.randint(len(SIZES), (bags,), generator=generator)]
    sizes[bags // 3], sizes[-4] = LONG
    first = 3 * torch.randint(100, (bags,), generator=generator)
    within = [torch.arange(size) + start for start, size in zip(first.tolist(), sizes.tolist(), strict=True)]
    rows = torch.cat(within) % 300
    weights = make("beside one" if kind == "in threes" else kind, rows.shape, dtype, generator)
    return table, rows, sizes, weights


def sums(how, table, rows, sizes, weights):
    if how == "weighted mean":
        bounds = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
        shape = len(sizes), table.shape[0]
        matrix = torch.sparse_csr_tensor(bounds, rows, weights, shape, check_invariants=False)  # rows come in any order
        return reprocuda.sparse_mm(matrix, table, "mean")
    offsets = sizes.cumsum(0) - sizes
    factors = weights if how == "weights" else None
    mode = "mean" if how == "mean" else "sum"
    return reprocuda.embedding_bag(rows, table, offsets, mode=mode, per_sample_weights=factors)


def check(features, name, kinds=(*KINDS, "in threes")):
    generator = torch.Generator().manual_seed(features)
    for kind in kinds:
        for how in HOWS:
            table, rows, sizes, weights = draw(features, kind, DTYPES[name], generator)
            factors = weights if how.startswith("weight") else None
            want = fractions(table, rows, sizes, name, mean="mean" in how, weights=factors)
            for count in (1, 2):
                with threads(count):
                    got = sums(how, table, rows, sizes, weights)
                assert_same_bits(got, want, f"{features} {name} {kind} {how}, {count} threads")


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("features", WIDTHS)
def test_every_width_by_fractions(features, name):
    check(features, name)


@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_by_other_instruction_sets(isa):
    program = """
        from tests.operators.bags.test_narrow_bags import check
        for features in (1, 2, 3, 5):
            for name in ("bfloat16", "float32", "float64"):
                check(features, name)
    """
    run_python(program, REPROCUDA_CPU_ISA=isa)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_many_bags_on_several_threads(name):
    generator = torch.Generator().manual_seed(11)
    table = adversarial(3000, DTYPES[name], generator)[:, :1].contiguous()
    sizes = torch.randint(0, 21, (8000,), generator=generator)
    sizes[5000] = LONG[0]
    rows = torch.randint(3000, (int(sizes.sum()),), generator=generator)
    weights = make("beside one", rows.shape, DTYPES[name], generator)
    want = fractions(table, rows, sizes, name, weights=weights)
    for count in (1, 2):
        with threads(count):
            assert_same_bits(sums("weights", table, rows, sizes, weights), want, f"{count} threads")


@pytest.mark.parametrize("features", [1, 3, 16])
@pytest.mark.parametrize("bad", [-1, 500, 2**40, -(2**63)])
def test_the_first_row_that_the_table_has_not_is_named(features, bad):
    generator = torch.Generator().manual_seed(12)
    table = torch.randn(500, features, generator=generator)
    rows = torch.randint(500, (80_000,), generator=generator)
    bounds, ones = torch.arange(0, 80_001, 8), torch.ones(80_000)
    for positions in ((79_999,), (70_001, 41_234), (3,)):
        broken = rows.clone()
        broken[list(positions)] = bad
        matrix = torch.sparse_csr_tensor(bounds, broken, ones, (10_000, 500), check_invariants=False)
        at = min(positions)
        of_bags = f"embedding_bag(): index {bad} is out of bounds for a table of 500 rows, at position {at}"
        of_matrix = f"sparse_mm(): column {bad}, of entry {at}, is out of bounds for a size of 500"
        for count in (1, 2):
            with threads(count):
                with pytest.raises(RuntimeError, match=f"^{re.escape(of_bags)}$"):
                    torch.ops.reprocuda.gather_segment_sum(table, broken, bounds, None, False)
                for reduce in ("sum", "mean"):
                    with pytest.raises(RuntimeError, match=f"^{re.escape(of_matrix)}$"):
                        reprocuda.sparse_mm(matrix, table, reduce)
