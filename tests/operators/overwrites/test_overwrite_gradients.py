"""Derivatives of plain writes through an index, eager, batched and compiled."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, vmap

import reprocuda
from tests.operators.bits import assert_same_bits

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def randint(bound, *shape):
    return torch.randint(min(bound, 0), abs(bound), shape)


NEAR = {  # two arguments that have a derivative, and the index
    "scatter": (lambda ns, x, s, i: ns.scatter(x, 0, i, s), (5, 3), (7, 3), lambda: randint(5, 7, 3)),
    "scatter, smaller index": (lambda ns, x, s, i: ns.scatter(x, -1, i, s), (5, 3), (5, 7), lambda: randint(3, 4, 6)),
    "scatter_": (lambda ns, x, s, i: ns.scatter_(x.clone(), 0, i, s), (5,), (7,), lambda: randint(5, 7)),
    "index_copy": (lambda ns, x, s, i: ns.index_copy(x, 1, i, s), (2, 5, 3), (2, 7, 3), lambda: randint(5, 7)),
    "index_copy_": (lambda ns, x, s, i: ns.index_copy_(x.clone(), 0, i, s), (5, 3), (7, 3), lambda: randint(5, 7)),
    "index_put": (lambda ns, x, s, i: ns.index_put(x, [None, i - 3], s), (2, 5, 3), (7, 1), lambda: randint(5, 7)),
    "index_put_": (
        lambda ns, x, s, i: ns.index_put_(x.clone(), [i, None, i], s), (3, 5, 3), (7, 5), lambda: randint(3, 7)),
    "index_fill": (lambda ns, x, s, i: ns.index_fill(x, 1, i, s), (2, 5), (), lambda: randint(5, 7)),
    "masked_scatter": (lambda ns, x, s, i: ns.masked_scatter(x, i == 0, s), (2, 1, 5), (30,), lambda: randint(2, 3, 1)),
    "put": (lambda ns, x, s, i: ns.put(x, i - 10, s), (2, 5), (7,), lambda: randint(10, 7)),
    "put_": (lambda ns, x, s, i: ns.put_(x.clone(), i, s), (2, 5), (7,), lambda: randint(10, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_derivatives(name):
    torch.manual_seed(0)
    call, x_shape, s_shape, make_index = NEAR[name]
    x = torch.randn(x_shape, dtype=torch.float64, requires_grad=True)
    s = torch.randn(s_shape, dtype=torch.float64, requires_grad=True)
    index = make_index()

    def run(x, s):
        return call(reprocuda, x, s, index)

    assert gradcheck(run, (x, s), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(run, (x, s))


@pytest.mark.parametrize("name", [name for name in NEAR if not name.endswith("_")])
def test_vmap_of_values_and_gradients(name):
    torch.manual_seed(0)
    call, x_shape, s_shape, make_index = NEAR[name]
    batch = torch.randn(4, *x_shape), torch.randn(4, *s_shape), torch.stack([make_index() for _ in range(4)])

    def run(x, s, index):
        return call(reprocuda, x, s, index)

    def loss(x, s, index):
        return (run(x, s, index) ** 2).sum()

    for dims in ((0, 0, 0), (0, 0, None), (None, 0, 0), (0, None, None), (None, None, 0)):
        given = [tensor if dim == 0 else tensor[0] for tensor, dim in zip(batch, dims, strict=True)]
        alone = [[t if dim is None else t[k] for t, dim in zip(given, dims, strict=True)] for k in range(4)]
        assert torch.equal(vmap(run, dims)(*given), torch.stack([run(*one) for one in alone])), dims
        for got, want in zip(
            vmap(grad(loss, (0, 1)), dims)(*given),
            zip(*[grad(loss, (0, 1))(*one) for one in alone], strict=True),
            strict=True,
        ):
            assert_same_bits(got, torch.stack(want))


@pytest.mark.parametrize("name", NEAR)
def test_compiled(name):
    torch.manual_seed(0)
    call, x_shape, s_shape, make_index = NEAR[name]
    x, s = torch.randn(x_shape, requires_grad=True), torch.randn(s_shape, requires_grad=True)
    index = make_index()
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, s, i: call(reprocuda, x, s, i), backend="aot_eager", fullgraph=True)
    got, want = compiled(x, s, index), call(reprocuda, x, s, index)
    assert torch.equal(got, want)
    weight = torch.randn_like(want)
    for mine, eager in zip(
        torch.autograd.grad(got, (x, s), weight), torch.autograd.grad(want, (x, s), weight), strict=True
    ):
        assert torch.equal(mine, eager)


def test_only_what_stands_gets_a_gradient():
    """torch gives every duplicate the gradient of its place; the derivative of what was computed is the last one's."""
    index = torch.tensor([1, 1, 1])
    for call in (
        lambda x, s: reprocuda.scatter(x, 0, index, s),
        lambda x, s: reprocuda.index_copy(x, 0, index, s),
        lambda x, s: reprocuda.index_put(x, (index,), s),
        lambda x, s: reprocuda.put(x, index, s),
    ):
        x, s = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)
        call(x, s).sum().backward()
        assert x.grad.tolist() == [1, 0, 1] and s.grad.tolist() == [0, 0, 1]


def test_a_gradient_of_a_broadcast_value_is_an_exact_sum():
    value = torch.zeros((), requires_grad=True)
    index = torch.tensor([0, 1, 2, 2])
    for result in (
        reprocuda.index_put(torch.zeros(4), (index,), value), reprocuda.index_fill(torch.zeros(4), 0, index, value),
    ):  # fmt: skip
        assert torch.autograd.grad(result, value, torch.tensor([1e8, 1.0, -1e8, 9.0]))[0].item() == 1
