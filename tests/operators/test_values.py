"""The operators give torch's values, for every dtype that torch takes, on any layout."""

import pytest
import torch

import reprocuda
from tests.operators.bits import assert_same_bits
from tests.operators.table import CASES, TORCH, each_with

FLOATS = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
FORWARD_SUMS = [case for case in CASES if case.sums_forward]


def changed(inputs, real, pairs):
    """Floating inputs by one function, complex ones by another."""

    def change(tensor):
        if tensor.is_complex():
            return pairs(tensor)
        return real(tensor) if tensor.is_floating_point() else tensor

    return {name: change(tensor) for name, tensor in inputs.items()}


def widened(inputs):
    return changed(inputs, torch.Tensor.double, lambda tensor: tensor.to(torch.complex128))


def shortened(inputs):
    """As numbers of three bits: doubles hold their sums whole, and products of up to 17 of them."""

    def short(tensor):
        return tensor.to(torch.float8_e5m2).to(tensor.dtype)

    return changed(inputs, short, lambda tensor: torch.view_as_complex(short(torch.view_as_real(tensor))))


def readable(case, dtype):
    """Whether torch's own reader, which is ours too, has a kernel for this dtype."""
    try:
        case.run(TORCH, case.inputs(1, dtype))
    except RuntimeError:
        return False
    return True


@each_with(CASES, FLOATS, lambda case, dtype: case.sums_forward or readable(case, dtype))
def test_floating_sums_are_torchs_in_double_precision(case, dtype):
    """Rounded once more. Where that is no more than doubles have, of numbers so short that doubles are exact."""
    inputs = case.with_grad(case.inputs(50, dtype), dtype)
    if dtype in (torch.float64, torch.complex128):
        inputs = shortened(inputs)
    assert_same_bits(case.sum(reprocuda, inputs), case.sum(TORCH, widened(inputs)).to(dtype), case.name)


def has_alpha(case, dtype):
    """Whether the number -3, which some cases have as alpha, is one of the dtype's."""
    return "alpha" not in case.variant or dtype not in (torch.uint8, torch.bool)


