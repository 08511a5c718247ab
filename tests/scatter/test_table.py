"""The table says of each of torch_scatter's functions which dtypes it takes."""


import pytest
import torch

import reprocuda
from reprocuda.dispatch.registry import EVERY
from tests.scatter.calls import INDEX, NAMES, POINTERS, call, package


def test_every_function_is_in_it():
    assert {f"scatter.{name}" for name in NAMES} == {n for n in reprocuda.registry if n.startswith("scatter.")}


@pytest.mark.parametrize("name", NAMES)
def test_dtypes(name):
    operator = reprocuda.registry[f"scatter.{name}"]
    takes = []
    for dtype in EVERY:
        src = torch.tensor([1, 0, 1]).to(getattr(torch, dtype))
        try:
            result = call(name, src)
            if operator.part == "backward":
                result = gradient(name, src)
        except (RuntimeError, ValueError):
            continue
        assert result.dtype == src.dtype
        takes.append(dtype)
    assert tuple(takes) == operator.dtypes


def gradient(name: str, src: torch.Tensor) -> torch.Tensor:
    """Of what is read through an index of several dimensions."""
    index = POINTERS if name.endswith("csr") else INDEX
    src = torch.stack([src, src]).requires_grad_()
    read = getattr(package, name)(src, torch.stack([index, index]))
    return torch.autograd.grad(read, src, torch.ones_like(read))[0][0]
