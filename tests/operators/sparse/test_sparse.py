"""Sparse tensors: duplicates added up, products with dense matrices, reductions by row, and their gradients."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import reprocuda
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, threads, to_numpy_bits
from tests.operators.sparse_matrices import REDUCTIONS, entries_of, exact_product, random_matrix, spellings

pytestmark = pytest.mark.filterwarnings("ignore:.*Sparse (CSR|CSC) tensor support is in beta.*")
COMPLEX = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@pytest.mark.parametrize("dtype", DTYPES)
def test_duplicates_add_up_exactly(dtype):
    generator = torch.Generator().manual_seed(0)
    for kind in KINDS:
        for dense_shape in ((), (3,)):
            indices = torch.stack([torch.randint(size, (200,), generator=generator) for size in (5, 7)])
            values = make(kind, (200, *dense_shape), DTYPES[dtype], generator)
            tensor = torch.sparse_coo_tensor(indices, values, (5, 7, *dense_shape))
            with reprocuda.enabled():
                replaced = tensor.coalesce()
            for got in (reprocuda.coalesce(tensor), replaced):
                assert got.is_coalesced() and torch.equal(got.indices(), tensor.coalesce().indices())
                place = (indices[0] * 7 + indices[1]).numpy()
                kept, target = np.unique(place, return_inverse=True)
                columns = to_numpy_bits(values).reshape(200, -1)
                for c in range(columns.shape[1]):
                    want = oracle.exact_segment_sums(columns[:, c].copy(), target, kept.size, dtype)
                    assert (to_numpy_bits(got.values()).reshape(kept.size, -1)[:, c] == want).all()


def test_other_dtypes_and_shapes_of_coalesce():
    indices = torch.tensor([[1, 0, 1]])
    for values in (torch.tensor([True, False, False]), torch.tensor([200, 3, 100], dtype=torch.uint8)):
        tensor = torch.sparse_coo_tensor(indices, values, (2,))
        got = reprocuda.coalesce(tensor)
        assert torch.equal(got.values(), tensor.coalesce().values()) and got.dtype == values.dtype
    scalar = torch.sparse_coo_tensor(torch.zeros(0, 3, dtype=torch.long), torch.tensor([1e8, 1.0, -1e8]), ())
    assert reprocuda.coalesce(scalar).to_dense().item() == 1
    for count in (0, 1):
        tensor = torch.sparse_coo_tensor(torch.zeros(2, count, dtype=torch.long), torch.full((count,), -0.0), (2, 2))
        got = reprocuda.coalesce(tensor)
        assert got.is_coalesced() and got.values().signbit().all()
    with pytest.raises(RuntimeError, match="coalesce"):
        reprocuda.coalesce(torch.ones(3))
    values = torch.randn(3, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda v: reprocuda.coalesce(torch.sparse_coo_tensor(indices, v, (2,))).to_dense(), values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_exact(dtype):
    generator, outputs = torch.Generator().manual_seed(1), 0
    for kind in KINDS:
        matrix = random_matrix(kind, DTYPES[dtype], (23, 17), 300, generator)
        dense = make(kind, (17, 6), DTYPES[dtype], generator)
        for name, spelling in spellings(matrix).items():
            want = exact_product(spelling, dense, dtype)
            results = [reprocuda.sparse_mm(spelling, dense)]
            with reprocuda.enabled():
                results += [torch.sparse.mm(spelling, dense), spelling @ dense]
                results.append(torch.mm(spelling, dense, out=torch.empty_like(results[0])))
            for result in results:
                assert (to_numpy_bits(result) == want).all(), (kind, name)
                outputs += result.numel()
    assert outputs > 5000


@pytest.mark.parametrize("dtype", DTYPES)
def test_added_products_are_one_sum(dtype):
    generator = torch.Generator().manual_seed(2)
    for kind in KINDS:
        matrix = random_matrix(kind, DTYPES[dtype], (9, 7), 60, generator)
        dense, base = make(kind, (7, 5), DTYPES[dtype], generator), make(kind, (9, 5), DTYPES[dtype], generator)
        for spelling in spellings(matrix).values():
            rows, columns, values = entries_of(spelling)
            features = np.arange(5)
            for beta in (1, -2, 0):
                weights, numbers = values.double()[:, None].expand(-1, 5).numpy(), dense[torch.from_numpy(columns)]
                targets = rows[:, None] * 5 + features
                if beta:
                    weights = np.vstack([weights, np.full((9, 5), float(beta))])
                    numbers = torch.cat([numbers, base])
                    targets = np.vstack([targets, np.arange(9)[:, None] * 5 + features])
                want = oracle.exact_segment_sums(
                    to_numpy_bits(numbers).reshape(-1), targets.reshape(-1), 45, dtype, weights=weights.reshape(-1)
                )  # fmt: skip
                results = [reprocuda.sparse_addmm(base, spelling, dense, beta=beta)]
                with reprocuda.enabled():
                    results.append(torch.sparse.addmm(base, spelling, dense, beta=beta))
                    results.append(torch.addmm(base, spelling, dense, beta=beta, out=torch.empty_like(base)))
                    if spelling.layout == torch.sparse_coo:
                        results.append(base.clone().addmm_(spelling, dense, beta=beta))
                for result in results:
                    assert (to_numpy_bits(result).reshape(-1) == want).all(), (kind, beta)


def test_alpha_and_a_base_that_is_broadcast():
    generator = torch.Generator().manual_seed(8)
    matrix = torch.randint(-5, 5, (6, 4), generator=generator).double()
    dense, base = torch.randn(4, 3, generator=generator).double().round(), torch.randn(3, generator=generator).round()
    for alpha, beta in ((0.5, 2.0), (3, 0), (-1, 1)):
        want = beta * base.double() + alpha * (matrix @ dense)  # of small integers, so exact
        got = reprocuda.sparse_addmm(base.double(), matrix.to_sparse(), dense, alpha=alpha, beta=beta)
        assert torch.equal(got, want)
    complex_matrix, complex_dense = matrix * (1 + 2j), dense * (2 - 1j)
    for alpha, beta in ((2 - 1j, 1 + 1j), (0.5, 0), (3, -2j)):
        want = beta * base.double() + alpha * (complex_matrix @ complex_dense)
        for spelling in spellings(complex_matrix.to_sparse()).values():
            got = reprocuda.sparse_addmm(base.to(want.dtype), spelling, complex_dense, alpha=alpha, beta=beta)
            assert torch.equal(got, want)
    nan = torch.full((6, 3), torch.nan, dtype=torch.float64)
    assert torch.equal(reprocuda.sparse_addmm(nan, matrix.to_sparse(), dense, beta=0), matrix @ dense)


def canonical(bits, dtype):
    form = oracle.FORMATS[dtype]
    bits = np.where(bits == form.sign, 0, bits).astype(form.bits)
    return np.where(np.isnan(oracle.to_double(bits, dtype)), form.nan, bits)


@pytest.mark.parametrize("reduce", ["mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_by_row(dtype, reduce):
    generator = torch.Generator().manual_seed(3)
    for kind in KINDS:
        matrix = random_matrix(kind, DTYPES[dtype], (23, 17), 80, generator)  # some rows are empty
        dense = make(kind, (17, 4), DTYPES[dtype], generator)
        for name, spelling in spellings(matrix).items():
            if reduce == "mean":
                want = exact_product(spelling, dense, dtype, mean=True)
            else:
                rows, columns, values = entries_of(spelling)
                products = values[:, None] * dense[torch.from_numpy(columns)]
                index = torch.from_numpy(rows)[:, None].expand_as(products)
                zeros = torch.zeros(23, 4, dtype=dense.dtype)
                want = to_numpy_bits(zeros.scatter_reduce(0, index, products, reduce, include_self=False))
                want = canonical(want, dtype)
            results = [reprocuda.sparse_mm(spelling, dense, reduce)]
            if name == "csr":
                with reprocuda.enabled():
                    results.append(torch.sparse.mm(spelling, dense, reduce))
            for result in results:
                got = to_numpy_bits(result)
                if reduce != "mean":  # torch's own, for CSR, does not tell zeros apart, nor NaN
                    got = canonical(got, dtype)
                assert (got == want).all(), (kind, name)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_products(dtype):
    generator = torch.Generator().manual_seed(4)
    matrix = random_matrix("normal", torch.float64, (8, 6), 40, generator).to(dtype)
    matrix = torch.sparse_coo_tensor(matrix._indices(), matrix._values() * (1 + 2j), matrix.shape)
    dense = torch.complex(*make("wide", (2, 6, 3), COMPLEX[dtype], generator))
    name = str(COMPLEX[dtype]).removeprefix("torch.")
    for spelling in spellings(matrix).values():
        rows, columns, values = entries_of(spelling)
        with reprocuda.enabled():
            replaced = torch.sparse.mm(spelling, dense)
        for got in (reprocuda.sparse_mm(spelling, dense), replaced):
            for row in range(8):
                for feature in range(3):
                    pairs = [(values[i], dense[columns[i], feature]) for i in np.flatnonzero(rows == row)]
                    real = sum(Fraction(v.real.item()) * Fraction(x.real.item()) for v, x in pairs)
                    real -= sum(Fraction(v.imag.item()) * Fraction(x.imag.item()) for v, x in pairs)
                    imag = sum(Fraction(v.real.item()) * Fraction(x.imag.item()) for v, x in pairs)
                    imag += sum(Fraction(v.imag.item()) * Fraction(x.real.item()) for v, x in pairs)
                    parts = torch.view_as_real(got[row, feature])
                    bits = [oracle.round_fraction(Fraction(part), name) for part in (real, imag)]
                    assert to_numpy_bits(parts).tolist() == bits


def test_any_order_of_the_entries_and_any_number_of_threads():
    generator = torch.Generator().manual_seed(7)
    matrix = random_matrix("wide", torch.float32, (400, 300), 40_000, generator)
    dense = torch.randn(300, 16, generator=generator)
    results = set()
    with reprocuda.enabled():
        for count in (1, 2, 16):
            order = torch.randperm(40_000, generator=generator)
            shuffled = torch.sparse_coo_tensor(matrix._indices()[:, order], matrix._values()[order], matrix.shape)
            with threads(count):
                product, once = torch.sparse.mm(shuffled, dense), shuffled.coalesce()
                results.add((to_numpy_bits(product).tobytes(), to_numpy_bits(once.values()).tobytes()))
    assert len(results) == 1


def test_torchs_own_kernels_are_back_when_it_is_off_and_its_errors_stay():
    matrix, dense = torch.eye(3).to_sparse(), torch.randn(3, 2)
    before = torch.sparse.mm(matrix, dense)
    with reprocuda.enabled():
        for call in (
            lambda: torch.sparse.mm(matrix, torch.randn(4, 2)),
            lambda: torch.sparse.mm(matrix, dense.double()),
            lambda: torch.sparse.mm(matrix.to_sparse_csr(), dense, "prod"),
            lambda: torch.sparse.addmm(torch.ones(4, 2), matrix, dense),
        ):
            with pytest.raises(RuntimeError):
                call()
        assert torch.equal(torch.sparse.mm(matrix.long(), dense.long()), dense.long())
        assert torch.equal(dense.T @ matrix, dense.T)
        assert torch.equal((matrix @ matrix).to_dense(), torch.eye(3))
    assert torch.equal(torch.sparse.mm(matrix, dense), before)
    for empty in (torch.zeros(3, 3).to_sparse(), torch.zeros(3, 3).to_sparse_csr()):
        assert torch.equal(reprocuda.sparse_mm(empty, dense), torch.zeros(3, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_alpha_overflows_only_where_the_result_does(dtype):
    huge = 3 * 2.0 ** (126 if dtype == torch.float32 else 1022)  # three quarters of what overflows
    one, small = torch.tensor([[huge]], dtype=dtype), torch.tensor([[2.0**-40]], dtype=dtype)
    for matrix in (one.to_sparse(), one.to_sparse_csr()):
        got = reprocuda.sparse_addmm(torch.zeros(1, 1, dtype=dtype), matrix, small, alpha=4)
        assert got.item() == 4 * (huge * 2.0**-40)
        with pytest.raises(RuntimeError, match=r"sparse_addmm\(\): alpha=4 times the largest entry overflows"):
            reprocuda.sparse_addmm(torch.zeros(1, 1, dtype=dtype), matrix, one, alpha=4)


@pytest.mark.parametrize("factor", ["alpha", "beta"])
def test_a_factor_that_the_dtype_does_not_hold_is_torchs_error(factor):
    for dtype, value in ((torch.float32, 2 + 1j), (torch.float32, 1e300), (torch.float16, 2**40)):
        matrix, ones = torch.eye(2, dtype=dtype).to_sparse(), torch.ones(2, 2, dtype=dtype)
        for call in (reprocuda.sparse_addmm, torch.sparse.addmm):
            with pytest.raises(RuntimeError, match="cannot be converted"), reprocuda.enabled():
                call(ones, matrix, ones, **{factor: value})


def test_entries_out_of_range_are_named():
    """torch looks at invariants only where it is asked to, and writes astray."""
    dense = torch.ones(3, 2)
    unchecked = {"check_invariants": False}
    for indices, found in (
        ([[0, 1], [0, 7]], "column 7"), ([[0, 1], [-1, 0]], "column -1"), ([[5, 0], [0, 1]], "row 5"),
    ):  # fmt: skip
        matrix = torch.sparse_coo_tensor(indices, torch.ones(2), (2, 3), **unchecked)
        entry = 0 if found in ("column -1", "row 5") else 1
        for call, op in (
            *((lambda reduce=r: reprocuda.sparse_mm(matrix, dense, reduce), "sparse_mm") for r in REDUCTIONS),  # noqa: B023
            (lambda: reprocuda.sparse_addmm(torch.ones(2), matrix, dense), "sparse_addmm"),  # noqa: B023
        ):
            with pytest.raises(RuntimeError, match=rf"^{op}\(\): {found}, of entry {entry}, is out of bounds"):
                call()
    with pytest.raises(RuntimeError, match=r"^coalesce\(\): index 5 along dimension 1, of entry 1, is out of bounds"):
        reprocuda.coalesce(torch.sparse_coo_tensor([[0, 1], [0, 5]], torch.ones(2), (2, 3), **unchecked))
