"""torch_scatter's functions refuse what they cannot take, by the name that was called."""

import importlib
import re

import pytest
import torch

from reprocuda.scatter import (
    gather_coo,
    gather_csr,
    scatter,
    scatter_max,
    scatter_mean,
    scatter_min,
    scatter_softmax,
    scatter_std,
    scatter_sum,
    segment_add_csr,
    segment_coo,
    segment_csr,
    segment_max_csr,
    segment_mean_coo,
    segment_mean_csr,
    segment_sum_csr,
)

PACKAGE = importlib.import_module("reprocuda.scatter")
SRC, INDEX, FALLING = torch.ones(4, 3), torch.tensor([0, 0, 1, 2]), torch.tensor([0, 3, 2, 4])
BY_INDEX = [function for function in PACKAGE.FUNCTIONS if not function.__name__.endswith("csr")]


@pytest.mark.parametrize("function", BY_INDEX, ids=lambda function: function.__name__)
def test_an_index_out_of_range(function):
    """By the name of the function that was called, at the place in the index as it was given, in either direction."""
    along = {} if function.__name__.startswith(("segment", "gather")) else {"dim": 0}
    for wrong in (2, -1):
        index = INDEX.clone()
        index[3] = wrong
        size = {} if function is gather_coo else {"dim_size": 2}
        wide = index[:, None].repeat(1, 3)
        wide[:, 0] = 0
        given = [(SRC, index, 3)]
        if "dim" in along:
            given.append((SRC, wide, 10))
        if function is gather_coo:
            given = [(SRC[:2], index, 3), (SRC[:2, :2].T, index.repeat(2, 1), 3)]
        for src, bad, position in given:
            dim = bad.dim() - 1 if not along else 0
            message = f"{function.__name__}(): index {wrong} is out of bounds for dimension {dim} with size 2"
            with pytest.raises((IndexError, RuntimeError), match=re.escape(message) + f", at position {position}$"):
                function(src, bad, **along, **size)


def test_pointers_of_no_columns():
    assert gather_csr(torch.zeros(2, 0), torch.tensor([0, 2, 4])).shape == (4, 0)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: scatter_sum(SRC, INDEX, 2), IndexError, r"scatter_sum\(\): dim must be in \[-2, 1\], got 2"),
        (lambda: scatter_max(SRC, INDEX, 1), RuntimeError, r"scatter_max\(\): an index of shape \[4\].*\[4, 3\]"),
        (lambda: scatter_sum(SRC, INDEX.float(), 0), RuntimeError, "index must be int32 or int64, got torch.float32"),
        (lambda: scatter_sum(torch.tensor(1.0), INDEX), RuntimeError, "src must have at least one dimension"),
        (lambda: scatter_sum(SRC, INDEX, 0, dim_size=-1), RuntimeError, "dim_size must not be negative, got -1"),
        (lambda: scatter_max(SRC, INDEX, 0, dim_size=2), IndexError, r"scatter_max\(\): index 2 is out of bounds"),
        (lambda: scatter_min(SRC, INDEX - 1, 0, dim_size=2), IndexError, r"scatter_min\(\): index -1 is out of bounds"),
        (lambda: scatter_max(SRC.cfloat(), INDEX, 0), RuntimeError, "complex numbers have no order"),
        (lambda: scatter_mean(SRC, INDEX, 0, torch.ones(3, 4)), RuntimeError, r"\[any size, 3\], got \[3, 4\]"),
        (lambda: scatter_max(SRC, INDEX, 0, torch.ones(3, 3).double()), RuntimeError, "out must have the dtype"),
        (lambda: scatter(SRC, INDEX, 0, reduce="median"), ValueError, "sum, add, mul, mean, min, max, got 'median'"),
        (lambda: segment_coo(SRC, INDEX, reduce="mul"), ValueError, "must be one of sum, add, mean, min, max"),
        (lambda: segment_csr(SRC, INDEX, reduce="mul"), ValueError, "must be one of sum, add, mean, min, max"),
        (lambda: segment_sum_csr(SRC, FALLING), ValueError, r"segment_sum_csr\(\): indptr must .* \[0, 4\].*fall"),
        (lambda: segment_add_csr(SRC, FALLING), ValueError, r"segment_add_csr\(\): indptr must rise"),
        (lambda: segment_mean_csr(SRC, FALLING), ValueError, r"segment_mean_csr\(\): indptr must rise"),
        (lambda: gather_csr(SRC, FALLING.repeat(2)[:5]), ValueError, r"gather_csr\(\): indptr must .* \[0, 0\]"),
        (lambda: gather_csr(SRC[:2], torch.tensor([0, 4, 2])), ValueError, r"gather_csr\(\): indptr must rise within"),
        (lambda: gather_csr(SRC[:2], torch.tensor([-1, 2, 4])), ValueError, "pointers between -1 and 4"),
        (lambda: gather_csr(SRC[:2], torch.tensor([0, 2, -4])), ValueError, r"within \[0, 0\]"),
        (lambda: gather_csr(SRC[:2], torch.tensor([0, 2, 4]), torch.ones(3, 3)), ValueError, r"within \[0, 3\]"),
        (lambda: segment_mean_coo(SRC, INDEX.float()), RuntimeError, r"segment_mean_coo\(\): index must be int32"),
        (lambda: segment_max_csr(SRC, torch.tensor([0, 3, 2, 4])), ValueError, r"indptr must rise within \[0, 4\]"),
        (lambda: segment_max_csr(SRC, torch.tensor([0, 5])), ValueError, r"indptr must rise within \[0, 4\]"),
        (lambda: segment_csr(SRC, torch.ones(2, 3, dtype=torch.long)), RuntimeError, "size 2 in dimension 0"),
        (lambda: gather_coo(SRC, torch.ones(2, 3, dtype=torch.long)), RuntimeError, "size 2 in dimension 0"),
        (lambda: gather_csr(SRC, torch.tensor([0, 2])), RuntimeError, "but there are 1 segments"),
        (lambda: scatter_softmax(SRC.long(), INDEX, 0), ValueError, "src must be floating-point, got torch.int64"),
        (lambda: scatter_std(SRC.long(), INDEX, 0), RuntimeError, "src must be floating-point, got torch.int64"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
