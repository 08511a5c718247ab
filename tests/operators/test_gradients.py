"""Derivatives of the first and second order, backward and forward, against finite differences; autograd's books."""

import pytest
import torch
from torch.autograd import forward_ad

import reprocuda
from tests import oracle
from tests.operators.bits import assert_same_bits, from_numpy_bits, to_numpy_bits
from tests.operators.table import CASES, each_with


def differentiable(case, inputs):
    fixed = {name: tensor for name, tensor in inputs.items() if name not in case.differentiable}
    leaves = [inputs[name].detach().clone().requires_grad_() for name in case.differentiable]

    def function(*tensors):
        return case.run(reprocuda, {**fixed, **dict(zip(case.differentiable, tensors, strict=True))})

    return function, leaves


@each_with(CASES, [torch.float64, torch.complex128])
def test_first_and_second_derivatives(case, dtype):
    function, leaves = differentiable(case, case.inputs(4, dtype))
    torch.autograd.gradcheck(
        function,
        leaves,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
        fast_mode=False,
    )
    torch.autograd.gradgradcheck(function, leaves, check_fwd_over_rev=True, check_rev_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("alpha", [2.5, -3, 1j, 0.5 - 2j])
def test_alpha_in_derivatives(alpha):
    """A complex factor is conjugated on the way back."""
    index, plan = torch.tensor([0, 2, 2]), reprocuda.SegmentPlan.from_index(torch.tensor([0, 2, 2]), 4)
    leaves = [torch.randn(n, dtype=torch.complex128, requires_grad=True) for n in (4, 3)]
    for where in (index, plan):

        def function(x, s):
            return reprocuda.index_add(x, 0, where, s, alpha=alpha)  # noqa: B023

        torch.autograd.gradcheck(function, leaves, check_forward_ad=True)
        torch.autograd.gradgradcheck(function, leaves)


def test_embedding_with_padding_and_frequency():
    """torch's gradient, which leaves the padding out, is not the derivative; its own derivative is checked."""
    indices = torch.tensor([[0, 2, 2], [1, 0, 0]])
    grad = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)

    def gradient_of(grad):
        weight = torch.zeros(4, 2, dtype=torch.float64, requires_grad=True)
        read = reprocuda.embedding(indices, weight, padding_idx=2, scale_grad_by_freq=True)
        return torch.autograd.grad(read, weight, grad, create_graph=True)[0]

    result = gradient_of(grad)
    assert torch.equal(result[2], torch.zeros(2, dtype=torch.float64))
    three = to_numpy_bits(torch.stack([grad[0, 0], grad[1, 1], grad[1, 2]], 1))
    assert to_numpy_bits(result[0]).tolist() == oracle.exact_sum(three, count=3, dtype="float64").tolist()
    torch.autograd.gradcheck(gradient_of, (grad,))


def test_broadcast_values_are_summed_exactly():
    x, rows = torch.zeros(3, 400), torch.randint(3, (500,))
    grad = torch.randn(3, 400) * 10 ** torch.randint(-3, 4, (3, 400))
    for shape in ((), (1,), (400,), (1, 400), (500, 1)):
        values = torch.zeros(shape, requires_grad=True)
        reprocuda.index_put(x, (rows,), values, True).backward(grad)
        shuffled = torch.zeros(shape, requires_grad=True)
        order = torch.randperm(500) if shape != (500, 1) else torch.arange(500)
        reprocuda.index_put(x, (rows[order],), shuffled, True).backward(grad)
        assert_same_bits(values.grad, shuffled.grad, str(shape))
        place = torch.arange(values.numel()).reshape(shape).expand(500, 400).reshape(-1)
        want = oracle.exact_segment_sums(to_numpy_bits(grad[rows]).reshape(-1), place, values.numel(), "float32")
        assert_same_bits(values.grad, from_numpy_bits(want, torch.float32).reshape(shape), str(shape))


def test_only_what_is_wanted_is_computed():
    index = torch.tensor([0, 0])
    x, source = torch.zeros(2, requires_grad=True), torch.ones(2)
    reprocuda.index_add(x, 0, index, source).sum().backward()
    assert x.grad is not None and source.grad is None
    x, source = torch.zeros(2), torch.ones(2, requires_grad=True)
    result = reprocuda.index_add(x, 0, index, source, alpha=3)
    result.sum().backward()
    assert source.grad.tolist() == [3, 3] and result.requires_grad
    with torch.no_grad():
        assert not reprocuda.index_add(x, 0, index, source).requires_grad
    assert not reprocuda.index_add(torch.zeros(2, dtype=torch.long), 0, index, index).requires_grad


IN_PLACE = {
    "index_add_": lambda x, s: reprocuda.index_add_(x, 0, torch.tensor([0, 0]), s),
    "scatter_add_": lambda x, s: reprocuda.scatter_add_(x, 0, torch.tensor([0, 0]), s),
    "index_put_": lambda x, s: reprocuda.index_put_(x, (torch.tensor([0, 0]),), s, True),
    "index_add_ planned": lambda x, s: reprocuda.index_add_(
        x, 0, reprocuda.SegmentPlan.from_index(torch.tensor([0, 0]), len(x)), s
    ),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms_keep_autograds_books(name):
    add_ = IN_PLACE[name]
    source = torch.ones(2, requires_grad=True)

    leaf = torch.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        add_(leaf, source)
    assert leaf.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="view of a leaf Variable"):
        add_(leaf[:2], source)

    saved = torch.ones(3, requires_grad=True) * 2
    square = saved**2
    add_(saved, source)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()

    for plain in (source.detach(), source):
        x = torch.zeros(3)
        before = x._version
        with torch.no_grad():
            assert add_(x, plain) is x
        assert x._version == before + 1 and x.tolist() == [2, 0, 0]

    base = torch.zeros(2, 3, requires_grad=True).clone()
    view = base[1]
    assert add_(view, source) is view
    assert base.tolist() == [[0, 0, 0], [2, 0, 0]]
    (base * torch.arange(6.0).reshape(2, 3)).sum().backward()
    assert source.grad.tolist() == [3, 3]

    with torch.inference_mode():
        assert add_(torch.zeros(3), torch.ones(2)).tolist() == [2, 0, 0]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_under_forward_mode(name):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.zeros(3), torch.tensor([5.0, 6, 7]))
        moved = x * 1
        source = forward_ad.make_dual(torch.ones(2), torch.tensor([1.0, 10]))
        assert IN_PLACE[name](moved, source) is moved
        assert forward_ad.unpack_dual(moved).tangent.tolist() == [16, 6, 7]
        assert forward_ad.unpack_dual(moved).primal.tolist() == [2, 0, 0]


def test_a_plan_is_shared_by_forward_and_backward():
    index = torch.randint(50, (400,))
    plan = reprocuda.SegmentPlan.from_index(index, 50)
    x = torch.randn(50, 8, requires_grad=True)
    messages = reprocuda.index_select(x, 0, plan) * 2
    result = reprocuda.index_add(torch.zeros(50, 8), 0, plan, messages)
    result.sum().backward()
    y = x.detach().clone().requires_grad_()
    torch.zeros(50, 8).index_add(0, index, y[index] * 2).sum().backward()
    assert_same_bits(x.grad, y.grad)  # small integers: torch's are exact as well


def test_out_wants_no_gradient():
    x, index = torch.zeros(2, requires_grad=True), torch.tensor([0])
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        reprocuda.index_add(x, 0, index, torch.ones(1), out=torch.empty(2))
    with torch.no_grad():
        assert reprocuda.index_add(x, 0, index, torch.ones(1), out=torch.empty(2)).tolist() == [1, 0]
