"""Situations in which people found sums by index wrong, slow or refused: here each has its one right value."""

import pytest
import torch

import reprocuda
from tests import oracle
from tests.operators.bits import assert_same_bits, from_numpy_bits, to_numpy_bits
from tests.operators.table import TORCH

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")
HALVES = [torch.float16, torch.bfloat16]


@pytest.fixture(params=["called", "enabled"])
def ns(request):
    """The operators by either door: called as reprocuda's, or torch's own with ours put under them."""
    if request.param == "called":
        yield reprocuda
    else:
        with reprocuda.enabled():
            yield TORCH


def test_a_scatter_with_an_expanded_index_repeats_with_or_without_torchs_flag(ns):
    source = torch.randn(4000, 3) * 10 ** torch.randn(4000, 3)
    index = torch.randint(7, (4000, 1)).expand(-1, 3)
    results = []
    for flag in (False, True, False):
        torch.use_deterministic_algorithms(flag)
        results.append(ns.scatter_add(torch.zeros(7, 3), 0, index, source))
    for result in results[1:]:
        assert_same_bits(result, results[0])
    place = (index * 3 + torch.arange(3)).reshape(-1)
    exact = oracle.exact_segment_sums(to_numpy_bits(source).reshape(-1), place, 21, "float32")
    assert_same_bits(results[0], from_numpy_bits(exact, torch.float32).reshape(7, 3))


def test_accumulated_values_broadcast(ns):
    x, i = torch.zeros(4, 2, 3, dtype=torch.long), torch.tensor([[0, 2], [0, 3]])
    got = ns.index_put(x, (i,), torch.tensor([1, 10, 100]), True)
    want = (
        torch.tensor([2, 0, 1, 1])[:, None, None] * torch.tensor([1, 10, 100]) * torch.ones(1, 2, 1, dtype=torch.long)
    )
    assert torch.equal(got, want)


@pytest.mark.parametrize("count", [1, 255, 256, 257])
def test_many_trues_are_true(ns, count):
    index, source = torch.zeros(count, dtype=torch.long), torch.ones(count, dtype=torch.bool)
    x = torch.zeros(2, dtype=torch.bool)
    for result in (
        ns.scatter_add(x, 0, index, source),
        ns.index_add(x, 0, index, source),
        ns.index_put(x, (index,), source, True),
    ):
        assert result.tolist() == [True, False]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_precision_sums_do_not_saturate_by_any_route(ns, dtype):
    index, ones, x = torch.zeros(4096, dtype=torch.long), torch.ones(4096, dtype=dtype), torch.zeros(1, dtype=dtype)
    for result in (
        ns.scatter_add(x, 0, index, ones),
        ns.index_add(x, 0, index, ones),
        ns.index_add_(x.clone(), 0, index, ones),
        ns.index_put(x, (index,), ones, True),
        ns.index_put_(x.clone(), (index,), ones, True),
    ):
        assert result.item() == 4096


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_precision_gradients_do_not_saturate(ns, dtype):
    for read in (
        lambda w, i: ns.embedding(i, w),
        lambda w, i: ns.index_select(w, 0, i),
        lambda w, i: ns.index(w, (i,)),
        lambda w, i: ns.gather(w, 0, i[:, None]),
    ):
        w = torch.zeros(2, 1, dtype=dtype, requires_grad=True)
        read(w, torch.zeros(4096, dtype=torch.long)).float().sum().backward()
        assert w.grad.tolist() == [[4096], [0]]


def test_counts_beyond_what_float32_can_hold(ns):
    """2**24 + 5 ones: plain float32 addition stops at 2**24."""
    count = 2**24 + 6
    got = ns.index_add(torch.zeros(1), 0, torch.zeros(count, dtype=torch.long), torch.ones(()).expand(count))
    assert got.item() == count


