"""Under enable(): other names under which torch sums what sparse tensors hold, and what strict scopes refuse."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import reprocuda
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, threads, to_numpy_bits
from tests.operators.sparse_matrices import exact_product, random_matrix, spellings

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Sparse (CSR|CSC) tensor support is in beta.*"),
    pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning"),
]
COMPRESSED = ("csr", "csc")


def exact_places(base, sparse, alpha, dtype):
    """The bits of base + alpha * sparse, every place one sum."""
    sizes = sparse.shape[: sparse.sparse_dim()]
    places = torch.zeros(sparse._nnz(), dtype=torch.long)
    for index, size in zip(sparse._indices(), sizes, strict=True):
        places = places * size + index
    values = sparse._values().reshape(sparse._nnz(), -1)
    features = values.shape[1]
    targets = (places[:, None] * features + torch.arange(features)).reshape(-1).numpy()
    numbers = np.concatenate([to_numpy_bits(base).reshape(-1), to_numpy_bits(values).reshape(-1)])
    targets = np.concatenate([np.arange(base.numel()), targets])
    weights = np.concatenate([np.ones(base.numel()), np.full(values.numel(), float(alpha))])
    return oracle.exact_segment_sums(numbers, targets, base.numel(), dtype, weights=weights).reshape(base.shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_duplicates_add_up_in_dense_tensors(dtype):
    generator = torch.Generator().manual_seed(11)
    for kind in KINDS:
        for dense_shape in ((), (3,)):
            indices = torch.stack([torch.randint(size, (200,), generator=generator) for size in (5, 7)])
            sparse = torch.sparse_coo_tensor(
                indices, make(kind, (200, *dense_shape), DTYPES[dtype], generator), (5, 7, *dense_shape)
            )
            base = make(kind, tuple(sparse.shape), DTYPES[dtype], generator)
            apart = base.new_empty(2, *base.shape).movedim(0, -1)[..., 0]
            with reprocuda.enabled():
                want = exact_places(torch.zeros_like(base), sparse, 1, dtype)
                assert (to_numpy_bits(sparse.to_dense()) == want).all()
                for alpha in (1, -2, 0.5):
                    want = exact_places(base, sparse, alpha, dtype)
                    results = [
                        torch.add(base, sparse, alpha=alpha), base.clone().add_(sparse, alpha=alpha),
                        apart.copy_(base).add_(sparse, alpha=alpha).contiguous(),
                        torch.add(base, sparse, alpha=alpha, out=torch.empty_like(base)),
                        base - sparse * -alpha if alpha == 1 else torch.sub(base, sparse, alpha=-alpha),
                        base.clone().sub_(sparse, alpha=-alpha),
                        torch.sub(base, sparse, alpha=-alpha, out=torch.empty_like(base)),
                    ]  # fmt: skip
                    for result in results:
                        assert (to_numpy_bits(result) == want).all(), (kind, alpha)


def test_nothing_is_summed_into_what_is_only_read():
    base = torch.ones(1).expand(3, 3)
    nothing = torch.sparse_coo_tensor(torch.empty(2, 0, dtype=torch.long), torch.empty(0), (3, 3)).coalesce()
    with reprocuda.enabled(strict=True):
        for result in (base + nothing, base - nothing, torch.add(base, nothing, out=torch.empty(3, 3))):
            assert result.eq(1).all()
        assert base.add_(nothing) is base and base.eq(1).all()
        entry = torch.sparse_coo_tensor([[0], [0]], [1.0], (3, 3)).coalesce()
        assert torch.equal(base + entry, base + entry.to_dense())
        with pytest.raises(RuntimeError, match="add_: the written tensor overlaps itself"):
            base.add_(entry)


def test_promotion_and_what_is_no_sum_stay_torchs():
    sparse = torch.sparse_coo_tensor([[0, 0, 0]], [1e8, 1.0, -1e8], (2,))
    zeros = torch.zeros(2)
    with reprocuda.enabled(strict=True):
        assert (zeros.double() + sparse).tolist() == [1, 0] and (zeros + sparse.double()).dtype == torch.float64
        assert (zeros.long() + sparse).dtype == torch.float32 and zeros.clone().add_(sparse.double())[0] == 1
        assert torch.equal(zeros.bool() + sparse.bool(), torch.tensor([True, False]))
        assert torch.equal(zeros.long() + sparse.long(), torch.tensor([1, 0]))
        assert torch.equal((sparse + sparse).to_dense(), torch.tensor([2.0, 0.0]))
        assert torch.sparse.sum(torch.stack([sparse, sparse]), 0).to_dense()[0] == 2
        once = sparse.coalesce()
        assert torch.equal(zeros + once, torch.tensor([1.0, 0.0]))
        for call, error in (
            (lambda: zeros.long().add_(sparse), "can't be cast|Can't convert"),
            (lambda: sparse + zeros, "add\\(sparse, dense\\) is not supported"),
            (lambda: torch.zeros(3) + sparse, "same size"),
            (lambda: torch.add(zeros.long(), sparse.long(), alpha=1.5), "alpha must not be"),
            (lambda: torch.add(zeros, sparse, alpha=2j), "alpha must not be"),
            (lambda: torch.add(zeros, sparse, alpha=1e300), "cannot be converted"),
            (lambda: zeros + torch.sparse_coo_tensor([[0, 5]], torch.ones(2), (2,), check_invariants=False),
             r"add\(\): index 5 along dimension 0, of entry 1, is out of bounds for a size of 2"),
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match=error):
                call()


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_and_dense_matrices_from_the_left(dtype):
    generator = torch.Generator().manual_seed(12)
    for kind in KINDS:
        matrix = random_matrix(kind, DTYPES[dtype], (13, 17), 300, generator)
        vector = make(kind, (17,), DTYPES[dtype], generator)
        left = make(kind, (5, 13), DTYPES[dtype], generator)
        for name, spelling in spellings(matrix).items():
            want = exact_product(spelling, vector[:, None], dtype)[:, 0]
            entries = spelling.to_sparse_coo() if name in COMPRESSED else spelling
            turned = exact_product(entries.t(), left.t(), dtype)
            with reprocuda.enabled(strict=True):
                assert (to_numpy_bits(spelling @ vector) == want).all(), (kind, name)
                results = [left @ spelling]
                if name in COMPRESSED:
                    results.append(torch.mm(left, spelling, out=left.new_empty(5, 17)))
                    results.append(torch.addmm(left.new_ones(5, 17), left, spelling, beta=0))
                    assert (to_numpy_bits(torch.mv(spelling, vector)) == want).all()
                for result in results:
                    assert result.is_contiguous() == (name in COMPRESSED or result.shape[0] == 1)  # as torch's
                    assert (to_numpy_bits(result) == turned.T).all(), (kind, name)


def test_added_to_vectors_and_from_the_left_in_one_sum():
    matrix = torch.tensor([[1e8, 1.0, -1e8], [0.0, 3.0, 0.0]])
    vector, base = torch.ones(3), torch.tensor([5.0, -2.0])
    for spelling in (matrix.to_sparse_csr(), matrix.to_sparse_csc()):
        with reprocuda.enabled(strict=True):
            assert torch.addmv(base, spelling, vector, beta=2, alpha=2).tolist() == [12, 2]
            assert torch.addmv(base[1], spelling, vector).tolist() == [-1, 1]
            assert base.clone().addmv_(spelling, vector, beta=0).tolist() == [1, 3]
            assert torch.addmv(base, spelling, vector, out=torch.empty(2)).tolist() == [6, 1]
            turned = torch.ones(1, 2) @ spelling
            for own in (torch.full((3,), 0.5), torch.full((1, 3), 0.5), torch.full((1, 1), 0.5)):
                assert torch.equal(torch.addmm(own, torch.ones(1, 2), spelling), turned + 0.5)
            with pytest.raises(RuntimeError):
                torch.addmv(torch.ones(3), spelling, vector)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_and_sparse_results(dtype):
    generator = torch.Generator().manual_seed(13)
    for kind in KINDS:
        indices = torch.stack([torch.randint(size, (200,), generator=generator) for size in (3, 5, 7)])
        values = make(kind, (200,), DTYPES[dtype], generator)
        batches = torch.sparse_coo_tensor(indices, values, (3, 5, 7))
        dense = make(kind, (3, 7, 4), DTYPES[dtype], generator)
        with reprocuda.enabled(strict=True):
            results = [torch.bmm(batches, dense), torch.bmm(batches, dense, out=dense.new_empty(3, 5, 4))]
            for number in range(3):
                own = indices[0] == number
                matrix = torch.sparse_coo_tensor(indices[1:, own], values[own], (5, 7))
                # Rounded twice where duplicates meet first: oracle and operator are given the same entries.
                want = exact_uncoalesced(matrix, dense[number], dtype)
                for result in results:
                    assert (to_numpy_bits(result[number]) == want).all(), kind
                hybrid = torch.hspmm(matrix, dense[number])
                rows = hybrid._indices()[0]
                assert (to_numpy_bits(hybrid._values()) == want[rows.numpy()]).all()
                assert rows.tolist() == sorted(set(indices[1, own].tolist()))
                into = torch.hspmm(matrix, dense[number], out=torch.sparse_coo_tensor(size=(5, 4), dtype=dense.dtype))
                assert (to_numpy_bits(into._values()) == to_numpy_bits(hybrid._values())).all()
                base = torch.sparse_coo_tensor([[0, 0], [1, 1]], dense.new_ones(2), (5, 4))
                added = torch.sspaddmm(base, matrix, dense[number])
                for sparse, count in ((torch.smm(matrix, dense[number]), 0), (added, 2)):
                    assert sparse._indices()[:, count:].tolist() == [
                        rows.repeat_interleave(4).tolist(), [0, 1, 2, 3] * rows.numel()
                    ]  # fmt: skip
                    assert (to_numpy_bits(sparse._values()[count:]) == want[rows.numpy()].reshape(-1)).all()


def exact_uncoalesced(matrix, dense, dtype):
    rows, columns = matrix._indices()
    features = dense.shape[1]
    targets = (rows[:, None] * features + torch.arange(features)).reshape(-1).numpy()
    weights = matrix._values().double()[:, None].expand(-1, features).reshape(-1).numpy()
    want = oracle.exact_segment_sums(
        to_numpy_bits(dense[columns]).reshape(-1), targets, matrix.shape[0] * features, dtype, weights=weights
    )
    return want.reshape(matrix.shape[0], features)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_two_sparse_matrices(dtype):
    generator = torch.Generator().manual_seed(14)
    for kind in KINDS:
        left = random_matrix(kind, DTYPES[dtype], (9, 6), 40, generator).coalesce()
        right = random_matrix(kind, DTYPES[dtype], (6, 8), 30, generator).coalesce()
        meet = torch.sparse.mm(pattern(left), pattern(right)).coalesce()
        want = exact_meetings(left, right, meet, dtype)
        with reprocuda.enabled(strict=True):
            results = [torch.sparse.mm(left, right), left @ right]
            for ours in COMPRESSED:
                for others in COMPRESSED:
                    pair = spellings(left)[ours], spellings(right)[others]
                    results.append(pair[0] @ pair[1])
                    assert results[-1].layout == torch.sparse_csr
            for name, layout in (("csr", torch.sparse_csr), ("csc", torch.sparse_csc)):
                results.append(torch.sparse.mm(spellings(left)[name], spellings(right)[name]))
                assert results[-1].layout == layout
        for result in results:
            result = (result if result.layout == torch.sparse_coo else result.to_sparse_coo()).coalesce()
            assert torch.equal(result.indices(), meet.indices())
            assert (to_numpy_bits(result.values()) == want).all(), kind


def exact_meetings(left, right, meet, dtype):
    """The bits of the product's entries: what is in no entry, 0 times an infinity for one, is no part of a sum."""
    place = {pair: number for number, pair in enumerate(zip(*meet.indices().tolist(), strict=True))}
    weights, sources, targets = [], [], []
    for row, inner, value in zip(*left.indices().tolist(), left.values().tolist(), strict=True):
        for entry in torch.nonzero(right.indices()[0] == inner).flatten().tolist():
            weights.append(value)
            sources.append(entry)
            targets.append(place[row, right.indices()[1, entry].item()])
    numbers = to_numpy_bits(right.values()[sources])
    return oracle.exact_segment_sums(numbers, np.array(targets), len(place), dtype, weights=np.array(weights))


