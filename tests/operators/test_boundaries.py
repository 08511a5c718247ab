"""Sizes at which another algorithm takes over: nobody may fall between two."""

import pytest
import torch

import reprocuda


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_a_row_that_a_permutation_names_twice_is_added_twice(dtype):
    src = torch.tensor([1, 2, 4]).to(dtype)
    permutation = torch.tensor([0, 0, 2])
    sums = torch.ops.reprocuda.segment_sum(src, permutation, torch.tensor([0, 1, 3]))
    assert sums.tolist() == torch.tensor([1, 5]).to(dtype).tolist()
