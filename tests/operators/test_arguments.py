"""Wrong arguments: torch's own errors in torch's own classes, our message for an index, nothing written before."""

import numpy
import pytest
import torch

import reprocuda
from tests.operators.table import TORCH
from tests.operators.wrong_calls import INDEX, OUT_OF_RANGE, WRONG, ones, x


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("what", WRONG)
def test_torchs_own_errors(what):
    with pytest.raises(Exception) as torchs:
        WRONG[what](TORCH)
    with pytest.raises(torchs.type):
        WRONG[what](reprocuda)


@pytest.mark.parametrize("bad", [3, -4, 2**40])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_is_torchs_error(name, bad):
    error, call = OUT_OF_RANGE[name]
    with pytest.raises(error):
        call(TORCH, torch.tensor([bad]))
    with pytest.raises(error) as ours:
        call(reprocuda, torch.tensor([bad]))
    if name not in ("gather", "index_select", "index", "embedding"):  # torch's own readers
        for part in (name.split()[0].rstrip("_"), str(bad), "position 0", "size 3"):
            assert part in str(ours.value)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_minus_one_counts_from_the_end_in_index_put_only(dtype):
    last = torch.tensor([-1], dtype=dtype)
    assert reprocuda.index_put(x(3), (last,), ones(1), True).tolist() == [0, 0, 1]
    for name in ("index_add", "scatter_add", "index_add rows"):
        call = OUT_OF_RANGE[name][1]
        with pytest.raises((IndexError, RuntimeError)) as torchs:
            call(TORCH, last)
        with pytest.raises(torchs.type):
            call(reprocuda, last)


@pytest.mark.parametrize("features", [1, 40])
@pytest.mark.parametrize("rows", [10, 30_000])
def test_nothing_is_written_before_a_bad_index_is_reported(rows, features):
    """At the very end of a long index, for every path the sizes lead to; the position is the first bad one."""
    index = torch.randint(20, (rows,))
    index[-2:] = torch.tensor([20, -1])
    source = torch.ones(rows, features)
    for add_ in (
        lambda t: reprocuda.index_add_(t, 0, index, source),
        lambda t: reprocuda.scatter_add_(t, 0, index[:, None].expand(-1, features), source),
        lambda t: reprocuda.scatter_add_(t, 0, index[:, None].expand(-1, features).contiguous(), source),
        lambda t: reprocuda.index_put_(t, (index.clamp(min=-20),), source, True),
    ):
        target = torch.zeros(20, features)
        with pytest.raises((IndexError, RuntimeError), match=r"index 20 is out of bounds"):
            add_(target)
        assert not target.any()


@pytest.mark.filterwarnings("error")
def test_overlapping_memory_is_refused():
    i = torch.tensor([0, 1])
    alias = x(1).expand(3)
    for call in (
        lambda: reprocuda.index_add_(alias, 0, i, ones(2)),
        lambda: reprocuda.scatter_add_(alias, 0, i, ones(2)),
        lambda: reprocuda.index_put_(alias, (i,), ones(2), True),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            call()
    assert alias.tolist() == [0, 0, 0]
    a, to_itself = torch.tensor([1.0, 2, 3]), torch.tensor([0, 0, 1])
    for call in (
        lambda: reprocuda.index_add_(a, 0, to_itself, a),
        lambda: reprocuda.scatter_add_(a, 0, to_itself, a),
        lambda: reprocuda.index_put_(a, (to_itself,), a, True),
    ):
        with pytest.raises(RuntimeError, match="memory"):
            call()
    assert a.tolist() == [1, 2, 3]


def test_halves_of_one_tensor_are_no_overlap():
    base = torch.arange(8.0)
    reprocuda.index_add_(base[:4], 0, torch.tensor([0, 0, 1, 1]), base[4:])
    assert base.tolist() == [9, 14, 2, 3, 4, 5, 6, 7]
    interleaved = torch.arange(6.0)
    reprocuda.index_add_(interleaved[::2], 0, torch.tensor([0, 0, 2]), interleaved[1::2])
    assert interleaved.tolist() == [4, 1, 2, 3, 9, 5]


def test_out_is_resized_as_torch_resizes_it():
    want = reprocuda.index_add(x(3), 0, INDEX, ones(2))
    for out in (torch.empty(3), torch.empty(0), torch.empty(6)[::2]):
        assert reprocuda.index_add(x(3), 0, INDEX, ones(2), out=out) is out and torch.equal(out, want)
    for name, call in (
        ("index_add", lambda out: reprocuda.index_add(x(3), 0, INDEX, ones(2), out=out)),
        ("scatter_add", lambda out: reprocuda.scatter_add(x(3), 0, INDEX, ones(2), out=out)),
    ):
        out = torch.empty(5)
        with pytest.warns(UserWarning, match="was resized"):
            assert call(out) is out, name
        assert torch.equal(out, want)
    itself = ones(3)
    reprocuda.index_add(itself, 0, INDEX, ones(2), out=itself)
    assert itself.tolist() == [2, 1, 2]


ALPHAS = {
    torch.float32: [True, False, 2, -2.5, 2**60 + 1, torch.tensor(3.0), torch.tensor(2)],
    torch.int64: [True, False, 3, 2.5, -(2**62)],
    torch.uint8: [3, 200, 2.5],
    torch.bool: [True, False, 2, 0, 0.5],
    torch.complex64: [2, 1.5, 1 - 2j, True],
}


@pytest.mark.parametrize("dtype", ALPHAS, ids=str)
def test_alpha_of_every_kind(dtype):
    source = ones(2, dtype=dtype)
    for alpha in ALPHAS[dtype]:
        want = torch.index_add(x(3, dtype=dtype), 0, INDEX, source, alpha=alpha)
        assert torch.equal(reprocuda.index_add(x(3, dtype=dtype), 0, INDEX, source, alpha=alpha), want), alpha
        assert torch.equal(reprocuda.index_add_(x(3, dtype=dtype), 0, INDEX, source, alpha=alpha), want), alpha


def test_an_integer_alpha_is_rounded_once():
    """By way of a double it would be rounded twice, to a neighbour."""
    alpha = 2**60 + 2**36 + 1
    assert torch.tensor(alpha).to(torch.float32).item() != torch.tensor(float(alpha)).to(torch.float32).item()
    got = reprocuda.index_add(x(1), 0, torch.tensor([0]), ones(1), alpha=alpha)
    assert got.item() == torch.tensor(alpha).to(torch.float32).item()


def test_numpy_numbers_are_alphas():
    for alpha in (numpy.float32(2.5), numpy.float64(2.5), numpy.int64(3)):
        assert reprocuda.index_add(x(3), 0, INDEX, ones(2), alpha=alpha)[0] == float(alpha)
