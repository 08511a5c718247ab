"""Gradients of sparse tensors' products and reductions."""

import itertools
from fractions import Fraction

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import reprocuda
from tests import oracle
from tests.operators.adversarial import make
from tests.operators.bits import DTYPES, to_numpy_bits
from tests.operators.sparse_matrices import REDUCTIONS, exact_product, random_matrix

pytestmark = pytest.mark.filterwarnings("ignore:.*Sparse (CSR|CSC) tensor support is in beta.*")


@pytest.mark.parametrize(
    "reduce, dtype", [*((reduce, torch.float64) for reduce in REDUCTIONS), ("sum", torch.complex128)], ids=str
)
def test_gradients(reduce, dtype):
    generator = torch.Generator().manual_seed(5)
    indices = torch.randperm(35, generator=generator)[:16].sort().values
    indices = torch.stack([indices // 5, indices % 5])
    values = torch.randn(16, dtype=dtype, generator=generator, requires_grad=True)
    dense = torch.randn(5, 3, dtype=dtype, generator=generator, requires_grad=True)
    base = torch.randn(3, dtype=dtype, generator=generator, requires_grad=True)
    pointers = torch.searchsorted(indices[0].contiguous(), torch.arange(8))

    def coordinates(values):
        return torch.sparse_coo_tensor(indices, values, (7, 5), is_coalesced=True)

    def by_rows(values):
        return torch.sparse_csr_tensor(pointers, indices[1], values, (7, 5))

    for layout in (coordinates,) if dtype.is_complex else (coordinates, by_rows):  # torch makes no complex ones
        second = layout is not by_rows  # torch lacks a part of it

        def call(v, d):
            return reprocuda.sparse_mm(layout(v), d, reduce)  # noqa: B023

        assert gradcheck(call, (values, dense)) and (not second or gradgradcheck(call, (values, dense)))
        if reduce == "sum":
            factor = 2 - 1j if dtype.is_complex else 3

            def add(b, v, d):
                return reprocuda.sparse_addmm(b, layout(v), d, beta=factor, alpha=factor)  # noqa: B023

            assert gradcheck(add, (base, values, dense)) and (not second or gradgradcheck(add, (base, values, dense)))
    with reprocuda.enabled():
        if reduce == "sum":
            result = torch.sparse.mm(coordinates(values), dense)
        else:
            result = torch.sparse.mm(by_rows(values), dense, reduce)
        cotangent = torch.randn(result.shape, dtype=dtype, generator=generator)
        got = torch.autograd.grad(result, (values, dense), cotangent)
    want = torch.autograd.grad(reprocuda.sparse_mm(coordinates(values), dense, reduce), (values, dense), cotangent)
    if reduce == "sum":  # torch's formula has a dense product
        torch.testing.assert_close(got[0], want[0])
    else:
        assert torch.equal(got[0], want[0])
    assert torch.equal(got[1], want[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_of_the_dense_matrix_is_exact(dtype):
    """A column that many rows read: through torch's own formula, whose sum by column is ours."""
    generator = torch.Generator().manual_seed(6)
    matrix = random_matrix("wide", DTYPES[dtype], (200, 3), 1000, generator).coalesce()
    dense = make("normal", (3, 4), DTYPES[dtype], generator).requires_grad_()
    grad = make("wide", (200, 4), DTYPES[dtype], generator)
    want = exact_product(matrix.t(), grad, dtype)
    with reprocuda.enabled():
        for spelling in (matrix, matrix.to_sparse_csr()):
            for result in (torch.sparse.mm(spelling, dense), reprocuda.sparse_mm(spelling, dense)):
                assert (to_numpy_bits(torch.autograd.grad(result, dense, grad)[0]) == want).all()


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_a_result_does_not_depend_on_whether_a_gradient_is_wanted(reduce):
    matrix = torch.sparse_coo_tensor([[0, 0, 0], [0, 0, 1]], [2.0**24, 1.0, -(2.0**24)], (1, 2), check_invariants=True)
    dense, base = torch.ones(2, 1), torch.zeros(1, 1)
    want = reprocuda.sparse_mm(matrix, dense, reduce)
    wanted = matrix.clone().requires_grad_()
    if reduce in ("amax", "amin"):
        with pytest.raises(RuntimeError, match=rf"sparse_mm\(\): {reduce} has no gradient for entries with equal"):
            reprocuda.sparse_mm(wanted, dense, reduce)
    else:
        assert torch.equal(reprocuda.sparse_mm(wanted, dense, reduce), want)
        assert torch.equal(reprocuda.sparse_mm(matrix, dense.clone().requires_grad_(), reduce), want)
    if reduce == "sum":
        assert want.item() == 1 == reprocuda.sparse_addmm(base, wanted, dense).item()


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_entries_with_equal_indices_share_a_gradient(reduce):
    indices = torch.tensor([[0, 1, 0, 2, 0], [1, 0, 1, 2, 2]])
    values = torch.randn(5, dtype=torch.float64, requires_grad=True)
    dense = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def call(values, dense):
        matrix = torch.sparse_coo_tensor(indices, values, (3, 3), check_invariants=True)
        return reprocuda.sparse_mm(matrix, dense, reduce)

    assert gradcheck(call, (values, dense)) and gradgradcheck(call, (values, dense))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_a_complex_compressed_matrix_has_a_gradient(layout):
    """In integers, so that every way of adding up is exact."""
    full = torch.tensor([[1 + 2j, 0], [3j, -1]]).to(torch.complex64)
    dense = torch.tensor([[2 - 1j], [1 + 1j]], requires_grad=True)
    grad = torch.tensor([[1 + 1j], [2 - 3j]])
    matrix = full.to_sparse(layout=layout).requires_grad_()
    for result in (
        reprocuda.sparse_mm(matrix, dense), reprocuda.sparse_addmm(torch.zeros(1) + 0j, matrix, dense, alpha=2) / 2,
    ):  # fmt: skip
        assert torch.equal(result, full @ dense)
        of_matrix, of_dense = torch.autograd.grad(result, (matrix, dense), grad)
        assert torch.equal(of_matrix.to_dense(), (grad @ dense.mH) * (full != 0))
        assert torch.equal(of_dense, full.mH @ grad)


@pytest.mark.parametrize(("dtype", "count"), [(torch.float16, 70_000), (torch.bfloat16, 257), (torch.float32, 3)])
def test_entries_of_a_mean_are_divided_by_more_than_their_dtype_counts_to(dtype, count):
    """float16 ends at 65504, and bfloat16 has no 257."""
    values = torch.ones(count, dtype=dtype, requires_grad=True)
    matrix = torch.sparse_csr_tensor(torch.tensor([0, count]), torch.arange(count), values, (1, count))
    reprocuda.sparse_mm(matrix, torch.ones(count, 1, dtype=dtype), "mean").sum().backward()
    assert torch.equal(values.grad, torch.full((count,), 1 / count, dtype=torch.float64).to(dtype))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients_of_a_matrix_without_entries(reduce):
    matrix = torch.zeros(2, 1).to_sparse_csr().requires_grad_()
    dense = torch.ones(1, 4, requires_grad=True)
    with reprocuda.enabled():
        results = torch.sparse.mm(matrix, dense, reduce), reprocuda.sparse_mm(matrix, dense, reduce)
        for result in results:
            of_matrix, of_dense = torch.autograd.grad(result, (matrix, dense), torch.ones(2, 4))
            assert of_matrix.values().shape == (0,) and torch.equal(of_dense, torch.zeros(1, 4))


def test_a_second_derivative_is_computed_not_left_out():
    dense = torch.ones(2, 2, requires_grad=True)
    result = reprocuda.sparse_mm(torch.eye(2).to_sparse(), dense)
    (first,) = torch.autograd.grad((result**2).sum(), dense, create_graph=True)
    (second,) = torch.autograd.grad((first + dense).sum(), dense)
    assert torch.equal(second, torch.full((2, 2), 3.0))


def test_the_gradient_of_a_broadcast_input_is_an_exact_sum():
    base = torch.zeros(1, 1, requires_grad=True)
    reprocuda.sparse_addmm(base, torch.eye(5).to_sparse(), torch.ones(5, 1), beta=3).backward(
        torch.tensor([[1e8], [1.0], [-1e8], [1.0], [0.0]])
    )
    assert base.grad.item() == 6


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_gradients_of_extremes_are_exact(dtype, reduce):
    """Sums of products, of which every element of the result has one."""
    generator = torch.Generator().manual_seed(9)
    once = random_matrix("normal", DTYPES[dtype], (60, 5), 120, generator).coalesce()
    matrix = once.to_sparse_csr()
    values = matrix.values().clone().requires_grad_()
    dense = make("normal", (5, 4), DTYPES[dtype], generator).requires_grad_()
    grad = make("normal", (60, 4), DTYPES[dtype], generator)
    csr = torch.sparse_csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, matrix.shape)
    result = reprocuda.sparse_mm(csr, dense, reduce)
    got = torch.autograd.grad(result, (values, dense), grad)
    rows, columns = once.indices().tolist()
    of_values = [Fraction(0)] * len(rows)
    of_dense = {place: Fraction(0) for place in itertools.product(range(5), range(4))}
    pick = max if reduce == "amax" else min
    products = (values[:, None] * dense[torch.tensor(columns)]).tolist()  # rounded, as torch compares them
    for row, feature in itertools.product(range(60), range(4)):
        inside = [entry for entry, own in enumerate(rows) if own == row]
        if inside:
            entry = pick(inside, key=lambda entry: products[entry][feature])  # the first of equal ones
            part = Fraction(grad[row, feature].item())
            of_values[entry] += part * Fraction(dense[columns[entry], feature].item())
            of_dense[columns[entry], feature] += part * Fraction(values[entry].item())
    for found, exact in zip(got, (of_values, list(of_dense.values())), strict=True):
        want = [oracle.round_fraction(value, dtype) for value in exact]
        assert to_numpy_bits(found).reshape(-1).tolist() == want


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_compiled_code_leaves_its_graph(layout):
    matrix, dense = torch.eye(3).to_sparse(layout=layout), torch.rand(3, 2, requires_grad=True)
    for function in (
        lambda m, d: reprocuda.sparse_mm(m, d * 2) + 1, lambda m, d: reprocuda.sparse_addmm(d, m, d, alpha=3).sin(),
    ):  # fmt: skip
        torch._dynamo.reset()
        got, want = (call(matrix, dense) for call in (torch.compile(function, backend="aot_eager"), function))
        assert torch.equal(got, want)
        gradients = [torch.autograd.grad(result.sum(), dense)[0] for result in (got, want)]
        assert torch.equal(*gradients)
