"""What sums sparse tensors, bags and counts under torch.func's transforms and autocast, where torch has them."""

import pytest
import torch
from torch.func import grad, jacrev, jvp, vjp, vmap

import reprocuda
from tests import oracle
from tests.operators.bits import assert_same_bits, from_numpy_bits, to_numpy_bits

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Sparse (CSR|CSC) tensor support is in beta.*"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]
MATRIX = torch.tensor([[0.0, 2.0, 1e8], [3.0, 4.0, -1e8]], dtype=torch.float64)
LAYOUTS = {"coo": MATRIX.to_sparse(), "csr": MATRIX.to_sparse_csr(), "csc": MATRIX.to_sparse_csc()}
BATCH = torch.randn(4, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
BASES = torch.randn(4, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_are_vmapped(layout):
    matrix = LAYOUTS[layout]
    for reduce in ("sum", "mean", "amax"):
        want = torch.stack([reprocuda.sparse_mm(matrix, dense, reduce) for dense in BATCH])
        got = vmap(lambda dense, r=reduce: reprocuda.sparse_mm(matrix, dense, r))(BATCH)
        assert torch.equal(got, want)
    got = vmap(lambda base, dense: reprocuda.sparse_addmm(base, matrix, dense, beta=2))(BASES, BATCH)
    both = zip(BASES, BATCH, strict=True)
    assert torch.equal(got, torch.stack([reprocuda.sparse_addmm(base, matrix, dense, beta=2) for base, dense in both]))


def test_an_empty_batch_is_refused():
    with pytest.raises(RuntimeError, match="expected a batch that is not empty"):
        vmap(lambda dense: reprocuda.sparse_mm(LAYOUTS["coo"], dense))(BATCH[:0])


def test_gradients_of_products():
    matrix, dense, base = LAYOUTS["coo"], BATCH[0], BASES[0]
    want = torch.autograd.functional.jacobian(lambda x: reprocuda.sparse_mm(matrix, x), dense)
    assert torch.equal(jacrev(lambda x: reprocuda.sparse_mm(matrix, x))(dense), want)
    ones = torch.ones(2, 5, dtype=torch.float64)
    of_base, of_dense = vjp(lambda b, x: reprocuda.sparse_addmm(b, matrix, x, beta=2), base, dense)[1](ones)
    assert torch.equal(of_dense, MATRIX.T @ ones) and torch.equal(of_base, 2 * ones)
    assert torch.equal(grad(lambda m: reprocuda.sparse_mm(m, dense).sum())(matrix).to_dense() != 0, MATRIX != 0)
    each = vmap(grad(lambda x: (reprocuda.sparse_mm(matrix, x) ** 2).sum()))(BATCH)
    assert torch.equal(each[1], grad(lambda x: (reprocuda.sparse_mm(matrix, x) ** 2).sum())(BATCH[1]))
    for call in (reprocuda.sparse_mm, torch.sparse.mm):
        with pytest.raises(NotImplementedError):
            jvp(lambda x, f=call: f(matrix, x), (dense,), (dense,))


@pytest.mark.parametrize("shape", [(5,), (2, 1), (1, 1), ()])
def test_gradients_of_what_is_broadcast(shape):
    matrix, dense = LAYOUTS["coo"], BATCH[0]

    def loss(base):
        return (reprocuda.sparse_addmm(base, matrix, dense, beta=2) ** 2).sum()

    base = torch.linspace(1, 2, max(1, torch.Size(shape).numel()), dtype=torch.float64).reshape(shape)
    # Of each element of the result its double, twice.
    place = torch.arange(base.numel()).reshape(shape).expand(2, 5).reshape(-1)
    each = to_numpy_bits(reprocuda.sparse_addmm(base, matrix, dense, beta=2) * 4).reshape(-1)
    want = oracle.exact_segment_sums(each, place, base.numel(), "float64")
    assert_same_bits(grad(loss)(base), from_numpy_bits(want, torch.float64).reshape(shape))
    assert torch.equal(
        jacrev(grad(loss))(base), jacrev(grad(lambda b: ((2 * b + MATRIX @ dense) ** 2).sum()))(base)
    )
    batch = torch.stack([base, base + 1])
    assert_same_bits(vmap(grad(loss))(batch), torch.stack([grad(loss)(b) for b in batch]))


def test_gradients_of_entries_with_equal_indices():
    entries = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], torch.tensor([1.0, 2, 3]), (2, 2), check_invariants=True)
    doubled = torch.tensor([[0.0, 6], [6, 0]])  # of the squares of 3 and 3
    assert torch.equal(grad(lambda m: (reprocuda.coalesce(m).to_dense() ** 2).sum())(entries).to_dense(), doubled)
    for call in (
        lambda m: reprocuda.sparse_mm(m, torch.eye(2)),
        lambda m: reprocuda.sparse_addmm(torch.zeros(2, 2), m, torch.eye(2)),
    ):
        got = grad(lambda m, call=call: (call(m) ** 2).sum())(entries)
        assert torch.equal(got.coalesce().to_dense(), doubled)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_vmapped(mode):
    indices, offsets = torch.tensor([[0, 1, 1, 2], [2, 2, 0, 1]]), torch.tensor([0, 3])

    def call(weight, indices):
        return reprocuda.embedding_bag(indices, weight, offsets, mode=mode)

    assert torch.equal(vmap(call, (0, None))(BATCH, indices[0]), torch.stack([call(w, indices[0]) for w in BATCH]))
    assert torch.equal(vmap(call, (None, 0))(BATCH[0], indices), torch.stack([call(BATCH[0], i) for i in indices]))
    pairs = zip(BATCH[:2], indices, strict=True)
    assert torch.equal(vmap(call)(BATCH[:2], indices), torch.stack([call(*pair) for pair in pairs]))
    per_sample = vmap(grad(lambda w, i: (call(w, i) ** 2).sum()))(BATCH[:2], indices)
    assert torch.equal(per_sample[1], grad(lambda w: (call(w, indices[1]) ** 2).sum())(BATCH[1]))


