"""SegmentPlan: from any index, from offsets, from a sorted index; checked, immutable, reusable."""

import dataclasses

import pytest
import torch

import reprocuda
from reprocuda import SegmentPlan


def test_grouping_is_stable_and_complete():
    index = torch.randint(30, (1000,))
    plan = SegmentPlan.from_index(index, 40)
    assert plan.num_segments == 40 and plan.num_rows == 1000
    assert torch.equal(plan.permutation, index.argsort(stable=True))
    assert torch.equal(plan.offsets.diff(), torch.bincount(index, minlength=40))
    before = index.clone()
    index.zero_()
    assert torch.equal(plan.targets, before)  # the caller's index is the caller's to change


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_the_three_ways_agree(dtype):
    index = torch.randint(30, (500,)).sort().values.to(dtype)
    offsets = torch.cat([torch.zeros(1, dtype=dtype), torch.bincount(index, minlength=30).cumsum(0).to(dtype)])
    source = torch.randn(500, 3)
    want = reprocuda.segment_sum(source, SegmentPlan.from_index(index, 30))
    for plan in (
        SegmentPlan.from_sorted(index, 30),
        SegmentPlan.from_offsets(offsets),
        SegmentPlan.from_offsets(offsets, num_rows=500),
    ):
        assert plan.permutation is None
        assert torch.equal(reprocuda.segment_sum(source, plan), want)
        assert torch.equal(plan.targets, index.long())
    assert torch.equal(reprocuda.segment_sum(source, offsets), want)
    assert torch.equal(reprocuda.index_add(torch.zeros(30, 3), 0, index, source), want)


def test_a_plan_is_immutable():
    plan = SegmentPlan.from_index(torch.tensor([1, 0]), 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.offsets = torch.zeros(3)


def test_one_plan_serves_any_dtype_and_call():
    index = torch.randint(9, (200,))
    plan = SegmentPlan.from_index(index, 9)
    for dtype in (torch.float64, torch.bfloat16, torch.int32, torch.complex64, torch.bool):
        source = torch.randint(2, (200, 2)).to(dtype)
        target = torch.zeros(9, 2, dtype=dtype)
        want = reprocuda.index_add(target, 0, index, source)
        assert torch.equal(reprocuda.index_add(target, 0, plan, source), want)
        assert torch.equal(reprocuda.index_add(target, 0, plan, source, out=torch.empty(0, dtype=dtype)), want)
        reprocuda.index_add_(target, 0, plan, source)
        assert torch.equal(target, want)


def test_a_plan_of_many_dimensions_looks_up_an_embedding():
    tokens = torch.randint(7, (4, 5))
    plan = SegmentPlan.from_index(tokens, 7)
    weight, other = (torch.ones(7, 2, requires_grad=True) for _ in range(2))
    got = reprocuda.embedding(plan, weight, padding_idx=3)
    assert torch.equal(got, reprocuda.embedding(tokens, other, padding_idx=3))
    got.sum().backward()
    reprocuda.embedding(tokens, other, padding_idx=3).sum().backward()
    assert torch.equal(weight.grad, other.grad) and weight.grad[3].eq(0).all()
    scaled, plain = (torch.ones(7, 2, requires_grad=True) for _ in range(2))
    reprocuda.embedding(plan, scaled, scale_grad_by_freq=True).sum().backward()
    reprocuda.embedding(tokens, plain, scale_grad_by_freq=True).sum().backward()
    assert torch.equal(scaled.grad, plain.grad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SegmentPlan.from_offsets(torch.tensor([0, 3, 2])),
        lambda: SegmentPlan.from_offsets(torch.tensor([1, 2])),
        lambda: SegmentPlan.from_offsets(torch.tensor([0, 2]), num_rows=3),
        lambda: SegmentPlan.from_offsets(torch.tensor([])),
        lambda: SegmentPlan.from_offsets(torch.tensor([[0, 1]])),
        lambda: SegmentPlan.from_offsets(torch.tensor([0.0, 1.0])),
        lambda: SegmentPlan.from_sorted(torch.tensor([1, 0]), 2),
        lambda: SegmentPlan.from_sorted(torch.tensor([0, 2]), 2),
        lambda: SegmentPlan.from_sorted(torch.tensor([-1, 0]), 2),
        lambda: SegmentPlan.from_sorted(torch.tensor([[0]]), 2),
        lambda: reprocuda.segment_sum(torch.ones(3), torch.tensor([0, 2])),
    ],
)
def test_bad_groupings_are_refused(make):
    with pytest.raises(ValueError, match=r"offsets|sorted index"):
        make()


@pytest.mark.parametrize("bad", [3, -1, 2**40])
def test_an_index_out_of_range(bad):
    with pytest.raises(IndexError, match=rf"index {bad} .* at position 1"):
        SegmentPlan.from_index(torch.tensor([0, bad]), 3)


def test_a_plan_for_other_tensors_is_refused():
    plan = SegmentPlan.from_index(torch.tensor([0, 2, 2]), 3)
    for call in (
        lambda: reprocuda.segment_sum(torch.ones(4), plan),
        lambda: reprocuda.index_add(torch.zeros(3), 0, plan, torch.ones(4)),
        lambda: reprocuda.index_add(torch.zeros(4), 0, plan, torch.ones(3)),
        lambda: reprocuda.index_add_(torch.zeros(4), 0, plan, torch.ones(3)),
        lambda: reprocuda.index_add(torch.zeros(3), 0, plan, torch.ones(3).double()),
        lambda: reprocuda.segment_sum(torch.tensor(1.0), plan),
    ):
        with pytest.raises(RuntimeError):
            call()


def test_a_permutation_that_is_none_is_refused():
    """A plan built by hand must not make the kernel read outside of the source."""
    offsets = torch.tensor([0, 2, 3])
    for permutation in (torch.tensor([0, 1, 3]), torch.tensor([0, -1, 2])):
        plan = SegmentPlan(permutation, offsets, 3, torch.Size([3]))
        with pytest.raises((RuntimeError, IndexError)):
            reprocuda.segment_sum(torch.ones(3), plan)
