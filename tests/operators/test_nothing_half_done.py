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


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("out", [torch.int64, torch.float32, None], ids=str)
def test_log_sum_exps_of_integers_are_torchs_to_refuse(dtype, out):
    x = torch.ones(2, dtype=dtype)
    given = {} if out is None else {"out": torch.zeros(2, dtype=out)}
    with pytest.raises((RuntimeError, NotImplementedError)) as torchs:
        torch.logcumsumexp(x, 0, **given)
    with pytest.raises(torchs.type):
        reprocuda.logcumsumexp(x, 0, **given)


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


def test_bins_that_are_not_positive():
    for bins, bounds in ((-1, (0.0, 1.0)), (0, (1.0, 0.0)), (0, None)):
        given = {} if bounds is None else {"range": bounds}
        with pytest.raises(RuntimeError, match="bins must be > 0"):
            torch.histogram(torch.rand(3), bins, **given)
        with pytest.raises(RuntimeError, match=rf"histogram\(\): bins must be > 0, but got {bins} for dimension 0"):
            reprocuda.histogram(torch.rand(3), bins, **given)


def test_bins_that_are_not_positive_in_several_dimensions():
    points = torch.rand(3, 2)
    for compute in (reprocuda.histogramdd, torch.compile(reprocuda.histogramdd, backend="eager", fullgraph=True)):
        with pytest.raises(RuntimeError, match=r"histogramdd\(\): bins must be > 0, but got 0 for dimension 1"):
            compute(points, [2, 0])
    counts = torch.compile(reprocuda.histogram, backend="eager", fullgraph=True)
    with pytest.raises(RuntimeError, match=r"histogram\(\): bins must be > 0, but got 0 for dimension 0"):
        counts(points, 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_compiled_counts_around_one_value(dtype):
    def count(x):
        return reprocuda.histc(x, 4, 1.0, 1.0)

    x = torch.tensor([0.45, 0.52, 0.93, 1.33, -1.47, 1.5], dtype=dtype)
    compiled = torch.compile(count, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x), count(x)) and count(x).sum() >= 3
