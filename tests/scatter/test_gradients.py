"""torch_scatter's functions: derivatives of both orders and directions, transforms, opcheck, compiled code."""

import pytest
import torch

import reprocuda
from reprocuda import scatter
from tests.operators.bits import assert_same_bits, threads

INDEX = torch.tensor([0, 2, 2, 0, 4, 4, 4])
FULL = torch.tensor([[0, 1], [2, 2], [2, 0], [0, 0], [4, 1], [4, 3], [4, 2]])
POINTERS = torch.tensor([0, 2, 2, 5, 7])


def source(*shape):
    """Different numbers, so that no maximum is a tie."""
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    return (order.double().reshape(shape) - 3) / 4 + 0.1


FUNCTIONS = {
    "sum": lambda x: scatter.scatter_sum(x, INDEX, 0, dim_size=6),
    "sum of elements": lambda x: scatter.scatter_sum(x, FULL, 0, dim_size=6),
    "mul": lambda x: scatter.scatter_mul(x, INDEX, 0, dim_size=6),
    "mean": lambda x: scatter.scatter_mean(x, INDEX, 0, dim_size=6),
    "max": lambda x: scatter.scatter_max(x, INDEX, 0, dim_size=6)[0],
    "min of elements": lambda x: scatter.scatter_min(x, FULL, 0, dim_size=6)[0],
    "std": lambda x: scatter.scatter_std(x, INDEX, 0, dim_size=5)[[0, 2, 4]],
    "logsumexp": lambda x: scatter.scatter_logsumexp(x, INDEX, 0, dim_size=6),
    "softmax": lambda x: scatter.scatter_softmax(x, INDEX, 0, dim_size=6),
    "log_softmax": lambda x: scatter.scatter_log_softmax(x, INDEX, 0, dim_size=6),
    "coo sum": lambda x: scatter.segment_sum_coo(x, INDEX.sort()[0]),
    "coo mean": lambda x: scatter.segment_mean_coo(x, INDEX.sort()[0]),
    "coo max": lambda x: scatter.segment_max_coo(x, INDEX.sort()[0])[0],
    "csr sum": lambda x: scatter.segment_sum_csr(x, POINTERS),
    "csr mean": lambda x: scatter.segment_mean_csr(x, POINTERS),
    "csr min": lambda x: scatter.segment_min_csr(x, POINTERS)[0],
    "gather coo": lambda x: scatter.gather_coo(x, INDEX.sort()[0]),
    "gather csr": lambda x: scatter.gather_csr(x[:4], POINTERS),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name):
    function, x = FUNCTIONS[name], source(7, 2).requires_grad_()
    torch.autograd.gradcheck(function, x, check_forward_ad=True)
    torch.autograd.gradgradcheck(function, x)


OF_NOTHING = {
    "gather coo": lambda x, pointers: scatter.gather_coo(x, pointers[:0]),
    "gather csr": scatter.gather_csr,
    "csr sum": lambda x, pointers: scatter.segment_sum_csr(x, pointers[:1]),
    "csr mean": lambda x, pointers: scatter.segment_mean_csr(x, pointers[:1]),
    "csr min": lambda x, pointers: scatter.segment_min_csr(x, pointers[:1])[0],
}


@pytest.mark.parametrize("rows", [3, 0])
@pytest.mark.parametrize("name", OF_NOTHING)
def test_nothing_has_a_gradient_too(name, rows):
    """Of a result without elements, and of a source without any."""
    x = torch.ones(rows, 2, requires_grad=True)
    result = OF_NOTHING[name](x, torch.zeros(rows + 1, dtype=torch.long))
    assert result.shape == (0, 2) and result.requires_grad
    assert torch.equal(torch.autograd.grad(result.sum(), x)[0], torch.zeros(rows, 2))


def test_what_is_outside_of_all_segments_has_a_gradient_too():
    result = scatter.gather_csr(torch.ones(0, 2, requires_grad=True), torch.tensor([2]))
    assert torch.equal(result, torch.zeros(2, 2)) and result.requires_grad


