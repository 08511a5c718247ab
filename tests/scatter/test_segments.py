"""Segments that every slice names for itself, or one for all."""

import itertools

import torch

from reprocuda.scatter import (
    gather_coo,
    gather_csr,
    segment_csr,
    segment_max_coo,
    segment_max_csr,
    segment_mean_coo,
    segment_min_coo,
    segment_min_csr,
    segment_sum_coo,
)
from tests import oracle
from tests.operators.bits import to_numpy_bits


def test_segments_in_batches():
    """Pointers and indices of their own for every slice, or one for all; elements outside of all segments."""
    generator = torch.Generator().manual_seed(0)
    src = torch.randn(3, 12, 5, generator=generator)
    pointers = torch.tensor([[0, 2, 5, 5, 12], [1, 1, 4, 6, 9], [3, 4, 5, 6, 7]])
    for given in (pointers, pointers[1:2]):
        for reduce, name in (("sum", "sum"), ("mean", "mean"), ("max", "amax"), ("min", "amin")):
            bits = to_numpy_bits(segment_csr(src, given, reduce=reduce))
            for b, s, column in itertools.product(range(3), range(4), range(5)):
                first, last = given.expand(3, -1)[b, s : s + 2].tolist()
                part = src[b, first:last, column].double().tolist()
                assert int(bits[b, s, column]) == oracle.exact_reduction(part or [0.0], name, "float32"), (b, s)
        for function, best in ((segment_max_csr, max), (segment_min_csr, min)):
            positions = function(src, given)[1]
            for b, s, column in itertools.product(range(3), range(4), range(5)):
                members = range(*given.expand(3, -1)[b, s : s + 2].tolist())
                want = best(members, key=lambda i: src[b, i, column].item(), default=12)
                assert positions[b, s, column] == want, (b, s, column)
    index = torch.tensor([[0, 0, 1, 1, 1, 3], [0, 0, 0, 1, 1, 2]])
    numbers = torch.tensor([[1.0, 3, 5, 7, 9, 11], [2, 4, 6, 8, 10, 12]])
    assert segment_sum_coo(numbers, index).tolist() == [[4, 21, 0, 11], [12, 18, 12, 0]]
    assert segment_mean_coo(numbers, index).tolist() == [[2, 7, 0, 11], [4, 9, 12, 0]]
    assert segment_min_coo(numbers, index)[1].tolist() == [[0, 2, 6, 5], [0, 3, 5, 6]]
    assert segment_max_coo(numbers, index[:1])[1].tolist() == [[1, 4, 6, 5]] * 2
    assert gather_coo(segment_sum_coo(numbers, index), index)[0].tolist() == [4, 4, 21, 21, 21, 11]
    assert gather_csr(numbers[:, :4], torch.tensor([[0, 2, 5, 5, 6]] * 2))[1].tolist() == [2, 2, 4, 4, 4, 8]
    assert gather_coo(src, torch.tensor([[0, 0, 3]])).shape == (3, 3, 5)
