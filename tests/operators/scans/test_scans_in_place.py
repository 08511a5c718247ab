"""Prefix sums and products written into their input: derivatives, views, and what torch refuses. Beside torch's own."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import reprocuda

NAMES = ("cumsum", "cumprod")


def in_place(name, dim=0):
    ours, native = getattr(reprocuda, f"{name}_"), getattr(torch.Tensor, f"{name}_")
    return (lambda x: ours(x, dim)), (lambda x: native(x, dim))


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name):
    ours, native = in_place(name, 1)
    x = torch.rand(2, 4, dtype=torch.float64) + 0.5
    x[0, 2] = 0
    x.requires_grad_()
    assert gradcheck(lambda x: ours(x.clone()), x, check_forward_ad=True) and gradgradcheck(lambda x: ours(x * 1), x)
    seed = torch.rand(2, 4, dtype=torch.float64)
    got, want = (torch.autograd.grad(call(x * 1), x, seed)[0] for call in (ours, native))
    torch.testing.assert_close(got, want)  # torch's, rounded at every step
    with pytest.raises(RuntimeError, match="leaf"):
        ours(x)


@pytest.mark.parametrize("name", NAMES)
def test_a_view_that_conjugates_or_negates_is_written_through(name):
    ours, native = in_place(name)
    for view in (torch.conj, torch._neg_view):
        x = torch.tensor([1 + 2j, -1j, 3])
        y = x.clone()
        ours(view(x))
        native(view(y))
        assert torch.equal(x, y)


@pytest.mark.parametrize("name", NAMES)
def test_an_inference_tensor_is_refused_outside_inference_mode(name):
    with torch.inference_mode():
        x = torch.ones(3)
    ours, native = in_place(name)
    for call in (ours, native):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            call(x)
        assert call is native or x.tolist() == [1, 1, 1]  # torch's has written by then


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), ()])
@pytest.mark.parametrize("name", [*NAMES, "logcumsumexp"])
def test_gradients_of_nothing_and_of_one(name, shape):
    x = torch.full(shape, 0.5)
    results = [
        torch.func.grad(lambda x, ns=ns: getattr(ns, name)(x, 0).sum())(x) for ns in (torch, reprocuda)
    ]  # fmt: skip
    assert torch.equal(*results)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: getattr(reprocuda, name)(x, 0).sum(), backend="aot_eager", fullgraph=True)
    leaf = x.clone().requires_grad_()
    compiled(leaf).backward()
    assert torch.equal(leaf.grad, results[0])


def test_the_product_of_one_element_has_the_gradient_1_whatever_it_is():
    for value in (torch.inf, torch.nan, 0.0):
        x = torch.tensor([value], requires_grad=True)
        reprocuda.cumprod(x, 0).backward()
        assert x.grad.item() == 1


def test_the_forward_derivative_of_leading_infinities_is_0():
    x, tangent = torch.tensor([-torch.inf, -torch.inf, 1, 2]), torch.tensor([1.0, 2, 3, 4])
    got, want = (torch.func.jvp(lambda x, ns=ns: ns.logcumsumexp(x, 0), (x,), (tangent,)) for ns in (reprocuda, torch))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other)  # torch's exp and log


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_in_transforms_and_in_compiled_code(name):
    ours, native = in_place(name)
    x = torch.tensor([2.0, 3.0, 0.5])
    of_ours, of_native = (torch.func.grad(lambda a, call=call: (call(a * 1) ** 2).sum()) for call in (ours, native))
    assert torch.equal(of_ours(x), of_native(x))
    batch = torch.stack([x, x + 1])
    assert torch.equal(torch.func.vmap(of_ours)(batch), torch.stack([of_native(row) for row in batch]))
    assert torch.equal(torch.func.jacrev(lambda a: ours(a * 1))(x), torch.func.jacrev(lambda a: native(a * 1))(x))
    torch._dynamo.reset()
    leaf = x.clone().requires_grad_()
    torch.compile(lambda a: (ours(a * 1) ** 2).sum(), backend="aot_eager", fullgraph=True)(leaf).backward()
    assert torch.equal(leaf.grad, of_native(x))
