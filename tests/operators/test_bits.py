"""One right answer: the same bits for any order of the contributions, number of threads and algorithm."""

import re

import pytest
import torch

import reprocuda
from tests.operators.bits import assert_same_bits, threads
from tests.operators.forcing import ALGORITHMS, STAGES, forced
from tests.operators.table import CASES, each_with

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64]
PERMUTATIONS = 20
SHUFFLED = [case for case in CASES if case.rows]


def prepared(case, num_rows, dtype):
    return case.with_grad(case.inputs(num_rows, dtype), dtype)


@each_with(SHUFFLED, DTYPES)
def test_order_does_not_matter(case, dtype):
    inputs = prepared(case, 997, dtype)
    want = case.sum(reprocuda, inputs)
    for seed in range(PERMUTATIONS):
        permutation = torch.randperm(997, generator=torch.Generator().manual_seed(seed))
        assert_same_bits(case.sum(reprocuda, case.shuffled(inputs, permutation)), want, f"{case.name} order {seed}")


def test_plain_summation_fails_the_order_test():
    """The shuffled inputs are hard enough to tell: torch's own sums change with the order."""
    case = next(case for case in CASES if case.name == "index_add")
    inputs = prepared(case, 997, torch.float32)
    native = torch.index_add(inputs["x"], 0, inputs["i"], inputs["s"])
    shuffled = case.shuffled(inputs, torch.randperm(997))
    assert not torch.equal(native, torch.index_add(shuffled["x"], 0, shuffled["i"], shuffled["s"]))


@each_with(CASES, [torch.float32, torch.float64, torch.bfloat16])
def test_number_of_threads_does_not_matter(case, dtype):
    inputs = prepared(case, 40_000, dtype)
    with threads(1):
        want = case.sum(reprocuda, inputs)
    for count in (2, 5, 16):
        with threads(count):
            assert_same_bits(case.sum(reprocuda, inputs), want, f"{case.name} {count} threads")


@each_with(CASES, DTYPES)
def test_algorithm_does_not_matter(case, dtype):
    inputs = prepared(case, 700, dtype)
    want = case.sum(reprocuda, inputs)
    served = []
    for algorithm in ALGORITHMS:
        for stage in STAGES:
            with forced(algorithm, stage):
                try:
                    got = case.sum(reprocuda, inputs)
                except RuntimeError as refused:
                    assert algorithm != "auto" and re.search("algorithm|bins", str(refused)), refused
                    continue
            assert_same_bits(got, want, f"{case.name} by {algorithm} from {stage}")
            served.append((algorithm, stage))
    assert {(algorithm, stage) for algorithm in ("auto", "rows", "bins") for stage in STAGES} <= set(served), served


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(RuntimeError, match="no algorithm is called"):
        torch.ops.reprocuda._set_forced_algorithm("atomic")


@pytest.mark.parametrize("split", [1, 2, 7])
def test_in_place_and_out_forms_are_the_same_sum(split):
    x, index, source = torch.randn(50, 3), torch.randint(50, (500,)), torch.randn(500, 3)
    elements = index[:, None].expand(-1, 3)
    for got, want in (
        (reprocuda.index_add_(x.clone(), 0, index, source), reprocuda.index_add(x, 0, index, source)),
        (reprocuda.scatter_add_(x.clone(), 0, elements, source), reprocuda.index_add(x, 0, index, source)),
        (reprocuda.index_put_(x.clone(), (index,), source, True), reprocuda.index_add(x, 0, index, source)),
        (reprocuda.index_add(x, 0, index, source, out=torch.empty(50, 3)), reprocuda.index_add(x, 0, index, source)),
        (reprocuda.scatter_add(x, 0, elements, source, out=torch.empty(0)), reprocuda.index_add(x, 0, index, source)),
        (
            reprocuda.index_add(x.repeat(1, split), 0, index, source.repeat(1, split))[:, :3],
            reprocuda.index_add(x, 0, index, source),
        ),
    ):
        assert_same_bits(got, want)
