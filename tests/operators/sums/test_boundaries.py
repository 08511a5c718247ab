"""Sizes at which another algorithm takes over, and the sizes beside them."""

import numpy as np
import pytest
import torch

import reprocuda
from tests import oracle
from tests.operators.bits import DTYPES, threads, to_numpy_bits
from tests.operators.forcing import STAGES, forced


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("columns", [180, 181, 182, 200, 255, 256, 257])
@pytest.mark.parametrize("rows", [100, 300])
def test_element_wise_index_into_nearly_too_many_outputs(dtype, columns, rows):
    """Squares of `columns` lie on both sides of 2**15 and 2**16 outputs."""
    index = torch.randint(columns, (rows, columns))
    src = torch.randint(-8, 8, (rows, columns)).to(dtype)
    target = torch.randint(-8, 8, (columns, columns)).to(dtype)
    expected = torch.zeros(columns, columns, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    expected = (expected + target).scatter_add(0, index, src.to(expected.dtype)).to(dtype)
    assert torch.equal(reprocuda.scatter_add(target, 0, index, src), expected)


@pytest.mark.parametrize("targets", [2**13 - 1, 2**13, 2**16 - 1, 2**16, 2**16 + 1, 2**17])
@pytest.mark.parametrize("inner", [1, 2, 3])
@pytest.mark.parametrize("rows", [2**10, 2**15])
def test_rows_into_nearly_too_many_outputs(targets, inner, rows):
    index = torch.randint(targets, (rows,))
    source = torch.randint(-8, 8, (rows, inner)).float()
    target = torch.randint(-8, 8, (targets, inner)).float()
    assert torch.equal(reprocuda.index_add(target, 0, index, source), target.index_add(0, index, source))


def spread(shape, dtype):
    """Numbers far enough apart that a plain sum of two loses something."""
    return (torch.randn(shape, dtype=torch.float64) * 2.0 ** torch.randint(-9, 9, shape)).to(DTYPES[dtype])


@pytest.mark.parametrize("rows, targets", [(1, 1), (1, 8), (1, 9), (2, 10), (2, 11), (6, 6), (6, 7), (12, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_many_short_slices(dtype, rows, targets):
    """Below some size a slice, or a row of an element-wise index, is not summed on its own any more."""
    slices = 700
    x, source, index = spread((slices, targets), dtype), spread((slices, rows), dtype), torch.randint(targets, (rows,))
    elements = torch.randint(targets, (slices, rows))
    first = torch.arange(slices).unsqueeze(1) * targets

    def exact(keys, weights=None):
        arrays = to_numpy_bits(source).reshape(-1), keys.reshape(-1).numpy()
        initial = to_numpy_bits(x).reshape(-1)
        return oracle.exact_segment_sums(*arrays, slices * targets, dtype, weights=weights, initial=initial)

    wanted = exact(first + index), exact(first + index, weights=-3.0), exact(first + elements)
    for stage in STAGES:
        for count in (1, 2):
            with forced(stage=stage), threads(count):
                got = (
                    reprocuda.index_add(x, 1, index, source),
                    reprocuda.index_add(x, 1, index, source, alpha=-3),
                    reprocuda.scatter_add(x, 1, elements, source),
                )
            for result, want in zip(got, wanted, strict=True):
                assert np.array_equal(to_numpy_bits(result).reshape(-1), want), (stage, count)


@pytest.mark.parametrize("alpha", [1, 2, 1 - 2j])
def test_many_short_slices_of_complex_numbers(alpha):
    x, source = torch.randn(900, 3, dtype=torch.cfloat), torch.randn(900, 4, dtype=torch.cfloat)
    index = torch.tensor([2, 0, 2, 2])
    with forced("rows"):
        want = reprocuda.index_add(x, 1, index, source, alpha=alpha)
    assert torch.equal(reprocuda.index_add(x, 1, index, source, alpha=alpha), want)


def test_many_short_slices_report_a_bad_index_before_they_write():
    x = torch.zeros(900, 3)
    with pytest.raises(RuntimeError, match="index 3 is out of bounds for dimension 1 with size 3, at position 2"):
        reprocuda.index_add_(x, 1, torch.tensor([0, 1, 3, 7]), torch.ones(900, 4))
    assert not x.any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("first, span", [(0, 1), (70_000, 3), (131_071, 1), (5, 131_067)])
def test_a_sorted_index_that_names_a_few_of_many_targets(dtype, first, span):
    targets, rows = 2**17, 2**17 + 5
    index = torch.randint(first, first + span, (rows,)).sort().values
    x, source = spread((targets,), dtype), spread((rows,), dtype)
    want = oracle.exact_segment_sums(to_numpy_bits(source), index.numpy(), targets, dtype, initial=to_numpy_bits(x))
    assert np.array_equal(to_numpy_bits(reprocuda.index_add(x, 0, index, source)), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_a_row_that_a_permutation_names_twice_is_added_twice(dtype):
    src = torch.tensor([1, 2, 4]).to(dtype)
    permutation = torch.tensor([0, 0, 2])
    sums = torch.ops.reprocuda.segment_sum(src, permutation, torch.tensor([0, 1, 3]))
    assert sums.tolist() == torch.tensor([1, 5]).to(dtype).tolist()
