"""Extremes with their positions and histograms as a user of a GPU meets them: the CPU's bits, no waiting."""

import pytest
import torch

import reprocuda
from tests.gpu.synchronisation import no_synchronisation
from tests.operators.bits import assert_same_bits

DTYPES = ("uint8", "int8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32", "float64")


def numbers(shape, dtype):
    """Few, so that many are equal, and NaN among them."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randint(-4, 60, shape, generator=generator) / 8
    if dtype.is_floating_point:
        x[torch.rand(shape, generator=generator) < 0.001] = float("nan")
    return (x > 3 if dtype == torch.bool else x * 8 if not dtype.is_floating_point else x).to(dtype)


@pytest.mark.parametrize("name", ["scatter_max", "scatter_min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_of_the_best_as_on_the_cpu(dtype, name):
    function = getattr(reprocuda.scatter, name)
    for shape, targets in (((50_000,), 300), ((4000, 24), 200), ((3, 5000, 2), 70)):
        src = numbers(shape, getattr(torch, dtype))
        dim = len(shape) // 2
        rows = torch.randint(targets - 1, (shape[dim],), generator=torch.Generator().manual_seed(5))
        elements = torch.randint(targets, shape, generator=torch.Generator().manual_seed(6))
        for index in (rows, elements):
            out_shape = [targets if d == dim else n for d, n in enumerate(shape)]
            for out in (None, numbers(out_shape, src.dtype)):
                want = function(src, index, dim, None if out is None else out.clone(), targets)
                for _ in range(3):
                    given = None if out is None else out.cuda()
                    got = function(src.cuda(), index.cuda(), dim, given, targets)
                    assert_same_bits(got[0].cpu(), want[0])
                    assert torch.equal(got[1].cpu(), want[1])


def test_histc_of_bools_is_refused():
    with pytest.raises(RuntimeError):
        reprocuda.histc(torch.ones(2, dtype=torch.bool, device="cuda"))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool"])
def test_histc_has_the_bits_of_the_cpu(dtype):
    x = numbers((100_000,), getattr(torch, dtype))
    for bins in (7, 20_000):
        want = reprocuda.histc(x, bins, 0, 5)
        assert_same_bits(reprocuda.histc(x.cuda(), bins, 0, 5).cpu(), want)
        with reprocuda.enabled():
            assert_same_bits(torch.histc(x.cuda(), bins, 0, 5).cpu(), want)


def test_weighted_counts_have_the_bits_of_the_cpu():
    index = torch.randint(0, 900, (100_000,), generator=torch.Generator().manual_seed(7))
    for dtype in (torch.float16, torch.float32, torch.float64):
        weights = torch.randn(100_000, generator=torch.Generator().manual_seed(8)).to(dtype)
        want = reprocuda.bincount(index, weights, 1000)
        assert_same_bits(reprocuda.bincount(index.cuda(), weights.cuda(), 1000).cpu(), want)
        with reprocuda.enabled():
            assert_same_bits(torch.bincount(index.cuda(), weights.cuda(), 1000).cpu(), want)


def test_nothing_waits_for_the_device():
    src, index = torch.rand(5000, device="cuda"), torch.randint(50, (5000,), device="cuda")
    with no_synchronisation():
        reprocuda.scatter.scatter_max(src, index, dim_size=50)
        reprocuda.scatter.scatter_min(src.double(), index, dim_size=50)
        reprocuda.histc(src, 10, 0, 1)
        reprocuda.histc(index, 10, 0, 49)
