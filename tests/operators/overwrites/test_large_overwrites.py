"""Plain writes into a table larger than the caches, whose targets the workers share out."""

import pytest
import torch

import reprocuda
from tests.operators.bits import assert_same_bits, threads


@pytest.mark.parametrize("features", [1, 3, 40])
@pytest.mark.parametrize("negative", [False, True])
def test_workers_that_share_a_large_table_keep_the_order(features, negative):
    size, rows = 9 * 2**20 // (4 * features), 200_003  # more than the caches are taken to hold
    generator = torch.Generator().manual_seed(features)
    near = torch.randint(size // 7, (rows,), generator=generator) * 7  # several writes to most of what is written
    source = torch.randn(rows, features, generator=generator).squeeze(-1)
    last = torch.full((size,), -1).scatter_reduce(0, near, torch.arange(rows), "amax")
    want = torch.zeros(size, features).squeeze(-1)
    want[last >= 0] = source[last[last >= 0]]
    for count in (1, 2):
        with threads(count):
            got = reprocuda.index_put(torch.zeros_like(want), (near - size * negative,), source)
        assert_same_bits(got, want, f"{count} threads")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.complex128], ids=str)
@pytest.mark.parametrize("targets", [1, 50, 2000])
def test_of_many_long_rows_for_a_target_the_last_stands(targets, dtype):
    generator = torch.Generator().manual_seed(targets)
    rows, features = 5001, 40
    index = torch.randint(max(targets - 1, 1), (rows,), generator=generator)  # the last of several gets none
    source = torch.randint(-99, 99, (rows, features), generator=generator).to(dtype)
    before = torch.randint(-99, 99, (targets, features), generator=generator).to(dtype)
    want = before.clone()
    for row, target in enumerate(index.tolist()):
        want[target] = source[row]
    touched = torch.zeros(targets, 1, dtype=torch.bool).index_fill(0, index, True)
    want_spread = torch.where(touched, want[:, :1], before)
    for count in (1, 2, 7):
        for layout in (before, before.t().contiguous().t()):
            with threads(count):
                assert_same_bits(reprocuda.index_copy(layout, 0, index, source).contiguous(), want)
                assert_same_bits(reprocuda.index_put(layout, (index - targets,), source).contiguous(), want)
                spread = source[:, :1].expand(-1, features)
                broadcast = reprocuda.index_copy(layout, 0, index, spread)
            assert_same_bits(broadcast.contiguous(), want_spread)