def pattern(matrix):
    return torch.sparse_coo_tensor(matrix.indices(), torch.ones(matrix._nnz()), matrix.shape, is_coalesced=True)


def test_complex_spellings():
    generator = torch.Generator().manual_seed(15)
    parts = torch.randn(2, 30, dtype=torch.float64, generator=generator)
    indices = torch.stack([torch.randint(size, (30,), generator=generator) for size in (2, 3)])
    matrix = torch.sparse_coo_tensor(indices, torch.complex(*parts), (2, 3)).coalesce()
    other = torch.complex(*torch.randn(2, 3, 2, dtype=torch.float64, generator=generator))
    with reprocuda.enabled(strict=True):
        results = [
            (matrix @ other.to_sparse()).to_dense(), torch.bmm(matrix[None], other[None])[0],
            torch.stack([matrix.to_sparse_csr() @ other[:, 0], matrix.to_sparse_csr() @ other[:, 1]], 1),
            (other.t() @ matrix.to_sparse_csr().t()).t(),
        ]  # fmt: skip
    entries = list(zip(*matrix.indices().tolist(), matrix.values().tolist(), strict=True))
    for row in range(2):
        for feature in range(2):
            pairs = [(v, other[c, feature].item()) for r, c, v in entries if r == row]
            real = sum(Fraction(v.real) * Fraction(x.real) - Fraction(v.imag) * Fraction(x.imag) for v, x in pairs)
            imag = sum(Fraction(v.real) * Fraction(x.imag) + Fraction(v.imag) * Fraction(x.real) for v, x in pairs)
            for result in results:
                assert result[row, feature].item() == complex(float(real), float(imag))


