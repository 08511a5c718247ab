"""The table of operators says of each which dtypes it takes; torch, asked the same, must agree."""

import pytest
import torch

import reprocuda
from reprocuda.dispatch.registry import EVERY
from tests.operators.calls import FORWARD, READ, outcome
from tests.operators.table import TORCH

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def plain(tensor):
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def test_every_operator_is_tried():
    rest = {name for name in reprocuda.registry if name.startswith("scatter.")}  # tests/scatter/test_table.py
    assert {*FORWARD, *READ} == {*reprocuda.registry} - rest


# What a function hands on to torch, as its row says in words.
HANDED_ON = {"logcumsumexp": ("complex64", "complex128")}


@pytest.mark.parametrize("name", [*FORWARD, *READ])
def test_dtypes(name):
    call = FORWARD.get(name) or READ[name]
    takes = []
    for dtype in EVERY:
        ours = outcome(call, reprocuda, getattr(torch, dtype))
        torchs = outcome(call, TORCH, getattr(torch, dtype))
        if isinstance(ours, type):
            assert ours is torchs, (dtype, "torch takes it, or refuses it in another class")
            continue
        if dtype not in HANDED_ON.get(name, ()):
            takes.append(dtype)
        if not isinstance(torchs, type):  # torch has no kernel for some that ours takes
            assert torch.equal(plain(ours), plain(torchs)), dtype
    assert tuple(takes) == reprocuda.registry[name].dtypes