def test_a_part_of_src_that_is_not_read_has_gradient_zero():
    source = torch.arange(1.0, 6.0).requires_grad_()
    index = torch.tensor([0, 1, 1])
    result = reprocuda.scatter_add(torch.ones(3), 0, index, source)
    assert result.tolist() == [2, 6, 1]
    result.sum().backward()
    assert source.grad.tolist() == [1, 1, 1, 0, 0]
    wide = torch.ones(3, 4, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(
        lambda s: reprocuda.scatter_add(torch.zeros(5, 3).double(), 0, torch.tensor([[0, 4], [4, 4]]), s), (wide,)
    )
    unread = torch.ones(3, requires_grad=True)
    reprocuda.scatter_add(torch.zeros(3), 0, index[:0], unread).sum().backward()
    assert unread.grad.tolist() == [0, 0, 0]


def test_each_row_is_divided_by_its_own_count(ns):
    """A row that occurs once and comes after a repeated one keeps its whole gradient."""
    w = torch.ones(5, 2, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([2, 2, 4])
    rows = (
        ns.embedding(tokens, w, scale_grad_by_freq=True)
        if ns is reprocuda
        else torch.nn.functional.embedding(tokens, w, scale_grad_by_freq=True)
    )
    rows.sum().backward()
    assert w.grad[:, 0].tolist() == [0, 0, 1, 0, 1]


@pytest.mark.parametrize("padding_idx", [0, -1, None])
@pytest.mark.parametrize("count", [1, 768, 769, 5000])
def test_padding_gets_no_gradient_at_any_length(padding_idx, count):
    tokens = torch.arange(count) % 4
    w = torch.ones(4, 2, requires_grad=True)
    reprocuda.embedding(tokens, w, padding_idx=padding_idx).sum().backward()
    want = torch.bincount(tokens, minlength=4).float()
    if padding_idx is not None:
        want[padding_idx] = 0
    assert torch.equal(w.grad, want[:, None].expand(-1, 2))


def test_max_norm_scales_the_rows_read_once_and_in_place():
    w = torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.3, 0.4]])
    read = reprocuda.embedding(torch.tensor([0, 0, 2]), w, max_norm=1.0)
    scaled = torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.3, 0.4]])
    torch.nn.functional.embedding(torch.tensor([0, 2]), scaled, max_norm=1.0)
    assert scaled[0].norm() <= 1 and scaled[1].tolist() == [3, 4]
    assert_same_bits(w, scaled)
    assert_same_bits(read, scaled[[0, 0, 2]])
    leaf = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    reprocuda.embedding(torch.tensor([0, 0]), leaf, max_norm=1.0).sum().backward()
    assert leaf.grad.tolist() == [[2, 2]]


def test_sparse_gradients_are_added_up():
    w = torch.zeros(4, 2, requires_grad=True)
    reprocuda.embedding(torch.tensor([1, 1, 0]), w, sparse=True).sum().backward()
    assert w.grad.is_sparse and w.grad._nnz() == 2
    assert w.grad.to_dense().tolist() == [[1, 1], [2, 2], [0, 0], [0, 0]]


def test_none_leaves_a_dimension_whole(ns):
    i, j = torch.tensor([0, 0]), torch.tensor([1, 1])
    put = reprocuda.index_put if ns is reprocuda else torch.ops.aten.index_put
    assert put(torch.zeros(2, 3), [None, i], torch.ones(2, 2), True).tolist() == [[2, 0, 0], [2, 0, 0]]
    apart = put(torch.zeros(2, 3, 2), [i, None, j], torch.arange(6.0).reshape(2, 3), True)
    assert apart[0, :, 1].tolist() == [3, 5, 7] and apart.sum() == 15
    x = torch.zeros(2, 3, requires_grad=True)
    (reprocuda.index(x, (None, i)) if ns is reprocuda else x[:, i]).sum().backward()
    assert x.grad.tolist() == [[2, 0, 0], [2, 0, 0]]


@pytest.mark.parametrize("flag", [False, True])
def test_assigning_values_is_still_torchs(ns, flag):
    torch.use_deterministic_algorithms(flag)
    x = torch.arange(6.0)
    x[x > 2] = 1.0
    y = torch.zeros(4, 2)
    y[[1, 3], :] = 2
    z = torch.zeros(3, 2)
    z[[False, True, True]] = torch.tensor([5.0, 6.0])
    assert x.tolist() == [0, 1, 2, 1, 1, 1] and y.sum() == 8 and z.tolist() == [[0, 0], [5, 6], [5, 6]]


def test_index_dtypes_and_negative_dims(ns):
    assert ns.index_add(torch.zeros(2, 2), -1, torch.tensor([1, 1], dtype=torch.int32), torch.ones(2, 2)).tolist() == [
        [0, 2],
        [0, 2],
    ]
    assert ns.index_add(torch.tensor(1.0), 0, torch.tensor([0]), torch.tensor(2.0)).item() == 3
    assert ns.index_add(torch.zeros(2), 0, torch.tensor([1, 1]), torch.ones(2), alpha=-2).tolist() == [0, -4]
