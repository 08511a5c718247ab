"""Indices looked at before a kernel sees them: where a user asked for it, and where torch would write first."""

import warnings

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import reprocuda
from reprocuda.arguments import checks
from reprocuda.families import extrema, points, routes
from reprocuda.functional import overwrites
from tests.operators.bits import assert_same_bits
from tests.operators.calls import FORWARD, SPELLED_OUT

INDEX, OFFSETS = torch.tensor([0, 1]), torch.tensor([0, 1])


@pytest.fixture
def seen(monkeypatch):
    """The names of the operators whose indices would be looked at on CUDA."""
    names = []
    for module in (extrema, overwrites, points, routes):
        monkeypatch.setattr(module, "check_on_device", lambda op, *_: names.append(op))
    with reprocuda.check_indices():
        yield names


def test_the_check_raises_before_the_kernel(monkeypatch):
    """On CUDA a bad index ends the process; with the check on it is an IndexError. Tried here on CPU tensors."""
    with pytest.raises(IndexError, match=r"index 3 is out of bounds for size 3, at position 1"):
        checks.raise_if_out_of_range("index_add", torch.tensor([0, 3]), 0, 3)
    seen = []
    monkeypatch.setattr(routes, "check_on_device", lambda op, index, lower, upper: seen.append((op, lower, upper)))
    arguments = torch.zeros(3), 0, torch.tensor([0]), torch.ones(1)
    with reprocuda.check_indices():
        reprocuda.index_add(*arguments)
        reprocuda.scatter_add(*arguments)
        with reprocuda.check_indices(False):
            reprocuda.index_add(*arguments)
    reprocuda.index_add(*arguments)
    assert seen == [("index_add", 0, 3), ("scatter_add", 0, 3)]


CALLS = {
    **{name: FORWARD[name] for name in ("index_add", "scatter_add", "index_put", "scatter", "index_copy")},
    **{name: FORWARD[name] for name in ("index_fill", "scatter_reduce", "index_reduce")},
    "scatter_reduce_": lambda ns, x, src: ns.scatter_reduce_(x, 0, SPELLED_OUT, src, "prod"),
    "index_reduce_": lambda ns, x, src: ns.index_reduce_(x, 0, torch.tensor([0, 1, 0]), src, "mean"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("differentiates", [False, True])
def test_the_name_of_the_operator(name, differentiates, seen):
    x, src = torch.ones(3, 2), torch.ones(3, 2, requires_grad=differentiates)
    CALLS[name](reprocuda, x, src)
    assert set(seen) == {name.rstrip("_")}


def test_the_name_where_scatter_multiplies(seen):
    reprocuda.scatter(torch.ones(2), 0, INDEX, torch.ones(2), reduce="multiply")
    reprocuda.scatter.scatter_mean(torch.ones(2), INDEX, out=torch.ones(2))
    assert set(seen) == {"scatter_reduce"}


LOOKS = {
    "embedding": lambda table, index: reprocuda.embedding(index, table, max_norm=0.5),
    "embedding_bag": lambda table, index: reprocuda.embedding_bag(index, table, OFFSETS, max_norm=0.5, mode="sum"),
    "index_fill_": lambda table, index: reprocuda.index_fill_(table.clone(), 0, index, 1.0),
}


@pytest.mark.parametrize("name", LOOKS)
def test_no_look_at_an_index_while_a_tracer_records(name):
    call, table = LOOKS[name], torch.ones(4, 2)
    wanted = call(table.clone(), INDEX)
    recorded = make_fx(call)(table.clone(), INDEX)
    assert_same_bits(recorded(table.clone(), INDEX), wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        traced = torch.jit.trace(call, (table.clone(), INDEX))
    assert_same_bits(traced(table.clone(), INDEX), wanted)


def test_no_row_of_a_bag_is_scaled_where_another_is_out_of_range():
    table = torch.ones(3, 2)
    message = r"embedding_bag\(\): index 7 is out of bounds for a table of 3 rows, at position 1"
    with pytest.raises(RuntimeError, match=message):
        reprocuda.embedding_bag(torch.tensor([[0, 7]]), table, max_norm=0.5)
    assert table.eq(1).all()


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("value", [9.0, torch.tensor(9)])
def test_a_bad_index_of_a_number_to_fill(dim, value):
    target = torch.tensor(3.0)
    with pytest.raises(IndexError, match=r"index_fill_\(\): index 5 is out of bounds for size 1, at position 1"):
        reprocuda.index_fill_(target, dim, torch.tensor([0, 5]), value)
    assert target == 3
    assert reprocuda.index_fill_(target, dim, torch.tensor([0, -1]), value) == 9
