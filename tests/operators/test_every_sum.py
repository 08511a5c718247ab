"""Every operator that sums by index, on the same 5400 adversarial problems a dtype: the sum as fractions have it."""

import functools

import numpy as np
import pytest
import torch

import reprocuda
from reprocuda import scatter
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, to_numpy_bits

pytestmark = pytest.mark.filterwarnings("ignore:.*Sparse (CSR|CSC) tensor support is in beta.*")
NUM_TARGETS, NUM_ROWS, LENGTH = 900, 5000, 9


@functools.cache
def problem(name, kind):
    """Rows sorted by target, and by each way to take them the bits that are right."""
    generator = torch.Generator().manual_seed(11)
    index = torch.randint(NUM_TARGETS, (NUM_ROWS,), generator=generator).sort().values
    values, weights = (make(kind, (NUM_ROWS,), DTYPES[name], generator) for _ in range(2))
    counts = np.maximum(np.bincount(index.numpy(), minlength=NUM_TARGETS), 1)
    exact = functools.partial(oracle.exact_segment_sums, to_numpy_bits(values), index.numpy(), NUM_TARGETS, name)
    zeros = np.zeros(NUM_TARGETS, oracle.FORMATS[name].bits)
    right = {
        "sum": exact(),
        "sum from 0": exact(initial=zeros),
        "mean": exact(divisor=counts),
        "weighted": exact(weights=weights.double().numpy()),
    }
    return values, weights, index, right


def edges_of(index):
    return torch.searchsorted(index, torch.arange(NUM_TARGETS + 1))


def gradient(read, values):
    """Of what is read from a vector of one element a target, for `values` as the gradient of what was read."""
    table = torch.zeros(NUM_TARGETS, dtype=values.dtype, requires_grad=True)
    return torch.autograd.grad(read(table), table, values)[0]


def bags(values, index, **options):
    """Of a table with a row for each value, in which every target is a bag."""
    rows, offsets = torch.arange(NUM_ROWS), edges_of(index)
    options = {"include_last_offset": True, **options}
    return reprocuda.embedding_bag(rows, values[:, None], offsets, **options)[:, 0]


def matrix(index, entries):
    indices = torch.stack([index, torch.arange(NUM_ROWS)])
    return torch.sparse_coo_tensor(indices, entries, (NUM_TARGETS, NUM_ROWS), check_invariants=False)


def spread(vector):
    """A coalesced sparse vector as a dense one, into which nothing is added: that would make +0 of -0."""
    return torch.zeros(NUM_TARGETS, dtype=vector.dtype).index_copy(0, vector.indices()[0], vector.values())


def nothing(values):
    """A base that adds nothing, not even to a sum of negative zeros."""
    return torch.full((NUM_TARGETS,), -0.0, dtype=values.dtype)


r = reprocuda
SUMS = {
    "index_add": lambda v, i: r.index_add(nothing(v), 0, i, v),
    "scatter_add": lambda v, i: r.scatter_add(nothing(v), 0, i, v),
    "index_put": lambda v, i: r.index_put(nothing(v), (i,), v, True),
    "put": lambda v, i: r.put(nothing(v), i, v, True),
    "scatter_reduce": lambda v, i: r.scatter_reduce(nothing(v), 0, i, v, "sum"),
    "segment_sum": lambda v, i: r.segment_sum(v, r.SegmentPlan.from_index(i, NUM_TARGETS)),
    "segment_reduce": lambda v, i: r.segment_reduce(v, "sum", offsets=edges_of(i)),
    "scatter.scatter_sum": lambda v, i: scatter.scatter_sum(v, i, dim_size=NUM_TARGETS),
    "scatter.segment_sum_coo": lambda v, i: scatter.segment_sum_coo(v, i, dim_size=NUM_TARGETS),
    "scatter.segment_sum_csr": lambda v, i: scatter.segment_sum_csr(v, edges_of(i)),
    "coalesce": lambda v, i: spread(
        r.coalesce(torch.sparse_coo_tensor(i[None], v, (NUM_TARGETS,), check_invariants=False))
    ),
    "embedding_bag": lambda v, i: bags(v, i, mode="sum"),
    "sparse_mm": lambda v, i: r.sparse_mm(matrix(i, v), torch.ones(NUM_ROWS, 1, dtype=v.dtype))[:, 0],
    "sparse_addmm": lambda v, i: r.sparse_addmm(
        nothing(v)[:, None], matrix(i, torch.ones_like(v)).coalesce().to_sparse_csr(), v[:, None]
    )[:, 0],
    "bincount": lambda v, i: r.bincount(i, v, NUM_TARGETS),
    "histogram": lambda v, i: r.histogram(i.to(v.dtype), torch.arange(NUM_TARGETS + 1.0).to(v.dtype), weight=v).hist,
    "index_select": lambda v, i: gradient(lambda table: r.index_select(table, 0, i), v),
    "gather": lambda v, i: gradient(lambda table: r.gather(table, 0, i), v),
    "take": lambda v, i: gradient(lambda table: r.take(table, i), v),
    "take_along_dim": lambda v, i: gradient(lambda table: r.take_along_dim(table, i, 0), v),
    "index": lambda v, i: gradient(lambda table: r.index(table, (i,)), v),
    "embedding": lambda v, i: gradient(lambda table: r.embedding(i, table[:, None])[:, 0], v),
    "repeat_interleave": lambda v, i: gradient(lambda table: r.repeat_interleave(table, edges_of(i).diff(), 0), v),
    "scatter.gather_coo": lambda v, i: gradient(lambda table: scatter.gather_coo(table, i), v),
    "scatter.gather_csr": lambda v, i: gradient(lambda table: scatter.gather_csr(table, edges_of(i)), v),
}
MEANS = {
    "scatter_reduce": lambda v, i: r.scatter_reduce(nothing(v), 0, i, v, "mean", include_self=False),
    "index_reduce": lambda v, i: r.index_reduce(nothing(v), 0, i, v, "mean", include_self=False),
    "segment_reduce": lambda v, i: r.segment_reduce(v, "mean", offsets=edges_of(i)),
    "embedding_bag": lambda v, i: bags(v, i, mode="mean"),
    "scatter.scatter_mean": lambda v, i: scatter.scatter_mean(v, i, dim_size=NUM_TARGETS),
    "scatter.segment_mean_csr": lambda v, i: scatter.segment_mean_csr(v, edges_of(i)),
}
WEIGHTED = {
    "embedding_bag": lambda v, w, i: bags(v, i, mode="sum", per_sample_weights=w),
    "sparse_mm": lambda v, w, i: r.sparse_mm(matrix(i, w), v[:, None])[:, 0],
    "sparse_addmm": lambda v, w, i: r.sparse_addmm(nothing(v)[:, None], matrix(i, w), v[:, None])[:, 0],
}
WIDE_ONLY = {"histogram": ("float32", "float64"), "bincount": ("float32", "float64")}
# Whose sums start from zeros of their own, which are contributions: +0.
FROM_ZEROS = {"segment_reduce", "scatter.scatter_sum", "scatter.segment_sum_coo", "scatter.segment_sum_csr"}
FROM_ZEROS |= {"index_select", "gather", "take", "take_along_dim", "index", "repeat_interleave"}
FROM_ZEROS |= {"scatter.gather_coo", "scatter.gather_csr"}
# Which add to `nothing`, and so keep it where no value goes.
ADDING = {"index_add", "scatter_add", "index_put", "put", "scatter_reduce", "index_reduce", "sparse_addmm"}


