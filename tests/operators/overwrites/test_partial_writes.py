"""What torch's own step would write before it reports, or write into memory that several elements share."""

import pytest
import torch

import reprocuda


def overlapping():
    return torch.zeros(10).as_strided((3, 3), (2, 1))


@pytest.mark.parametrize("value", [9.0, torch.tensor(9.0), torch.tensor(9)])
@pytest.mark.parametrize("bad", [3, -4, 2**40])
@pytest.mark.parametrize("dim", [0, -2])
def test_a_bad_index_of_index_fill(value, bad, dim):
    index = torch.tensor([0, -3, bad, 1])
    target = torch.zeros(3, 2)
    with pytest.raises(IndexError):
        target.clone().index_fill_(dim, index, value)
    with pytest.raises(IndexError, match=rf"index_fill_\(\): index {bad} is out of bounds .*at position 2"):
        reprocuda.index_fill_(target, dim, index, value)
    assert not target.any()
    good = torch.tensor([0, -1])
    assert reprocuda.index_fill_(target, dim, good, value)[:, 0].tolist() == [9, 0, 9]
    assert reprocuda.index_fill_(target, dim, good[:0], 5.0)[:, 0].tolist() == [9, 0, 9]


def test_no_row_is_scaled_where_another_is_out_of_range():
    message = r"embedding\(\): index (7|-1) is out of bounds for a table of 3 rows, at position 1"
    for indices in (torch.tensor([0, 7]), torch.tensor([[0], [-1]], dtype=torch.int32)):
        weight = torch.ones(3, 2)
        with pytest.raises(IndexError):
            torch.nn.functional.embedding(indices, weight.clone(), max_norm=0.5)
        with pytest.raises(IndexError, match=message):
            reprocuda.embedding(indices, weight, max_norm=0.5)
        assert torch.equal(weight, torch.ones(3, 2))


def test_what_overlaps_itself_is_not_filled():
    base = overlapping()
    with pytest.raises(RuntimeError, match=r"index_fill_: the written tensor overlaps itself"):
        reprocuda.index_fill_(base, 0, torch.tensor([0]), 1.0)
    with pytest.raises(RuntimeError, match=r"masked_scatter_: the written tensor overlaps itself"):
        reprocuda.masked_scatter_(base, torch.ones(3, 3, dtype=torch.bool), torch.arange(9.0))
    assert not base.any()
    interleaved = torch.zeros(10).as_strided((2, 2), (1, 3))
    assert reprocuda.index_fill_(interleaved, 0, torch.tensor([0]), 1.0).tolist() == [[1, 1], [0, 0]]


def test_shapes_that_do_not_fit_a_mask_are_torchs_to_name():
    arguments = torch.rand(4, 1, requires_grad=True), torch.tensor([[True, False]] * 3), torch.arange(6.0)
    with pytest.raises(RuntimeError) as torchs:
        torch.masked_scatter(*arguments)
    with pytest.raises(RuntimeError) as ours:
        reprocuda.masked_scatter(*arguments)
    assert str(ours.value) == str(torchs.value)
