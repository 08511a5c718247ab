"""Means of complex numbers are those of their parts; their products are torch's, in source order."""

import pytest
import torch

import reprocuda
from tests.operators.adversarial import make
from tests.operators.bits import assert_same_bits, threads
from tests.operators.forcing import forced

COMPLEX = {torch.complex64: torch.float32, torch.complex128: torch.float64}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def numbers(kind, shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.view_as_complex(make(kind, (*shape, 2), COMPLEX[dtype], generator))


def index_for(shape, targets, seed=1):
    return torch.randint(0, targets, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("kind", ["normal", "wide", "special"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_a_mean_is_that_of_the_parts(dtype, kind, include_self):
    for shape, targets in (((400, 3), 7), ((3000, 1), 2000), ((20_000,), 5)):
        x = numbers(kind, (targets, *shape[1:]), dtype, 2)
        src = numbers(kind, shape, dtype, 3)
        for index in (index_for(shape, targets), index_for(shape[:1], targets).view(-1, *[1] * (len(shape) - 1))):
            index = index.expand(shape)
            parts = index.unsqueeze(-1).expand(*shape, 2)
            real = torch.view_as_real(x), 0, parts, torch.view_as_real(src)
            want = reprocuda.scatter_reduce(*real, "mean", include_self=include_self)
            for algorithm in ("auto", "rows"):
                with forced(algorithm):
                    got = reprocuda.scatter_reduce(x, 0, index, src, "mean", include_self=include_self)
                assert_same_bits(torch.view_as_real(got), want, f"{shape} {algorithm}")
            with reprocuda.enabled():
                got = torch.scatter_reduce(x, 0, index, src, "mean", include_self=include_self)
                assert_same_bits(torch.view_as_real(got), want)
                into = x.clone()
                into.scatter_reduce_(0, index, src, "mean", include_self=include_self)
                assert_same_bits(torch.view_as_real(into), want)


def test_a_mean_of_two_parts():
    x, src = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([1j, 2 + 0j, 2 + 1j])
    got = reprocuda.scatter_reduce(x, 0, torch.tensor([0, 1, 0]), src, "mean")
    assert got.tolist() == [torch.tensor([1 + 4 / 3 * 1j]).item(), 2.5 - 0.5j]
    assert reprocuda.scatter.scatter_mean(src, torch.tensor([0, 1, 0])).tolist() == [1 + 1j, 2]
    out = torch.tensor([1 + 1j, 0])
    assert reprocuda.scatter.scatter_mean(src, torch.tensor([0, 1, 0]), out=out).tolist() == [1.5 + 1.5j, 2]


@pytest.mark.parametrize("include_self", [True, False])
def test_the_derivatives_of_a_mean(include_self):
    index = torch.tensor([0, 1, 0])
    x, src = numbers("normal", (3,), torch.complex128, 4), numbers("normal", (3,), torch.complex128, 5)

    def mean(x, src):
        return reprocuda.scatter_reduce(x, 0, index, src, "mean", include_self=include_self)

    inputs = x.requires_grad_(), src.requires_grad_()
    assert torch.autograd.gradcheck(mean, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(mean, inputs)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_products_are_torchs(dtype):
    """What a loop gives, but for what torch's instruction sets fuse; the same bits with any number of threads."""
    shape, targets = (600, 40), 9
    x, src = numbers("normal", (targets, 40), dtype, 6), numbers("normal", shape, dtype, 7)
    index = index_for(shape, targets)
    want = x.clone()
    columns = torch.arange(40)
    for i in range(600):
        want[index[i], columns] = want[index[i], columns] * src[i]
    torch.testing.assert_close(torch.scatter_reduce(x, 0, index, src, "prod"), want, rtol=1e-3, atol=0)
    calls = {
        "scatter_reduce": lambda ns: ns.scatter_reduce(x, 0, index, src, "prod"),
        "scatter": lambda ns: ns.scatter(x, 0, index, src, reduce="multiply"),
        "in place": lambda ns: x.clone().scatter_reduce_(0, index, src, "prod"),
        "ours in place": lambda ns: reprocuda.scatter_reduce_(x.clone(), 0, index, src, "prod"),
        "out": lambda ns: ns.scatter_reduce(x, 0, index, src, "prod", out=torch.empty_like(x)),
    }
    results = []
    for call in calls.values():
        for ns, ops in ((reprocuda, []), (torch, None)):
            for count in (1, 2):
                with reprocuda.enabled(ops=ops), threads(count):
                    results.append(torch.view_as_real(call(ns)))
    for result in results[1:]:
        assert_same_bits(result, results[0])


def test_strict_refuses_products():
    x, src, index = torch.ones(2, dtype=torch.complex64), torch.ones(3, dtype=torch.complex64), torch.tensor([0, 1, 0])
    with reprocuda.enabled(strict=True):
        with pytest.raises(RuntimeError, match="complex numbers can only be summed"):
            torch.scatter_reduce(x, 0, index, src, "prod")
        with pytest.raises(RuntimeError, match="complex numbers can only be summed"):
            torch.scatter(x, 0, index, src, reduce="multiply")
    with pytest.raises(RuntimeError, match=r"scatter_mul\(\): src must be real, got torch.complex64"):
        reprocuda.scatter.scatter_mul(src, index)


def test_what_torch_refuses_stays_refused():
    x, src, index = torch.ones(2, dtype=torch.complex64), torch.ones(3, dtype=torch.complex64), torch.tensor([0, 1, 0])
    for ns, ops in ((reprocuda, []), (torch, None)):
        with reprocuda.enabled(ops=ops):
            for call in (
                lambda ns=ns: ns.scatter_reduce(x, 0, index, src, "amax"),
                lambda ns=ns: ns.index_reduce(x, 0, index, src, "mean"),
                lambda ns=ns: ns.index_reduce(x, 0, index, src, "prod"),
            ):
                with pytest.raises(NotImplementedError):
                    call()


@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize("source", [torch.tensor([2j, 3j, 1 + 1j]), 2j], ids=["tensor", "number"])
def test_scatters_product_takes_what_requires_a_gradient(source):
    """As torch's, whose error comes with the backward; scatter_reduce refuses it before."""
    index = torch.tensor([0, 0, 1])
    x = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    want = torch.scatter(x, 0, index, source, reduce="multiply")
    for ours in (
        reprocuda.scatter(x, 0, index, source, reduce="multiply"),
        reprocuda.scatter_(x.clone(), 0, index, source, reduce="multiply"),
    ):
        assert torch.equal(ours, want) and ours.requires_grad
        with pytest.raises(RuntimeError, match="not implemented"):
            ours.abs().sum().backward()
    with torch.no_grad():
        out = torch.empty(2, dtype=torch.complex64)
        assert torch.equal(reprocuda.scatter(x, 0, index, source, reduce="multiply", out=out), want)
