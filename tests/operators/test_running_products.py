"""cumprod and logcumsumexp: the bits of the order that is documented, torch's arguments, derivatives of both orders."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reprocuda_numerics as numerics
import torch

import reprocuda
from tests.operators.bits import NAMES, assert_same_bits, from_numpy_bits, threads

ROOT = Path(__file__).parents[2]
BLOCK, BLOCKS_OF_GROUP = 64, 256
SHAPES = [(1, 1, 1), (3, 63, 1), (1, 64, 1), (9, 65, 1), (2, 130, 3), (1, 700, 1), (11, 200, 2), (2, 1, 5), (1, 90, 17)]
SHAPES += [(90, 4, 25), (3, 64, 32), (3, 64, 33), (20, 7, 3), (2, 33, 16)]  # about as many neighbours as are short
LONG = [(1, 2 * BLOCK * BLOCKS_OF_GROUP + 70, 1), (1, BLOCK * BLOCKS_OF_GROUP, 2), (9, BLOCK * BLOCKS_OF_GROUP + 1, 1)]
FUNCTIONS = {"cumprod": reprocuda.cumprod, "logcumsumexp": reprocuda.logcumsumexp}


def exp(x):
    return numerics.exp(x).view(np.float64).reshape(np.shape(x))


def log(x):
    return numerics.log(x).view(np.float64).reshape(np.shape(x))


class Product:
    """States are arrays of a dtype: [slices]."""

    start = staticmethod(lambda x: x)
    finish = staticmethod(lambda state: state)

    @staticmethod
    def combine(a, b):
        if not np.iscomplexobj(a):
            return a * b
        return pack(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def pack(real, imag):
    result = np.empty(real.shape, np.complex128)
    result.real, result.imag = real, imag
    return result


class LogSumExp:
    """States are pairs: the largest, and the sum of exponentials relative to it."""

    @staticmethod
    def start(x):
        return x, np.ones_like(x)

    @staticmethod
    def combine(a, b):
        second = (b[0] > a[0]) | np.isnan(b[0])
        largest, other = np.where(second, b[0], a[0]), np.where(second, a[0], b[0])
        scale = exp(np.where(other == largest, 0, other - largest))
        return largest, np.where(second, a[1] * scale + b[1], a[1] + b[1] * scale)

    @staticmethod
    def finish(state):
        return state[0] + log(state[1])


def in_order(x, op):
    """The order of csrc/numerics/running.h, for x [outer, length, inner]."""
    length = x.shape[1]
    result = np.empty_like(x)
    before_group = None
    for first_of_group in range(0, length, BLOCK * BLOCKS_OF_GROUP):
        in_group = None
        for first in range(first_of_group, min(length, first_of_group + BLOCK * BLOCKS_OF_GROUP), BLOCK):
            parts = [part for part in (before_group, in_group) if part is not None]
            before = op.combine(*parts) if len(parts) == 2 else parts[0] if parts else None
            own = None
            for i in range(first, min(length, first + BLOCK)):
                element = op.start(x[:, i])
                own = element if own is None else op.combine(own, element)
                result[:, i] = op.finish(own if before is None else op.combine(before, own))
            in_group = own if in_group is None else op.combine(in_group, own)
        before_group = in_group if before_group is None else op.combine(before_group, in_group)
    return result


def reference(name, x):
    """As a tensor like x, whose dtype is rounded to once."""
    with np.errstate(all="ignore"):
        if not (x.is_floating_point() or x.is_complex()):
            return torch.from_numpy(in_order(x.numpy(), Product))
        wide = x.to(torch.complex128 if x.is_complex() else torch.float64).numpy()
        result = in_order(wide, Product if name == "cumprod" else LogSumExp)
    if x.is_complex():
        parts = [rounded(part, x.real.dtype) for part in (result.real, result.imag)]
        return torch.complex(*parts) if x.dtype != torch.complex32 else torch.view_as_complex(torch.stack(parts, -1))
    return rounded(result, x.dtype)


def rounded(values, dtype):
    values = np.ascontiguousarray(values)
    bits = numerics.round_to(values.reshape(-1), NAMES[dtype]).astype(f"u{dtype.itemsize}")
    return from_numpy_bits(bits.reshape(values.shape), dtype)


def numbers(shape, dtype, name="cumprod", special=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(-9, 9, shape, generator=generator).to(dtype) * 2 + 1
    spread = 0.2 if name == "cumprod" else 20.0
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * spread + (name == "cumprod")
    if dtype.is_complex:
        x = torch.complex(x, torch.randn(shape, generator=generator, dtype=torch.float64))
        x = x / x.abs() * (1 + 0.01 * torch.randn(shape, generator=generator, dtype=torch.float64))
    if special:
        values = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e300, 1e-300, -1e-310], dtype=x.dtype)
        where = torch.rand(shape, generator=generator) < 0.03
        x[where] = values[torch.randint(len(values), (int(where.sum()),), generator=generator)]
        if name == "logcumsumexp":
            x[:, :2] = -torch.inf
    return x.to(dtype)


EVERY = {
    "cumprod": [
        *NAMES, torch.complex32, torch.complex64, torch.complex128, torch.uint8, torch.int16, torch.int32, torch.int64,
    ],
    "logcumsumexp": [*NAMES],
}  # fmt: skip
CASES = [(name, dtype) for name, dtypes in EVERY.items() for dtype in dtypes]


def compute(name, x, dim=1):
    return reprocuda.cumprod(x, dim, dtype=x.dtype) if name == "cumprod" else reprocuda.logcumsumexp(x, dim)


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
    program = "from tests.operators import test_running_products as t; print(t.digest())"
    found = set()
    for isa in ("portable", "avx2", "avx512"):
        environment = {**os.environ, "REPROCUDA_CPU_ISA": isa, "PYTHONPATH": f"{ROOT}:{ROOT / 'build' / 'native'}"}
        command = [sys.executable, "-W", "ignore", "-c", program]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
        found.add(run.stdout.strip())
    assert found == {digest()}


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
            torch.testing.assert_close(want, own(x, dim))
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
            torch.testing.assert_close(got, want)
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
    torch.testing.assert_close(got, want)
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
    torch.testing.assert_close(torch.vmap(lambda x: function(x, 1), in_dims=2)(x), own(x, 1).movedim(2, 0))
    torch.testing.assert_close(torch.vmap(lambda x: function(x, -1))(x[:, 0, 0]), x[:, 0, 0])
    for y in (x[0, 0], torch.tensor([2.0, 0.0, 3.0, 0.0, 1.0], dtype=torch.float64)):
        hessians = [torch.func.hessian(lambda y, call=call: call(y, 0).square().sum())(y) for call in (function, own)]
        torch.testing.assert_close(*hessians)
    jacobians = torch.vmap(torch.func.jacrev(lambda y: function(y, 0)))(x[0])
    torch.testing.assert_close(jacobians, torch.vmap(torch.func.jacrev(lambda y: own(y, 0)))(x[0]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_code(name):
    compiled = torch.compile(lambda x: FUNCTIONS[name](x, 0), backend="aot_eager", fullgraph=True)
    results = []
    for call in (compiled, lambda x: FUNCTIONS[name](x, 0)):
        x = ZEROS.clone().requires_grad_()
        result = call(x)
        result.sum().backward()
        results.append((result, x.grad))
    torch.testing.assert_close(*results)
