"""cumprod and logcumsumexp: the bits of the order that is documented, torch's arguments, derivatives of both orders."""

import hashlib

import pytest
import torch

import reprocuda
from tests.operators.bits import assert_same_bits, threads
from tests.operators.running_products import CASES, LONG, SHAPES, compute, numbers, reference
from tests.processes import by_instruction_set

FUNCTIONS = {"cumprod": reprocuda.cumprod, "logcumsumexp": reprocuda.logcumsumexp}


@pytest.mark.parametrize("name, dtype", CASES, ids=str)
def test_bits_of_the_documented_order(name, dtype):
    for shape in SHAPES:
        for special in (False, True):
            x = numbers(shape, dtype, name, special)
            assert_same_bits(compute(name, x), reference(name, x), f"{shape} {special}")


@pytest.mark.parametrize("shape", LONG, ids=str)
@pytest.mark.parametrize(
    "name, dtype",
    [
        ("cumprod", torch.float32),
        ("cumprod", torch.complex128),
        ("cumprod", torch.int64),
        ("logcumsumexp", torch.float64),
    ],
    ids=str,
)
def test_any_number_of_threads(name, dtype, shape):
    x = numbers(shape, dtype, name)
    want = reference(name, x)
    for count in (1, 2, 3):
        with threads(count):
            assert_same_bits(flushing(lambda: compute(name, x)), want, f"{count} threads")
    if name == "cumprod":
        assert_same_bits(reprocuda.cumprod_(x.clone(), 1), want)


def flushing(call):
    torch.set_flush_denormal(True)
    try:
        return call()
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("count", [1, 2, 16])
def test_subnormal_totals_are_kept_whatever_the_caller_does(count):
    x = torch.ones(100_000, dtype=torch.float64)
    x[0] = 1e-310
    with threads(count):
        assert_same_bits(flushing(lambda: reprocuda.cumprod(x, 0)), torch.full_like(x, 1e-310))


