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