def test_any_number_of_threads_and_order():
    generator = torch.Generator().manual_seed(16)
    matrix = random_matrix("wide", torch.float32, (40, 30), 40_000, generator)
    vector, found = torch.randn(30, generator=generator), set()
    for count in (1, 2, 16):
        order = torch.randperm(40_000, generator=generator)
        shuffled = torch.sparse_coo_tensor(matrix._indices()[:, order], matrix._values()[order], matrix.shape)
        with reprocuda.enabled(), threads(count):
            results = (shuffled.to_dense(), torch.mv(shuffled.to_sparse_csr(), vector), torch.ones(40, 30) - shuffled)
            found.add(b"".join(to_numpy_bits(result).tobytes() for result in results))
    assert len(found) == 1


def test_gradients_go_the_same_way():
    generator = torch.Generator().manual_seed(17)
    dense = torch.randn(4, 5, dtype=torch.float64, generator=generator).requires_grad_()
    values = torch.randn(20, dtype=torch.float64, generator=generator).requires_grad_()
    indices = torch.stack([torch.randint(size, (20,), generator=generator) for size in (5, 3)])

    def sparse(values):
        return torch.sparse_coo_tensor(indices, values, (5, 3), check_invariants=True)

    with reprocuda.enabled(strict=True):
        for call in (
            lambda d, v: d @ sparse(v).coalesce(),
            lambda d, v: d[0, 0] + sparse(v).to_dense(),
            lambda d, v: torch.sparse.mm(sparse(v).t().coalesce(), sparse(v).coalesce()).to_dense(),
            lambda d, v: d[0, :3] + sparse(v).coalesce().to_dense(),
        ):
            assert torch.autograd.gradcheck(call, (dense, values), masked=True)


