"""Cells of products, means and extrema, which vectors fill and round: against fractions, on every way."""

from __future__ import annotations

import pytest
import torch

import reprocuda
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, assert_same_bits, threads, to_numpy_bits
from tests.operators.forcing import forced

REDUCTIONS = ("sum", "mean", "prod", "amax", "amin")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("targets", [37, 400])
def test_cells_side_by_side(targets, reduce, dtype):
    """Targets that are no whole vectors, some of which nothing aims at; elements likewise."""
    generator = torch.Generator().manual_seed(targets)
    rows = 1013
    for kind in (*KINDS, "far"):
        if kind == "far":  # partial products leave the range of the cells, and come back
            source = torch.where(torch.arange(rows) < rows // 2, 2.0**100, 2.0**-100).double()
            source = (source * make("beside one", (rows,), torch.float64, generator)).to(DTYPES[dtype])
        else:
            source = make(kind, (rows,), DTYPES[dtype], generator)
        index = torch.randint(targets - 5, (rows,), generator=generator)
        before = make("special", (targets,), DTYPES[dtype], generator)
        for include_self in (True, False):
            wanted = to_numpy_bits(before).copy()
            for target in index.unique().tolist():
                own = before[target : target + 1] if include_self else before[:0]
                values = torch.cat([source[index == target], own]).double().tolist()
                wanted[target] = oracle.exact_reduction(values, reduce, dtype)
            for algorithm in ("auto", "bins", "partition", "rows"):
                with forced(algorithm):
                    got = reprocuda.scatter_reduce(before, 0, index, source, reduce, include_self=include_self)
                assert (to_numpy_bits(got) == wanted).all(), (kind, include_self, algorithm)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("targets", [1000, 100_000])
def test_products_of_threads_and_orders(targets, dtype):
    generator = torch.Generator().manual_seed(targets)
    source = (torch.rand(150_000, generator=generator) - 0.5).to(DTYPES[dtype]) * 4
    index = torch.randint(targets, (150_000,), generator=generator)
    before = torch.ones(targets, dtype=DTYPES[dtype])
    with threads(1):
        want = reprocuda.scatter_reduce(before, 0, index, source, "prod")
    for count in (2, 7):
        order = torch.randperm(150_000, generator=generator)
        with threads(count):
            assert_same_bits(reprocuda.scatter_reduce(before, 0, index[order], source[order], "prod"), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_what_no_worker_has_an_element_for_stands(reduce, dtype):
    """Several workers have cells of their own for the same targets, most of which nothing is aimed at."""
    generator = torch.Generator().manual_seed(3)
    rows, targets = 70_000, 5000
    index = torch.randint(targets // 9, (rows,), generator=generator) * 9
    before = make("special", (targets,), DTYPES[dtype], generator)
    source = (1 + torch.rand(rows, generator=generator) / 64).to(DTYPES[dtype])
    wanted = oracle.exact_segment_reductions(
        to_numpy_bits(source), index, targets, dtype, reduce, initial=to_numpy_bits(before), include_self=False
    )
    for algorithm in ("auto", "bins", "partition"):
        for count in (1, 2, 7):
            with forced(algorithm), threads(count):
                got = reprocuda.scatter_reduce(before, 0, index, source, reduce, include_self=False)
            assert (to_numpy_bits(got) == wanted).all(), (algorithm, count)
