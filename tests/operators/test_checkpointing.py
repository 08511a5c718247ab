"""Activation checkpointing: every derivative unpacks each saved tensor once, so torch's recommended form serves."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import reprocuda
from tests.operators.bits import assert_same_bits
from tests.operators.calls import FORWARD, READ
from tests.scatter.calls import NAMES
from tests.scatter.calls import call as call_scatter

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


SPELLED_OUT, LENGTHS = torch.tensor([0, 1, 0])[:, None].expand(3, 2), torch.tensor([2, 1])


def calls():
    for name, call in FORWARD.items():
        yield name, lambda x, src, call=call: call(reprocuda, x, src)
    for name, call in READ.items():
        yield name, lambda x, src, call=call: call(reprocuda, x)
    for name in NAMES:
        yield f"scatter.{name}", lambda x, src, name=name: call_scatter(name, src[:, 0])
    for how in ("sum", "mean", "prod", "amax", "amin"):
        yield f"scatter_reduce {how}", lambda x, src, how=how: reprocuda.scatter_reduce(x, 0, SPELLED_OUT, src, how)
    for how in ("sum", "mean", "prod", "max", "min"):
        yield f"segment_reduce {how}", lambda x, src, how=how: reprocuda.segment_reduce(src, how, lengths=LENGTHS)


CALLS = dict(calls())
COUNTING = {"bincount", "histc", "histogram", "histogramdd"}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_are_those_without_it(name):
    x = torch.tensor([[1.0, 0.5], [1, 2], [3, 1]], requires_grad=True)
    src = torch.tensor([[1.0, 4], [2, 1], [1, 3]], requires_grad=True)
    if name == "bincount":
        x = torch.tensor([[1, 0], [1, 1], [0, 1]])
    results = CALLS[name](x, src), checkpoint(CALLS[name], x, src, use_reentrant=False)
    assert_same_bits(*(result.detach() for result in results))
    if name not in COUNTING:
        seed = torch.arange(1.0, results[0].numel() + 1).view(results[0].shape)
        plain, again = (torch.autograd.grad(result, (x, src), seed, allow_unused=True) for result in results)
        assert [grad is None for grad in plain] == [grad is None for grad in again]
        for one, other in zip(plain, again, strict=True):
            if one is not None:
                assert_same_bits(one.to_dense(), other.to_dense())