def digest():
    total = hashlib.sha256()
    for name, dtype in CASES:
        for shape in SHAPES:
            x = compute(name, numbers(shape, dtype, name, True))
            x = torch.view_as_real(x) if x.is_complex() else x
            total.update(x.contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def test_the_same_bits_by_every_instruction_set():
    program = "from tests.operators.scans import test_running_products as t; print(t.digest())"
    assert {*by_instruction_set(program).values()} == {digest()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_close_to_torch(name):
    """Whose order is another: in float64, a few roundings apart."""
    for shape in (*SHAPES, LONG[0]):
        x = numbers(shape, torch.float64, name)
        torch.testing.assert_close(FUNCTIONS[name](x, 1), getattr(torch, name)(x, 1), rtol=1e-10, atol=1e-300)


def test_arguments():
    x = numbers((4, 5, 6), torch.float32)
    for call, own in ((reprocuda.cumprod, torch.cumprod), (reprocuda.logcumsumexp, torch.logcumsumexp)):
        name = own.__name__
        for dim in (0, -1, 1):
            want = call(x, dim)
            torch.testing.assert_close(want, own(x, dim))  # whose order is another
            assert_same_bits(call(x.transpose(0, 2), 2 - dim % 3), want.transpose(0, 2))
            for out in (torch.empty(4, 5, 6), torch.empty(6, 5, 4).transpose(0, 2), torch.empty(0), x.clone()):
                assert call(x, dim, out=out) is out
                assert_same_bits(out, want)
            same = x.clone()
            assert_same_bits(call(same, dim, out=same), want)
        assert call(torch.tensor(2.0), 0).shape == () and call(torch.zeros(0, 3), 0).shape == (0, 3), name
        for bad in (3, -4):
            with pytest.raises(IndexError):
                call(x, bad)
        for out in (torch.empty(1).expand(4, 5, 6), "no"):
            with pytest.raises((RuntimeError, TypeError)):
                call(x, 0, out=out)
        with pytest.raises(RuntimeError, match="memory"):
            memory = torch.ones(21)
            call(memory[:20], 0, out=memory[1:])
    assert reprocuda.cumprod(torch.ones(2, dtype=torch.bool), 0).dtype == torch.int64
    assert reprocuda.cumprod(torch.tensor([3, 4]), 0, dtype=torch.float16).tolist() == [3, 12]
    assert_same_bits(reprocuda.cumprod_(x.clone().T.contiguous().T, 1), reprocuda.cumprod(x, 1))
    with pytest.raises(RuntimeError, match=r"single memory location|share"):
        reprocuda.cumprod_(torch.ones(1).expand(3), 0)
    for dtype in (torch.bool, torch.int32):
        with pytest.raises(NotImplementedError):
            reprocuda.logcumsumexp(torch.ones(3, dtype=dtype), 0)
    with pytest.raises(RuntimeError, match="expected scalar_type Float but found Long"):
        reprocuda.logcumsumexp(x, 0, out=torch.empty(4, 5, 6, dtype=torch.long))
    assert reprocuda.cumprod(x, 0, out=torch.empty(4, 5, 6, dtype=torch.long)).dtype == torch.long
    complex_ = numbers((2, 3), torch.complex64)
    assert_same_bits(reprocuda.logcumsumexp(complex_, 1), torch.logcumsumexp(complex_, 1))


def test_enabled():
    x = numbers((3, 700), torch.float32)
    wanted = {name: FUNCTIONS[name](x, 1) for name in FUNCTIONS}
    with reprocuda.enabled(["cumprod", "logcumsumexp"]):
        for name, want in wanted.items():
            own = getattr(torch, name)
            assert_same_bits(own(x, 1), want)
            assert_same_bits(own(x, -1, out=torch.empty(2)), want)
            assert_same_bits(own(x.T, 0, out=torch.empty(3, 700).T), want.T)
        assert_same_bits(x.clone().cumprod_(1), wanted["cumprod"])
        assert_same_bits(torch.cumprod(x, 1, dtype=torch.float64), reprocuda.cumprod(x, 1, dtype=torch.float64))
        complex_ = numbers((2, 3), torch.complex64)
        assert torch.logcumsumexp(complex_, 1).dtype == torch.complex64


ZEROS = torch.tensor([[1, 2, 3, 0.5], [0, 2, 3, 4], [2, 0, 3, 4], [2, 0, 5, 0], [0, 0, 0, 0]], dtype=torch.float64)


@pytest.mark.parametrize("dim", [0, 1])
def test_derivatives_of_products(dim):
    for x in (ZEROS.clone(), numbers((4, 3), torch.complex128)):
        x.requires_grad_()

        def function(x):
            return reprocuda.cumprod(x, dim)

        torch.autograd.gradcheck(function, x, check_forward_ad=True)
        torch.autograd.gradgradcheck(function, x)
        weights, direction = torch.randn_like(x), torch.randn_like(x)
        for create_graph in (False, True):
            got, want = (
                torch.autograd.grad(call(x, dim), x, weights, create_graph=create_graph)[0]
                for call in (reprocuda.cumprod, torch.cumprod)
            )
            torch.testing.assert_close(got, want)  # torch's own formula, in another order; so the second derivative
        second = [torch.autograd.grad(first, x, direction)[0] for first in (got, want)]
        torch.testing.assert_close(*second)


def test_derivatives_of_logarithms():
    x = numbers((4, 5), torch.float64).requires_grad_()

    def function(x):
        return reprocuda.logcumsumexp(x, 1)

    torch.autograd.gradcheck(function, x, check_forward_ad=True)
    torch.autograd.gradgradcheck(function, x, check_fwd_over_rev=True)
    weights = torch.tensor([1.0, 0.0, -2.0, 0.0, 3.0], dtype=torch.float64).expand(4, 5)
    calls = (reprocuda.logcumsumexp, torch.logcumsumexp)
    got, want = (torch.autograd.grad(call(x, 1), x, weights)[0] for call in calls)
    torch.testing.assert_close(got, want)  # torch's own formula
    torch.autograd.gradcheck(lambda x, w: torch.autograd.grad(function(x), x, w, create_graph=True)[0],
                             (x, weights.clone().requires_grad_()))  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_of_derivatives(name):
    results = []
    for count in (1, 2):
        x = numbers((3, 40_000), torch.float32, name).requires_grad_()
        with threads(count):
            (first,) = torch.autograd.grad(FUNCTIONS[name](x, 1).sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(first.square().sum(), x)
        results.append((first, second))
    for one, other in zip(*results, strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms(name):
    function, own = FUNCTIONS[name], getattr(torch, name)
    x = numbers((3, 4, 5), torch.float64)
    assert_same_bits(torch.vmap(lambda x: function(x, 1), in_dims=2)(x), function(x, 1).movedim(2, 0))
    assert_same_bits(torch.vmap(lambda x: function(x, -1))(x[:, 0, 0]), x[:, 0, 0])
    for y in (x[0, 0], torch.tensor([2.0, 0.0, 3.0, 0.0, 1.0], dtype=torch.float64)):
        hessians = [torch.func.hessian(lambda y, call=call: call(y, 0).square().sum())(y) for call in (function, own)]
        torch.testing.assert_close(*hessians)  # torch's own formula
    jacobians = torch.vmap(torch.func.jacrev(lambda y: function(y, 0)))(x[0])
    assert_same_bits(jacobians, torch.stack([torch.func.jacrev(lambda y: function(y, 0))(row) for row in x[0]]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_code(name):
    compiled = torch.compile(lambda x: FUNCTIONS[name](x, 0), backend="aot_eager", fullgraph=True)
    results = []
    for call in (compiled, lambda x: FUNCTIONS[name](x, 0)):
        x = ZEROS.clone().requires_grad_()
        result = call(x)
        result.sum().backward()
        results.append((result, x.grad))
    for got, want in zip(*results, strict=True):
        assert_same_bits(got, want)
