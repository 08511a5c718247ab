"""Numbers of bins that are refused, and bins around one value."""

import pytest
import torch

import reprocuda


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
