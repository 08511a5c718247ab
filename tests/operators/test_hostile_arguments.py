"""Hostile arguments, and ordinary views."""

import time

import numpy
import pytest
import torch

import reprocuda

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")
INDEX = torch.tensor([1, 5, 1])


def add_index_add(target, source):
    return reprocuda.index_add_(target, 0, INDEX, source)


def add_scatter(target, source):
    return reprocuda.scatter_add_(target, 0, INDEX.view(-1, *[1] * (target.dim() - 1)).expand_as(source), source)


def add_index_put(target, source):
    from_the_end = torch.where(INDEX == 1, INDEX - target.shape[0], INDEX)
    return reprocuda.index_put_(target, (from_the_end,), source, accumulate=True)


def add_enabled(target, source):
    with reprocuda.enabled():
        target[INDEX] += 0
        return target.index_add_(0, INDEX, source)


IN_PLACE = (add_index_add, add_scatter, add_index_put, add_enabled)


VIEWS = (lambda t: t[:, :3], lambda t: t[:, ::2], lambda t: t.view(8, -1).t(), lambda t: t[:, 1])


@pytest.mark.parametrize("add", IN_PLACE)
@pytest.mark.parametrize("view", VIEWS)
def test_few_rows_of_a_target_that_is_not_contiguous(add, view):
    table = torch.arange(640.0).view(80, 8)
    target = view(table.clone())
    source = torch.randint(-5, 5, (3, *target.shape[1:])).float()
    expected = target.clone().index_add(0, INDEX, source)
    assert add(target, source) is target
    assert torch.equal(target, expected)


@pytest.mark.parametrize("add", IN_PLACE[:3])
def test_few_rows_of_a_large_view_do_not_cost_the_whole(add):
    target = torch.zeros(4_000_000, 8)[:, :2]
    source = torch.ones(3, 2)
    add(target, source)
    start = time.perf_counter()
    add(target, source)
    took = time.perf_counter() - start
    start = time.perf_counter()
    target.contiguous()
    assert took < time.perf_counter() - start


@pytest.mark.parametrize("add", IN_PLACE[:3])
def test_a_bad_index_into_a_view_writes_nothing(add):
    target = torch.zeros(4, 2)[:, :1]
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        add(target, torch.ones(3, 1))
    assert not target.any()


@pytest.mark.parametrize("view", [torch.conj, torch._neg_view], ids=["conj", "neg"])
def test_in_place_and_out_on_lazily_conjugated_or_negated_views(view):
    values = torch.tensor([1 + 2j, 3 - 1j])
    ours, torchs = view(values.clone()), view(values.clone())
    source = torch.tensor([1 + 1j, 2 - 3j, 4j])
    index = torch.tensor([1, 1, 0])
    assert torch.equal(reprocuda.index_add_(ours, 0, index, source), torchs.index_add_(0, index, source))
    assert torch.equal(reprocuda.scatter_add_(ours, 0, index, source), torchs.scatter_add_(0, index, source))
    out = view(torch.zeros(2, dtype=torch.complex64))
    assert torch.equal(reprocuda.index_add(ours, 0, index, source, out=out), torchs.index_add(0, index, source))


def test_a_refused_overlap_leaves_the_target_as_it_was():
    base = torch.arange(6.0)
    windows = base.unfold(0, 3, 1)
    with pytest.raises(RuntimeError):
        reprocuda.index_add_(windows, 0, torch.tensor([0]), base[:3].view(1, 3))
    assert torch.equal(base, torch.arange(6.0))


@pytest.mark.parametrize("indices", [(torch.empty(0, dtype=torch.long),), (None, torch.empty(0, dtype=torch.long))])
def test_the_gradient_of_values_broadcast_to_nothing(indices):
    values = torch.ones(1, requires_grad=True)
    reprocuda.index_put(torch.zeros(3, 2), indices, values.expand(0, 1)[:, :1].sum().view(1), True).sum().backward()
    assert torch.equal(values.grad, torch.zeros(1))


@pytest.mark.parametrize("index", [torch.tensor([0.9, -0.5]), torch.tensor([True, False])])
def test_gather_takes_integers_only(index):
    with pytest.raises(RuntimeError, match="index"):
        reprocuda.gather(torch.arange(3.0), 0, index)


def test_index_without_indices_is_for_torch_to_refuse():
    with pytest.raises(IndexError):
        reprocuda.index(torch.zeros(3), [])
    with pytest.raises((IndexError, RuntimeError)):
        reprocuda.index(torch.zeros(3), [None])


def test_a_32_bit_index_out_of_range_has_torchs_class():
    index, source = torch.tensor([7], dtype=torch.int32), torch.ones(1, 2)
    with pytest.raises(IndexError):
        torch.zeros(3, 2).index_add(0, index, source)
    with pytest.raises(IndexError, match="7"):
        reprocuda.index_add(torch.zeros(3, 2), 0, index, source)