def test_strict_refuses_what_it_leaves_to_torch():
    eye = torch.eye(3)
    csr, coo, base = eye.to_sparse_csr(), eye.to_sparse(), torch.full((3, 3), 7)
    calls = {
        "mm": lambda: coo.long() @ eye.long(),
        "mm.out": lambda: torch.mm(coo.long(), eye.long(), out=base),
        "bmm": lambda: torch.bmm(torch.stack([eye, eye]).long().to_sparse(), torch.ones(2, 3, 3).long()),
        "addmm": lambda: torch.addmm(csr, csr, csr),
        "addmm_": lambda: base.addmm_(coo.long(), eye.long()),
    }
    for overload, call in calls.items():
        # torch's mm of integers calls addmm.
        error = rf"^(addmm.*|{overload}): .* reprocuda does not"
        with reprocuda.enabled(strict=True), pytest.raises(RuntimeError, match=error):
            call()
        assert (base == 7).all(), "half done"
    for call in calls.values():
        with reprocuda.enabled():
            call()


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize(
    "bounds, found", [([0, 1, 5], "0 to 5"), ([1, 1, 2], "1 to 2"), ([0, 3, 2], "3 and then 2, at 2")]
)
def test_bounds_that_are_none_are_named(layout, bounds, found):
    """torch makes such matrices unchecked."""
    make_one = {"csr": torch.sparse_csr_tensor, "csc": torch.sparse_csc_tensor}[layout]
    matrix = make_one(bounds, [0, 1], torch.ones(2), (2, 2), check_invariants=False)
    name = {"csr": "crow_indices", "csc": "ccol_indices"}[layout]
    error = rf"\(\): {name} must rise from 0 to 2, the number of entries; got {found}"
    for reduce in ("sum", "mean", "amax"):
        with pytest.raises(RuntimeError, match="^sparse_mm" + error):
            reprocuda.sparse_mm(matrix, torch.ones(2, 2), reduce)
    with pytest.raises(RuntimeError, match="^sparse_addmm" + error):
        reprocuda.sparse_addmm(torch.ones(2, 2), matrix, torch.ones(2, 2))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn])
def test_coalesce_leaves_dtypes_without_sums_to_torch(dtype):
    tensor = torch.sparse_coo_tensor([[0, 0]], torch.tensor([1, 2]).to(dtype), (2,), check_invariants=True)
    with reprocuda.enabled():
        for call in (lambda: reprocuda.coalesce(tensor), tensor.coalesce):
            with pytest.raises(NotImplementedError, match='"coalesce" not implemented for'):
                call()