OUT_FUNCTIONS = {
    "sum": lambda x, out: scatter.scatter_sum(x, INDEX, 0, out.clone()),
    "mul": lambda x, out: scatter.scatter_mul(x, INDEX, 0, out.clone()),
    "mean": lambda x, out: scatter.scatter_mean(x, INDEX, 0, out.clone()),
    "max": lambda x, out: scatter.scatter_max(x, INDEX, 0, out.clone())[0],
    "logsumexp": lambda x, out: scatter.scatter_logsumexp(x, INDEX, 0, out.clone()),
    "std": lambda x, out: scatter.scatter_std(x, INDEX, 0, out.clone().abs()),
}


@pytest.mark.parametrize("name", OUT_FUNCTIONS)
def test_derivatives_with_out(name):
    out = (source(5, 2) + 0.37).requires_grad_()
    torch.autograd.gradcheck(OUT_FUNCTIONS[name], (source(7, 2).requires_grad_(), out), check_forward_ad=True)


def test_ties_give_the_gradient_to_the_first():
    """torch_scatter's rule, unlike torch.scatter_reduce's, which shares it (C57)."""
    src = torch.tensor([5.0, 7, 7, 7, -1, -1], requires_grad=True)
    index = torch.tensor([0, 0, 0, 1, 2, 2])
    values, positions = scatter.scatter_max(src, index)
    assert positions.tolist() == [1, 3, 4] and not positions.requires_grad
    values.sum().backward()
    assert src.grad.tolist() == [0, 1, 0, 1, 1, 0]


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min of elements", "softmax", "csr mean"])
def test_gradients_for_any_number_of_threads(name):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 2, generator=generator)
    results = []
    for count in (1, 2):
        leaf = x.clone().requires_grad_()
        with threads(count):
            FUNCTIONS[name](leaf).square().sum().backward()
        results.append(leaf.grad)
    assert_same_bits(*results)


def test_the_dispatchers_checks():
    src = source(7, 2)
    own = source(5, 2)
    for index in (FULL, INDEX[:, None].expand(7, 2)):
        for start in (None, own.clone().requires_grad_()):
            arguments = (src.clone().requires_grad_(), 0, index, 5, start, True)
            torch.library.opcheck(torch.ops.reprocuda.scatter_extremum.default, arguments)


def test_transforms():
    x = source(3, 7, 2)
    for name in ("max", "min of elements", "mean", "softmax"):
        function = FUNCTIONS[name]
        want = torch.stack([function(part) for part in x])
        assert_same_bits(torch.vmap(function)(x), want, name)
        forward, backward = (jacobian(function)(x[0]) for jacobian in (torch.func.jacfwd, torch.func.jacrev))
        if name == "softmax":  # whose formulas differ in their roundings
            torch.testing.assert_close(forward, backward)
        else:
            assert_same_bits(forward, backward, name)


@pytest.mark.parametrize("name", ["sum", "mul", "mean", "max", "min of elements", "softmax", "coo max", "std"])
def test_compiled_code(name):
    function = FUNCTIONS[name]
    if name == "coo max":
        index = INDEX.sort()[0]

        def function(x):
            return scatter.segment_max_coo(x, index, dim_size=5)[0]

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    results = []
    for call in (function, compiled):
        x = source(7, 2).requires_grad_()
        result = call(x)
        result.square().sum().backward()
        results.append((result, x.grad))
    for got, want in zip(results[1], results[0], strict=True):
        assert_same_bits(got, want)


def test_called_in_compiled_code():
    """reprocuda.scatter(input, dim, index, src) is the plain function still."""
    call = torch.compile(lambda x, i, s: reprocuda.scatter(x, 0, i, s), backend="aot_eager", fullgraph=True)
    assert call(torch.zeros(3), torch.tensor([1, 1]), torch.tensor([5.0, 7.0])).tolist() == [0, 7, 0]
