"""Histograms on the emulated device: torch's bins, counts whole, whatever the schedule."""

import numpy as np
import pytest
import reprocuda_emulation as emulation
import torch

from reprocuda import ops

SCHEDULES = 200
SEARCHES = ("interpolate", "nearby", "bisect")
DTYPES = ("float16", "bfloat16", "float32", "float64")


def bits(tensor: torch.Tensor) -> np.ndarray:
    wide = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.contiguous().view(wide).numpy()


def points(dtype: str, count: int, dims: int = 1) -> torch.Tensor:
    """On edges, beside them, outside, and NaN."""
    generator = torch.Generator().manual_seed(count)
    x = torch.randint(-7, 8, (count, dims), generator=generator) / 4
    x[::3] += torch.randn(x[::3].shape, generator=generator) / 8
    x[5::11] = float("nan")
    return x.to(getattr(torch, dtype))


def edges_for(dtype: str, search: str, dims: int = 1, bins: int = 7) -> list[torch.Tensor]:
    wanted = getattr(torch, dtype)
    if search == "bisect":
        uneven = torch.tensor([-1.5, -1.25, -0.5, -0.25, 0, 0, 1, 1.25], dtype=wanted)
        return [uneven if d == 0 else uneven[1:5] for d in range(dims)]
    return [torch.linspace(-1.5, 1.25, bins + 1 - d).to(wanted) for d in range(dims)]


def loop(x: torch.Tensor, edges: torch.Tensor) -> list[int]:
    """The bins of float64 points by torch's rule for histc, in plain Python, whose arithmetic is that of float64."""
    first, last, bins = float(edges[0]), float(edges[-1]), len(edges) - 1
    keys = []
    for value in x.reshape(-1).tolist():
        if not first <= value <= last:
            keys.append(bins)
        else:
            keys.append(min(int((value - first) * bins / (last - first)), bins - 1))
    return keys


@pytest.mark.parametrize("dims", [1, 3])
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_bins_and_counts_whatever_the_schedule(dtype, search, dims):
    x = points(dtype, 300, dims)
    edges = edges_for(dtype, search, dims)
    keys = ops.histogram_keys(x, edges, search).numpy()
    counts = ops.histogram_counts(x, edges, search).numpy()
    assert 0 < counts.sum() < 300 and np.array_equal(np.bincount(keys, minlength=counts.size + 1)[:-1], counts)
    number, raw = SEARCHES.index(search), [bits(edge) for edge in edges]
    for seed in range(SCHEDULES // (4 if dims == 3 else 2)):
        emulation.set_options(seed=seed)
        for counted, wanted in ((False, keys), (True, counts)):
            got = emulation.histogram(dtype, number, bits(x), raw, counted, 1 + seed % 3)
            np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")
    emulation.set_options()


@pytest.mark.parametrize("bins", [5, 900])
def test_hundreds_of_schedules_in_shared_memory_and_without(bins):
    x, edges = points("float64", 400), edges_for("float64", "interpolate", bins=bins)
    keys = loop(x, edges[0])
    wanted = np.bincount(keys, minlength=bins + 1)[:-1]
    for seed in range(SCHEDULES):
        emulation.set_options(seed=seed)
        got = emulation.histogram("float64", 0, bits(x), [bits(edges[0])], True, 1 + seed % 3)
        np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")
        got = emulation.histogram("float64", 0, bits(x), [bits(edges[0])], False, 1 + seed % 3)
        np.testing.assert_array_equal(got, keys, err_msg=f"seed {seed}")
    emulation.set_options()


def test_no_points_and_too_many_dimensions():
    empty = np.zeros((0, 1), np.float32)
    edge = np.array([0, 1, 2], np.float32)
    assert emulation.histogram("float32", 0, empty, [edge], True).tolist() == [0, 0]
    assert emulation.histogram("float32", 0, empty, [edge], False).tolist() == []
    with pytest.raises(RuntimeError, match=r"histogram\(\): on CUDA points have at most 32 dimensions, got 33"):
        emulation.histogram("float32", 2, np.zeros((1, 33), np.float32), [edge] * 33, False)
