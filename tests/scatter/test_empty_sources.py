"""Composites of nothing: their shapes, and gradients that are there all the same."""

import pytest
import torch

import reprocuda


def test_composites_without_columns():
    src, index = torch.zeros(1, 0), torch.tensor([0])
    for function in (reprocuda.scatter.scatter_std, reprocuda.scatter.scatter_logsumexp):
        assert function(src, index, 0).shape == (0, 0)
        assert function(src, index, 0, dim_size=4).shape == (4, 0)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
@pytest.mark.parametrize("name", ["sum", "mean", "mul", "std", "softmax", "log_softmax", "logsumexp"])
def test_nothing_has_a_gradient_too(name, shape):
    function = getattr(reprocuda.scatter, f"scatter_{name}")
    src = torch.zeros(shape, requires_grad=True)
    result = function(src, torch.zeros(shape[0], dtype=torch.long), 0, dim_size=4)
    assert result.requires_grad and torch.autograd.grad(result.sum(), src)[0].shape == shape