@each_with(FORWARD_SUMS, INTEGERS, has_alpha)
def test_integers_wrap_around_and_bools_are_an_or(case, dtype):
    # torch counts the members of a mean in its own dtype.
    inputs = case.inputs(200 if "mean" in case.variant else 600, dtype)
    if case.operator == "segment_sum":
        want = torch.stack([part.sum(0, dtype=torch.int64) for part in inputs["src"].split([200, 0, 400])])
        want = want.to(dtype) if dtype != torch.bool else want > 0
    else:
        want = case.run(TORCH, inputs)
    assert torch.equal(case.run(reprocuda, inputs), want)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_layout_does_not_matter(case):
    inputs = case.with_grad(case.inputs(40, torch.float32), torch.float32)
    want = case.sum(reprocuda, inputs)
    for relaid in (
        {name: torch.stack([t, t], -1)[..., 0] for name, t in inputs.items()},
        {name: t.transpose(0, -1).contiguous().transpose(0, -1) for name, t in inputs.items()},
        {name: torch.cat([t[:1], t])[1:] for name, t in inputs.items()},
        {name: t.int() if t.dtype == torch.int64 else t for name, t in inputs.items()},
    ):
        if case.operator in ("take_along_dim", "take", "put") and relaid["i"].dtype == torch.int32:
            continue  # torch takes int64 only
        assert_same_bits(case.sum(reprocuda, relaid), want, case.name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_expanded_contributions_and_gradients(dtype):
    """A gradient of stride 0, as y.sum().backward() sends it, and a source expanded from one number."""
    index = torch.tensor([2, 0, 2, 2])
    one = torch.ones((), dtype=dtype)
    assert reprocuda.index_add(torch.zeros(3, dtype=dtype), 0, index, one.expand(4)).tolist() == [1, 0, 3]
    assert reprocuda.scatter_add(torch.zeros(3, 2, dtype=dtype), 0, index[:, None], one.expand(4, 1)).tolist() == [
        [1, 0],
        [0, 0],
        [3, 0],
    ]
    for read in (
        lambda x: reprocuda.index_select(x, 0, index),
        lambda x: reprocuda.embedding(index, x),
        lambda x: reprocuda.index(x, index),
        lambda x: reprocuda.gather(x, 0, index[:, None].expand(-1, 2)),
    ):
        x = torch.zeros(3, 2, dtype=dtype, requires_grad=True)
        read(x).sum().backward()
        assert x.grad.tolist() == [[1, 1], [0, 0], [3, 3]]


def test_empty_and_zero_dimensional():
    empty, none = torch.zeros(0), torch.zeros(0, dtype=torch.long)
    assert reprocuda.index_add(empty, 0, none, empty).shape == (0,)
    assert reprocuda.index_add(torch.ones(3), 0, none, empty).tolist() == [1, 1, 1]
    assert reprocuda.index_add(torch.ones(3, 0), 0, torch.tensor([1]), torch.ones(1, 0)).shape == (3, 0)
    assert (
        reprocuda.scatter_add(torch.ones(4, 5, 6), 2, torch.zeros(4, 5, 0, dtype=torch.long), torch.ones(4, 5, 0))
        .eq(1)
        .all()
    )
    assert reprocuda.index_put(torch.ones(2), (none,), empty, True).tolist() == [1, 1]
    assert reprocuda.segment_sum(empty, torch.tensor([0])).shape == (0,)
    assert reprocuda.segment_sum(torch.ones(0, 3), torch.tensor([0, 0, 0])).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert reprocuda.embedding(none, torch.ones(2, 3)).shape == (0, 3)
    scalar = torch.tensor(1.0)
    assert reprocuda.index_add(scalar, 0, torch.tensor([0]), torch.tensor(2.0)).item() == 3
    assert reprocuda.index_add(scalar, -1, torch.tensor(0), torch.tensor(2.0)).item() == 3
    assert reprocuda.scatter_add(scalar, 0, torch.tensor(0), torch.tensor(2.0)).item() == 3
    assert reprocuda.gather(scalar, 0, torch.tensor([0, 0])).tolist() == [1, 1]
    assert (
        reprocuda.index_select(scalar, 0, torch.tensor([0])).tolist()
        == scalar.index_select(0, torch.tensor([0])).tolist()
    )


def test_masks_none_and_broadcast_values():
    x = torch.zeros(2, 3, 2)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    values = torch.tensor([1.0, 10.0])
    assert torch.equal(reprocuda.index_put(x, (mask,), values, True), x.index_put((mask,), values, accumulate=True))
    rows = torch.tensor([0, 0, 1])
    got = reprocuda.index_put(x, (None, rows), values, True)
    assert torch.equal(got, torch.tensor([[[2.0, 20], [1, 10], [0, 0]]] * 2))
    mixed = reprocuda.index_put(x, (torch.tensor([True, False]), None, torch.tensor([1])), torch.tensor(5.0), True)
    assert mixed.sum() == 15 and mixed[0, :, 1].tolist() == [5, 5, 5]
    byte = torch.tensor([1, 0], dtype=torch.uint8)
    assert reprocuda.index_put(torch.zeros(2), (byte,), torch.ones(1), True).tolist() == [1, 0]


def test_nothing_is_aliased_or_changed():
    x, index, source = torch.zeros(3), torch.tensor([0, 0]), torch.ones(2)
    for result in (
        reprocuda.index_add(x, 0, index, source),
        reprocuda.scatter_add(x, 0, index, source),
        reprocuda.index_put(x, (index,), source, True),
        reprocuda.index_add(x, 0, torch.zeros(0, dtype=torch.long), torch.zeros(0)),
        reprocuda.scatter_add(x, 0, torch.zeros(0, dtype=torch.long), torch.zeros(0)),
    ):
        assert result.data_ptr() != x.data_ptr() and x.tolist() == [0, 0, 0]