def test_counts_are_vmapped_and_have_no_derivative():
    numbers, weights = torch.tensor([[0, 1, 1, 2], [3, 3, 0, 3]]), BATCH[:2, 0, :4]
    got = vmap(lambda x, w: reprocuda.bincount(x, w, 4))(numbers, weights)
    assert torch.equal(got, torch.stack([reprocuda.bincount(x, w, 4) for x, w in zip(numbers, weights, strict=True)]))
    for bins in (3, torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)):
        got = vmap(lambda x, w, b=bins: reprocuda.histogram(x, b, weight=w))(weights, weights.abs())
        each = [reprocuda.histogram(x, bins, weight=x.abs()) for x in weights]
        assert torch.equal(got[0], torch.stack([one.hist for one in each]))
        assert torch.equal(got[1], torch.stack([one.bin_edges for one in each]))
    got = vmap(lambda x: reprocuda.histc(x, 3, -1, 1))(weights)
    assert torch.equal(got, torch.stack([reprocuda.histc(x, 3, -1, 1) for x in weights]))
    assert torch.equal(grad(lambda x: reprocuda.histc(x, 3).sum())(weights[0]), torch.zeros(4, dtype=torch.float64))
    for namespace in (torch, reprocuda):
        with pytest.raises(RuntimeError, match="derivative"):
            grad(lambda w, ns=namespace: ns.bincount(numbers[0], w).sum())(weights[0])
        with pytest.raises(RuntimeError, match="derivative"):
            namespace.bincount(numbers[0], weights[0].clone().requires_grad_()).sum().backward()
        with pytest.raises(RuntimeError, match="derivative"):
            namespace.histogram(weights[0].clone().requires_grad_(), 3).hist.sum().backward()
        with pytest.raises(NotImplementedError):
            jvp(lambda w, ns=namespace: ns.bincount(numbers[0], w), (weights[0],), (weights[0],))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_products_under_autocast_are_of_the_dtype_of_torchs(dtype):
    matrix, dense, base = MATRIX.div(1e8).to(dtype).to_sparse(), BATCH[0].to(dtype), BASES[0].to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        calls = (
            lambda ns: ns.mm(matrix, dense), lambda ns: ns.addmm(base, matrix, dense),
            lambda ns: ns.mm(matrix, dense.float()), lambda ns: ns.addmm(base, matrix, dense.bfloat16()),
        )  # fmt: skip
        for call in calls:
            try:
                want = call(torch.sparse)
            except RuntimeError as error:
                with pytest.raises(type(error)):
                    call(OURS)
                continue
            got = call(OURS)
            assert got.dtype == want.dtype
            torch.testing.assert_close(got, want)  # torch's are rounded more than once
        low = matrix.to(torch.bfloat16) if dtype != torch.float64 else matrix
        with torch.autocast("cpu", enabled=False):
            want = reprocuda.sparse_mm(low, dense.to(low.dtype))
        assert torch.equal(reprocuda.sparse_mm(matrix, dense), want)
        assert reprocuda.sparse_mm(matrix.to_sparse_csr(), dense, "mean").dtype == dtype


class OURS:
    mm = staticmethod(reprocuda.sparse_mm)
    addmm = staticmethod(reprocuda.sparse_addmm)


def test_histograms_of_several_dimensions_are_vmapped():
    points, weights = torch.rand(4, 7, 2), torch.rand(4, 7)
    for options in (
        {"bins": [3, 2], "range": [0.0, 1.0, 0.0, 1.0]},
        {"bins": 3},
        {"bins": [torch.linspace(0, 1, 4), torch.linspace(0, 1, 3)], "density": True},
    ):
        got = vmap(lambda x, w, given=options: reprocuda.histogramdd(x, weight=w, **given))(points, weights)
        each = [reprocuda.histogramdd(x, weight=w, **options) for x, w in zip(points, weights, strict=True)]
        assert torch.equal(got[0], torch.stack([one.hist for one in each]))
        for dim, edges in enumerate(got[1]):
            assert torch.equal(edges, torch.stack([one.bin_edges[dim] for one in each]))
    for ns in (torch, reprocuda):
        hist = ns.histogramdd(points[0].clone().requires_grad_(), 3).hist
        with pytest.raises(RuntimeError, match="not implemented"):
            hist.sum().backward()