@pytest.mark.parametrize("reduce", ["amax", "amin", "mean", "prod"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (3, 2, 2), (100, 2)])
@pytest.mark.parametrize("bad", [100, -1])
def test_a_bad_index_of_index_reduce_has_torchs_class(reduce, dtype, shape, bad):
    target, rows = torch.zeros(shape), torch.ones((2, *shape[1:]) if shape else ())
    arguments = 0, torch.tensor([0, bad] if shape else [bad], dtype=dtype), rows, reduce
    with pytest.raises(IndexError):
        torch.index_reduce(target, *arguments)
    for ops, ns in ([], reprocuda), (None, torch):
        for call in (
            lambda ns: ns.index_reduce(target, *arguments),
            lambda ns: (ns if ns is reprocuda else torch.Tensor).index_reduce_(target, *arguments),
            lambda ns: ns.index_reduce(target, *arguments, out=torch.zeros(shape)),
        ):
            with reprocuda.enabled(ops=ops), pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
                call(ns)
    assert not target.any()


def test_fake_offsets_are_not_read():
    with torch._subclasses.FakeTensorMode():
        assert reprocuda.segment_sum(torch.ones(3, 2), torch.tensor([0, 1, 3])).shape == (2, 2)


ROW, POINTS, EDGES = torch.ones(3), torch.rand(4, 2), torch.tensor([0.0, 1.0])
NO_INTEGERS = (0.0, "a", None, [0], (0,), True, torch.tensor(0.0))
NO_TENSORS = ([1.0], None, 1.0)
WRONG_KINDS = [
    *[lambda ns, op=op, dim=dim: getattr(ns, op)(ROW, dim) for dim in NO_INTEGERS for op in ("cumsum", "cumprod")],
    *[lambda ns, dim=dim: ns.logcumsumexp(ROW, dim) for dim in NO_INTEGERS],
    *[lambda ns, dim=dim: ns.cumsum(ROW, dim, out=torch.empty(3)) for dim in NO_INTEGERS],
    *[lambda ns, op=op, x=x: getattr(ns, op)(x, 0) for x in NO_TENSORS for op in ("cumsum", "logcumsumexp")],
    lambda ns: ns.cumsum(ROW, 0, dtype="f"),
    *[lambda ns, bins=bins: ns.histc(ROW, bins) for bins in NO_INTEGERS],
    *[lambda ns, bins=bins: ns.histogram(ROW, bins) for bins in NO_INTEGERS[:-1]],
    *[lambda ns, op=op, x=x: getattr(ns, op)(x, 2) for x in NO_TENSORS for op in ("histc", "histogram", "histogramdd")],
    *[lambda ns, x=x: ns.bincount(x, ROW) for x in NO_TENSORS],
    *[
        lambda ns, bins=bins: ns.histogramdd(POINTS, bins)
        for bins in (torch.tensor([2, 2]), [EDGES, 2], [2, EDGES], 2.0, [2.0, 2.0], "a", None, [None], True, [True] * 2)
    ],
    lambda ns: ns.histc(ROW, 2, "a", "b"),
    lambda ns: ns.histc(ROW, 2, None, None),
    lambda ns: ns.histogram(ROW, 2, weight=[1.0]),
    lambda ns: ns.histogram(ROW, 2, range=3),
    lambda ns: ns.histogramdd(POINTS, [2, 2], range=3),
    lambda ns: ns.histogramdd(POINTS, [2, 2], weight=[1.0]),
    lambda ns: ns.bincount(torch.tensor([1]), [1.0]),
    lambda ns: ns.bincount(torch.tensor([1]), torch.ones(1), 2.0),
    lambda ns: ns.bincount(torch.tensor([1]), torch.ones(1), None),
]


@pytest.mark.parametrize("call", WRONG_KINDS)
def test_arguments_of_the_wrong_kind_are_type_errors(call):
    for ns in (torch, reprocuda):
        with pytest.raises(TypeError):
            call(ns)


def test_integers_of_every_kind():
    for one in (1, torch.tensor(1), numpy.int64(1)):
        assert reprocuda.cumsum(torch.ones(2, 2), one).tolist() == [[1, 2], [1, 2]]
        assert reprocuda.histc(ROW, one).tolist() == [3]
        assert reprocuda.histogramdd(POINTS, [one, 1]).hist.item() == 4


@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_a_gradient_that_integers_would_lose(op):
    leaf = torch.ones(3, requires_grad=True)
    for ns in (torch, reprocuda):
        with pytest.raises(RuntimeError):
            getattr(ns, op)(leaf, 0, dtype=torch.long)
        with pytest.raises(RuntimeError):
            getattr(ns, op)(leaf, 0, out=torch.empty(3, dtype=torch.long))
        with torch.no_grad():
            assert getattr(ns, op)(leaf, 0, dtype=torch.long).dtype == torch.long


@pytest.mark.parametrize("lengths", [[2], [1, 1], []])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "prod"])
def test_an_initial_value_of_segments_beyond_the_dtype_is_refused(reduce, lengths):
    data = torch.ones(2 if lengths else 0, dtype=torch.float16)
    keywords = {"lengths": torch.tensor(lengths, dtype=torch.long), "initial": 3e38, "unsafe": True}
    for ns in (torch, reprocuda):
        if not lengths:
            assert ns.segment_reduce(data, reduce, **keywords).shape == (0,)
            continue
        with pytest.raises(RuntimeError, match=r"cannot be converted to .* without overflow"):
            ns.segment_reduce(data, reduce, **keywords)
