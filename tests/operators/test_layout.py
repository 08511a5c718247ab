"""A result lies in memory as torch's does: in the order of the target's dimensions where torch copies that."""

import pytest
import torch

import reprocuda
from tests.operators.table import TORCH

LAYOUTS = {
    "contiguous": lambda: torch.rand(2, 3, 4),
    "permuted": lambda: torch.rand(3, 4, 2).permute(2, 0, 1),
    "reversed": lambda: torch.rand(4, 3, 2).permute(2, 1, 0),
    "part": lambda: torch.rand(4, 6, 4).permute(2, 1, 0)[:2, ::2],
    "repeated": lambda: torch.rand(3, 4).expand(2, 3, 4),
}
INDEX = torch.tensor([0, 1])
CALLS = {
    "index_put": lambda ns, x: ns.index_put(x, (INDEX,), torch.tensor(2.0)),
    "index_put adding": lambda ns, x: ns.index_put(x, (INDEX, INDEX), torch.tensor(2.0), True),
    "put": lambda ns, x: ns.put(x, INDEX, torch.ones(2)),
    "put adding": lambda ns, x: ns.put(x, INDEX, torch.ones(2), True),
    "index_fill": lambda ns, x: ns.index_fill(x, 1, INDEX, torch.tensor(2.0)),
    "index_fill with a number": lambda ns, x: ns.index_fill(x, 1, INDEX, 2.0),
    "take": lambda ns, x: ns.take(x, INDEX.repeat(3, 1).t()),
    "index_add": lambda ns, x: ns.index_add(x, 1, INDEX, torch.ones(2, 2, 4)),
    "index_copy": lambda ns, x: ns.index_copy(x, 1, INDEX, torch.ones(2, 2, 4)),
    "scatter_add": lambda ns, x: ns.scatter_add(x, 1, INDEX.reshape(1, 2, 1), torch.ones(1, 2, 1)),
    "scatter_reduce": lambda ns, x: ns.scatter_reduce(x, 1, INDEX.reshape(1, 2, 1), torch.ones(1, 2, 1), "mean"),
    "cumsum": lambda ns, x: ns.cumsum(x, 1),
    "gather": lambda ns, x: ns.gather(x, 1, INDEX.reshape(1, 2, 1)),
}


@pytest.mark.parametrize("differentiated", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_strides_are_torchs(name, layout, differentiated):
    x = LAYOUTS[layout]().requires_grad_(differentiated)
    ours, torchs = CALLS[name](reprocuda, x), CALLS[name](TORCH, x)
    assert ours.stride() == torchs.stride() and torch.equal(ours, torchs)
    if differentiated:
        assert torch.equal(torch.autograd.grad(ours.sum(), x)[0], torch.autograd.grad(torchs.sum(), x)[0])


def test_softmax_keeps_the_layout_of_its_source():
    src = torch.rand(3, 4).t()
    for dtype in (torch.float32, torch.bfloat16):
        for function in (reprocuda.scatter.scatter_softmax, reprocuda.scatter.scatter_log_softmax):
            assert function(src.to(dtype), torch.tensor([0, 0, 1, 1]), 0).stride() == src.stride()