def expected(way, operator, dtype, kind):
    """The bits of all targets."""
    _, _, index, right = problem(dtype, kind)
    want = right["sum from 0" if way == "sum" and operator in FROM_ZEROS else way].copy()
    form, is_empty = oracle.FORMATS[dtype], np.bincount(index.numpy(), minlength=NUM_TARGETS) == 0
    assert is_empty.any()
    if operator in ADDING:
        want[is_empty] = form.sign
    elif (way, operator) == ("mean", "segment_reduce"):
        want[is_empty] = form.nan
    return want


CALLS = {
    **{("sum", name): lambda v, w, i, call=call: call(v, i) for name, call in SUMS.items()},
    **{("mean", name): lambda v, w, i, call=call: call(v, i) for name, call in MEANS.items()},
    **{("weighted", name): call for name, call in WEIGHTED.items()},
}
CASES = [(*case, dtype) for case in CALLS for dtype in WIDE_ONLY.get(case[1], DTYPES)]


@pytest.mark.parametrize("way, operator, dtype", CASES)
def test_sums_and_means(way, operator, dtype):
    outputs = 0
    for kind in KINDS:
        values, weights, index, _ = problem(dtype, kind)
        got = to_numpy_bits(CALLS[way, operator](values, weights, index))
        want = expected(way, operator, dtype, kind)
        differ = got != want
        assert not differ.any(), (kind, got[differ][:3], want[differ][:3])
        outputs += got.size
    assert outputs >= 5000


@pytest.mark.parametrize("dtype", DTYPES)
def test_prefix_sums(dtype):
    outputs = 0
    for kind in KINDS:
        rows = make(kind, (100, LENGTH), DTYPES[dtype], torch.Generator().manual_seed(12))
        # Prefix k of a row is a segment of its first k + 1 numbers.
        taken = np.concatenate([np.arange(k + 1) for k in range(LENGTH)])
        prefix = np.repeat(np.arange(LENGTH), np.arange(LENGTH) + 1)
        segments = (np.arange(100)[:, None] * LENGTH + prefix).reshape(-1)
        want = oracle.exact_segment_sums(to_numpy_bits(rows)[:, taken].reshape(-1), segments, 100 * LENGTH, dtype)
        got = to_numpy_bits(reprocuda.cumsum(rows, 1)).reshape(-1)
        assert (got == want).all(), kind
        outputs += got.size
    assert outputs >= 5000


def test_every_exact_operator_that_sums_is_here():
    exact = {name for name, operator in reprocuda.registry.items() if operator.tier == "exact"}
    here = {*SUMS, *MEANS, *WEIGHTED, "cumsum"}
    assert here <= exact
    others = exact - here
    copies = {"scatter", "index_copy", "index_fill", "masked_scatter"}
    same_code = {"histc", "histogramdd", "scatter.scatter_add", "scatter.segment_add_coo", "scatter.segment_add_csr"}
    same_code |= {"scatter.scatter", "scatter.segment_coo", "scatter.segment_csr", "scatter.segment_mean_coo"}
    no_sums = {"scatter.scatter_mul"} | {name for name in others if name.endswith(("min", "max", "_coo", "_csr"))}
    assert others <= copies | same_code | no_sums, others - copies - same_code - no_sums
