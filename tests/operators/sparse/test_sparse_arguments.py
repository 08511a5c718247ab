"""Under enable() sparse arguments are refused where torch refuses them, and so is an output that overlaps itself."""

from fractions import Fraction

import pytest
import torch

import reprocuda

pytestmark = pytest.mark.filterwarnings("ignore:.*Sparse (CSR|CSC) tensor support is in beta.*")

COO = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 1]], torch.ones(3), (3, 3), check_invariants=True)
LAYOUTS = {
    "coo": COO,
    "coalesced": COO.coalesce(),
    "csr": COO.to_dense().to_sparse_csr(),
    "csc": COO.to_dense().to_sparse_csc(),
}
DENSE, BASE = torch.ones(2, 3), torch.ones(2, 3)


def outcome(call):
    try:
        result = call()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return type(error), str(error)
    return result.layout, result.stride() if result.layout == torch.strided else None


SPELLINGS = {
    "matmul": lambda m: DENSE @ m,
    "mm.out": lambda m: torch.mm(DENSE, m, out=torch.empty(2, 3)),
    "addmm": lambda m: torch.addmm(BASE, DENSE, m),
    "addmm, beta 0": lambda m: torch.addmm(BASE, DENSE, m, beta=0),
    "addmm.out": lambda m: torch.addmm(BASE, DENSE, m, out=torch.empty(2, 3)),
    "addmm_": lambda m: BASE.clone().addmm_(DENSE, m),
    "sparse.addmm": lambda m: torch.sparse.addmm(BASE, DENSE, m),
    "sparse.mm": lambda m: torch.sparse.mm(DENSE, m),
    "sparse.mm, sum": lambda m: torch.sparse.mm(m, BASE.T, "sum"),
    "sparse.mm, mean": lambda m: torch.sparse.mm(m, BASE.T, "mean"),
    "sparse.mm, amax": lambda m: torch.sparse.mm(m, BASE.T, "amax"),
} | {
    f"{way} {name}": lambda m, other=other, call=call: call(m, other)
    for name, other in LAYOUTS.items()
    for way, call in {
        "by": torch.matmul,
        "sparse.mm by": torch.sparse.mm,
        "added to a dense one by": lambda m, other: torch.addmm(torch.ones(3, 3), m, other),
    }.items()
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_strides_are_torchs_and_so_is_what_is_refused(layout, spelling):
    want = outcome(lambda: SPELLINGS[spelling](LAYOUTS[layout]))
    with reprocuda.enabled():
        assert outcome(lambda: SPELLINGS[spelling](LAYOUTS[layout])) == want


def overlapping():
    return torch.zeros(10).as_strided((3, 3), (2, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.mm(COO, torch.ones(3, 3), out=out),
        lambda out: torch.mm(LAYOUTS["csr"], torch.ones(3, 3), out=out),
        lambda out: torch.addmm(torch.ones(3, 3), COO, torch.ones(3, 3), out=out),
        lambda out: out.addmm_(COO, torch.ones(3, 3)),
        lambda out: torch.bmm(torch.stack([COO, COO]), torch.ones(2, 3, 3), out=out.expand(2, 3, 3)),
        lambda out: out.add_(COO),
        lambda out: out.sub_(COO),
        lambda out: out.add_(COO.coalesce()),
        lambda out: torch.sub(torch.ones(3, 3), COO.coalesce(), out=out),
        lambda out: torch.add(torch.ones(3, 3), COO, out=out),
        lambda out: torch.addmv(torch.ones(3), LAYOUTS["csr"], torch.ones(3), out=out.as_strided((3,), (0,))),
    ],
)
def test_a_written_tensor_that_overlaps_itself_is_refused(call):
    out = overlapping()
    with reprocuda.enabled(), pytest.raises(RuntimeError, match=r"overlaps itself|more than one element|single memory"):
        call(out)
    assert not out.any()


@pytest.mark.parametrize("method, want", [("add_", [4, 5, 3]), ("sub_", [-2, -1, 3])])
def test_entries_may_be_held_by_the_tensor_that_they_are_added_to(method, want):
    values = torch.tensor([1.0, 2, 3])
    with reprocuda.enabled():
        getattr(values, method)(torch.sparse_coo_tensor([[0, 0, 1]], values, (3,), check_invariants=True))
    # The first two entries are aimed at 0, the third at 1.
    assert values.tolist() == want


def test_strict_looks_at_a_result_that_is_an_argument_too():
    """torch.smm gives one tensor for both."""
    with reprocuda.enabled(strict=True):
        with pytest.raises(RuntimeError, match="not among those that it sums exactly"):
            torch.smm(COO.int(), torch.ones(3, 3).int())
        with pytest.raises(NotImplementedError):
            torch.smm(COO.bool(), torch.ones(3, 3).bool())


@pytest.mark.parametrize("alpha", [float("inf"), float("-inf"), float("nan")])
def test_a_factor_that_is_not_finite_multiplies_as_any(alpha):
    """torch multiplies rows without entries by it too, but only of compressed matrices."""
    base, dense = torch.ones(3, 3), torch.ones(3, 3)
    want = torch.sparse.addmm(base, COO, dense, alpha=alpha)
    for matrix in LAYOUTS.values():
        got = reprocuda.sparse_addmm(base, matrix, dense, alpha=alpha)
        assert torch.equal(got.nan_to_num(7), want.nan_to_num(7))


def test_results_are_where_their_arguments_are_whatever_the_default_device():
    with torch.device("meta"):
        assert reprocuda.coalesce(COO).device.type == "cpu"
        with reprocuda.enabled():
            for result in (COO.coalesce(), COO @ COO, torch.hspmm(COO, torch.ones(3, 2, device="cpu"))):
                assert result.device.type == "cpu"
        weight = torch.ones(3, 2, device="cpu", requires_grad=True)
        rows = torch.tensor([0, 0], device="cpu")
        reprocuda.embedding(rows, weight, sparse=True).sum().backward()
        assert weight.grad.device.type == "cpu"


def test_products_of_tensors_without_data():
    matrix, dense = COO.to("meta"), torch.ones(3, 2, device="meta")
    product = reprocuda.sparse_mm(matrix, dense)
    assert product.device.type == "meta" and product.shape == (3, 2)


HALF = torch.float16


@pytest.mark.parametrize(
    "call",
    [
        lambda: reprocuda.segment_reduce(
            torch.ones(3, 2, dtype=HALF), "mean", lengths=torch.tensor([1, 2]), initial=1.0
        ),
        lambda: reprocuda.scatter.scatter_mean(
            torch.ones(2, dtype=HALF), torch.tensor([0, 0]), 0, out=torch.ones(2, dtype=HALF)
        ),
        lambda: reprocuda.scatter.gather_csr(torch.ones(1, dtype=HALF), torch.tensor([0, 0])),
        lambda: torch.ones(3, 3, dtype=HALF).addmm_(COO.half(), torch.ones(3, 3, dtype=HALF)),
        lambda: torch.addmv(torch.ones(3, dtype=HALF), LAYOUTS["csr"].half(), torch.ones(3, dtype=HALF)),
        lambda: torch.sspaddmm(COO.half(), COO.half(), torch.ones(3, 3, dtype=HALF)),
    ],
)
def test_autocast_to_another_16_bit_type_leaves_our_steps_alone(call):
    with reprocuda.enabled():
        want = call()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = call()
    assert got.dtype == want.dtype and torch.equal(got.to_dense(), want.to_dense())


CANCELLING = torch.sparse_coo_tensor(
    [[0, 0, 0], [0, 1, 2]], torch.tensor([1e8, 1.0, -1e8]), (1, 3), check_invariants=True
)
ONES = torch.ones(3, 1)
OUT = {
    "mm": lambda m, out: torch.mm(m, ONES, out=out),
    "addmm": lambda m, out: torch.addmm(torch.zeros(1, 1), m, ONES, out=out),
    "mm, compressed": lambda m, out: torch.mm(m.to_sparse_csr(), ONES, out=out),
    "addmm, compressed": lambda m, out: torch.addmm(torch.zeros(1, 1), m.to_sparse_csr(), ONES, out=out),
    "mm by a compressed one": lambda m, out: torch.mm(ONES.T, m.to_dense().T.to_sparse_csr(), out=out),
    "bmm": lambda m, out: torch.bmm(torch.stack([m]), ONES[None], out=out),
    "mv": lambda m, out: torch.mv(m.to_sparse_csr(), ONES[:, 0], out=out),
    "addmv": lambda m, out: torch.addmv(torch.zeros(1), m.to_sparse_csr(), ONES[:, 0], out=out),
    "two compressed ones": lambda m, out: torch.addmm(
        torch.zeros(1, 1), m.to_sparse_csr(), ONES.to_sparse_csr(), out=out
    ),
    "mm of two compressed ones": lambda m, out: torch.mm(m.to_sparse_csr(), ONES.to_sparse_csr(), out=out),
    "add": lambda m, out: torch.add(torch.zeros(1), _at_one_place(m), out=out),
    "sub": lambda m, out: torch.sub(torch.zeros(1), -_at_one_place(m), out=out),
}


def _at_one_place(matrix):
    return torch.sparse_coo_tensor([[0, 0, 0]], matrix._values(), (1,), check_invariants=True)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("shape", [(0,), (1,), (1, 1), (1, 1, 1), (5,)])
@pytest.mark.parametrize("name", OUT)
def test_an_out_of_any_shape_takes_the_exact_sum(name, shape):
    out = torch.empty(shape)
    with reprocuda.enabled(strict=True):
        result = OUT[name](CANCELLING, out)
    assert result is out and out.tolist() in ([1.0], [[1.0]], [[[1.0]]])


def test_an_out_of_a_wider_type_takes_the_sum_in_the_narrower_one():
    for shape in ((0,), (1,)):
        out = torch.empty(shape, dtype=torch.float64)
        with reprocuda.enabled(strict=True):
            torch.add(torch.full((1,), 2.0**-30), _at_one_place(CANCELLING), out=out)
        assert out.tolist() == [1.0]


@pytest.mark.parametrize("left, right", [("csr", "csr"), ("csr", "csc"), ("csc", "csc")])
@pytest.mark.parametrize("beta, alpha", [(1, 1), (0, 1), (2, 3), (0.5, 0)])
def test_products_of_compressed_matrices_are_added_to_dense_ones_in_one_sum(left, right, beta, alpha):
    generator = torch.Generator().manual_seed(0)
    one, other, base = (
        torch.randint(-4, 5, shape, generator=generator).float()
        * 2.0 ** torch.randint(-20, 20, shape, generator=generator)
        for shape in ((6, 7), (7, 5), (6, 5))
    )
    spell = {"csr": torch.Tensor.to_sparse_csr, "csc": torch.Tensor.to_sparse_csc}
    # Integers times powers of two: float64 holds each product, and Fractions their sums.
    want = [
        [
            float(
                torch.tensor(
                    float(
                        Fraction(beta) * Fraction(base[i, k].item())
                        + sum(
                            Fraction(alpha) * Fraction(one[i, j].item()) * Fraction(other[j, k].item())
                            for j in range(7)
                        )
                    ),
                    dtype=torch.float64,
                ).float()
            )
            for k in range(5)
        ]
        for i in range(6)
    ]
    with reprocuda.enabled(strict=True):
        got = torch.addmm(base, spell[left](one), spell[right](other), beta=beta, alpha=alpha)
    assert got.tolist() == want
