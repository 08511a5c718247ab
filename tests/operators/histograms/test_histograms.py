"""bincount, histc, histogram, histogramdd: the bins torch's own, the sums against fractions, the counts whole."""

import random

import pytest
import torch

import reprocuda
from reprocuda.families.histograms import edges_by_ends
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, assert_same_bits, from_numpy_bits, threads, to_numpy_bits

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")
NAN = float("nan")


def both(name, *args, **options):
    """The counts by our function, and the same by torch's name under enable()."""
    results = []
    for namespace, ops in ((reprocuda, []), (torch, None)):
        with reprocuda.enabled(ops=ops):
            result = getattr(namespace, name)(*args, **options)
        results.append(result if isinstance(result, torch.Tensor) else result.hist)
    assert_same_bits(*results, "the function and the replaced operator")
    return results[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_weighted_counts_are_exact(name, kind):
    generator = torch.Generator().manual_seed(5)
    index = torch.randint(0, 11, (300,), generator=generator)
    weights = make(kind, (300,), DTYPES[name], generator)
    want = oracle.exact_segment_sums(to_numpy_bits(weights), index.numpy(), 14, name)
    for order in (slice(None), torch.randperm(300, generator=generator)):
        got = both("bincount", index[order], weights[order], 14)
        assert_same_bits(got, from_numpy_bits(want, DTYPES[name]), kind)


def test_counts_and_weights_of_every_kind():
    column = torch.stack([torch.arange(6) % 3, torch.zeros(6).long()], 1)[:, 0]
    assert both("bincount", column).tolist() == [2, 2, 2]
    assert both("bincount", torch.zeros(0).long(), torch.zeros(0), 3).tolist() == [0, 0, 0]
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        got = both("bincount", torch.tensor([1, 1], dtype=dtype), torch.tensor([0.5, 0.25]))
        assert got.dtype == torch.float32 and got.tolist() == [0, 0.75]
    for weights in (torch.tensor([2, 3]), torch.tensor([2.0, 3.0]).half(), torch.tensor([True, True])):
        got = both("bincount", torch.tensor([1, 1]), weights)
        assert got.dtype == torch.float64 and got[1] == weights.double().sum()


@pytest.mark.parametrize("replaced", [False, True])
def test_wrong_arguments(replaced):
    ns = torch if replaced else reprocuda
    with reprocuda.enabled(ops=None if replaced else []):
        for call in (
            lambda: ns.bincount(torch.tensor([-1, 2]), torch.ones(2)),
            lambda: ns.bincount(torch.tensor([1, 2]), torch.ones(3)),
            lambda: ns.bincount(torch.ones(2, 2).long(), torch.ones(2, 2)),
            lambda: ns.bincount(torch.tensor([1.0]), torch.ones(1)),
            lambda: ns.bincount(torch.tensor([1]), torch.ones(1), -1),
            lambda: ns.histc(torch.ones(2), 0),
            lambda: ns.histc(torch.ones(2), 3, 2, 1),
            lambda: ns.histc(torch.tensor([float("inf"), 0.0])),
            lambda: ns.histogram(torch.ones(2), 0),
            lambda: ns.histogram(torch.ones(2), 2, weight=torch.ones(3)),
            lambda: ns.histogram(torch.ones(2), torch.ones(3).double()),
            lambda: ns.histogramdd(torch.ones(2, 2), [1, 2, 3]),
        ):
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                call()


POINTS = {
    "normal": lambda generator: torch.randn(4000, generator=generator, dtype=torch.float64),
    "on edges": lambda generator: torch.randint(-6, 7, (4000,), generator=generator) / 4,
    "beside edges": lambda generator: torch.randint(-6, 7, (4000,), generator=generator) / 3 * (1 + 2**-24),
    "odd": lambda generator: torch.tensor([NAN, 0.0, -0.0, 1e-310, -5, 2, 1.5, -1.5]),
}


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("bins", [1, 7, 100])
def test_bins_are_torchs(points, bins):
    x = POINTS[points](torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.float64, torch.half, torch.bfloat16):
        if dtype in (torch.half, torch.bfloat16) and "histc_half" not in SUPPORTED:
            continue
        low, high = torch.tensor(-1.5).to(dtype).item(), torch.tensor(1.3).to(dtype).item()
        values = x.to(dtype)
        # In pieces: torch counts in the dtype itself, and bfloat16 ends at 256.
        want = sum(torch.histc(piece, bins, low, high).long() for piece in values.split(200))
        assert_same_bits(both("histc", values, bins, low, high), want.to(dtype))
    for dtype in (torch.float32, torch.float64):
        values = x.to(dtype)
        for density in (False, True):
            want = torch.histogram(values, bins, range=(-1.5, 1.3), density=density)
            got = both("histogram", values, bins, range=(-1.5, 1.3), density=density)
            assert_same_bits(got, want.hist)
            edges = want.bin_edges
            got = reprocuda.histogram(values, edges, density=density)
            assert_same_bits(got.bin_edges, edges)
            want = torch.histogram(values, edges, density=density).hist
            assert_same_bits(got.hist, want)
            assert_same_bits(both("histogram", values, edges, density=density), got.hist)


def half_works() -> bool:
    try:
        torch.histc(torch.ones(1, dtype=torch.half), 1, 0, 1)
    except RuntimeError:
        return False
    return True


SUPPORTED = {"histc_half"} if half_works() else set()


@pytest.mark.parametrize("weighted", [False, True])
def test_several_dimensions(weighted):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(500, 3, generator=generator)
    w = make("wide", (500,), torch.float32, generator) if weighted else None
    edges = [torch.tensor([-1.0, 0, 0.5, 2]), torch.tensor([-2.0, 2]), torch.tensor([-1.0, 1, 1.5])]
    bounds = [-1.0, 1, -2, 2, -1, 1]
    for bins, options in ((edges, {}), ([3, 2, 4], {"range": bounds}), (2, {"range": bounds}), ([2, 2, 2], {})):
        got = both("histogramdd", x, bins, weight=w, **options)
        counts, bin_edges = torch.histogramdd(x, bins, **options)
        if w is None:
            assert_same_bits(got, counts)
            continue
        each = torch.stack([torch.histogramdd(point[None], list(bin_edges)).hist.reshape(-1) for point in x])
        inside, place = each.nonzero().unbind(1)
        want = oracle.exact_segment_sums(to_numpy_bits(w[inside]), place, got.numel(), "float32")
        assert_same_bits(got, from_numpy_bits(want, torch.float32).reshape(got.shape))


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_weighted_histograms_are_exact_in_any_order_with_any_threads(name):
    generator = torch.Generator().manual_seed(6)
    for kind in KINDS:
        x = torch.rand(40_000, generator=generator).to(DTYPES[name])
        w = make(kind, (40_000,), DTYPES[name], generator)
        edges = torch.linspace(0, 0.9, 10, dtype=DTYPES[name])
        keys = torch.bucketize(x, edges, right=True) - 1
        kept = keys < 9
        want = oracle.exact_segment_sums(to_numpy_bits(w[kept]), keys[kept].numpy(), 9, name)
        order = torch.randperm(40_000, generator=generator)
        for count in (1, 2):
            with threads(count):
                got = both("histogram", x[order], edges, weight=w[order])
                assert_same_bits(got, from_numpy_bits(want, DTYPES[name]), f"{kind} {count}")


def test_more_than_a_float_can_count():
    many = 2**24 + 3
    assert both("histc", torch.zeros(many), 2, 0, 1).tolist() == [float(torch.tensor(many).float()), 0]
    assert both("histogram", torch.zeros(2 * many), 2, range=(0.0, 1.0))[0] == float(2 * many)


def test_integers_nan_and_the_right_edge():
    assert both("histc", torch.tensor([0, 1, 1, 3]), 4, 0, 3).tolist() == [1, 2, 0, 1]
    assert both("histc", torch.tensor([0.0, 1, 1, 3]), 4, 0, 3).tolist() == [1, 2, 0, 1]
    assert both("histc", torch.tensor([NAN, 0, 0.5, 1, 2, -1]), 2, 0, 1).tolist() == [1, 2]
    assert both("histc", torch.tensor([1.0, 2, 3]), 2).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.int64])
def test_equal_ends_of_a_range_count_what_is_there(dtype):
    x = torch.tensor([1, 2, 3, 3, 4, 5, 6, 7, 8]).to(dtype)
    assert reprocuda.histc(x, 5, 7, 7).tolist() == [0, 0, 1, 0, 0]
    assert reprocuda.histc(x, 4, 3, 3).tolist() == [0, 0, 2, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edges_by_the_ends_of_the_data_are_torchs(dtype):
    """As they are found where torch has no histogram."""
    generator = torch.Generator().manual_seed(9)
    points = torch.randn(500, 3, generator=generator, dtype=dtype)
    for data in (points, points[:1], points[:0], points * 1e30):
        for bounds in (None, [-1.0, 1, -2, 3, 0, 0.1]):
            want = torch.histogramdd(data, [3, 10, 1], range=bounds).bin_edges
            got = edges_by_ends(data, [3, 10, 1], bounds)
            assert all(torch.equal(*pair) for pair in zip(got, want, strict=True))


def test_more_bins_than_64_bits_count_are_refused():
    points = torch.rand(10, 4)
    for namespace in (torch, reprocuda):
        with reprocuda.enabled(), pytest.raises(RuntimeError):
            namespace.histogramdd(points, [65536] * 4, range=[0.0, 1.0] * 4)


def test_compiled_code_bins_large_integers_as_eager_code():
    b = 2**53
    compiled = torch.compile(lambda x: reprocuda.histc(x, 2, b + 1, b + 3), backend="aot_eager", fullgraph=True)
    x = torch.tensor([b, b + 1, b + 2, b + 3])
    assert compiled(x).tolist() == reprocuda.histc(x, 2, b + 1, b + 3).tolist() == [1, 2]


def test_a_default_device_does_not_reach_what_is_computed_elsewhere():
    x = torch.rand(50)
    want = reprocuda.histogram(x, 3, density=True), reprocuda.histc(x, 3)
    with torch.device("meta"):
        got = reprocuda.histogram(x, 3, density=True), reprocuda.histc(x, 3)
    assert torch.equal(got[0].hist, want[0].hist) and torch.equal(got[1], want[1])


EQUAL = (1e8, -1e8, 2.0**24, 2.0**24 - 1, 3e7, 2.0**54, 1e30, 3e38, torch.finfo(torch.float32).max)


@pytest.mark.parametrize("value", EQUAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_data_all_equal_and_too_large_for_a_margin(value, dtype):
    x = torch.full((5,), value, dtype=dtype)
    for bins in (1, 2, 3, 4, 8):
        assert_same_bits(both("histc", x, bins), torch.histc(x, bins))
        assert reprocuda.histc(x, bins, value, value).sum() == 5
        narrow = value, value + 0.25
        assert_same_bits(both("histc", x, bins, *narrow), torch.histc(x, bins, *narrow))
        for options in ({}, {"weight": torch.arange(5).to(dtype)}, {"range": narrow}):
            assert_same_bits(both("histogram", x, bins, **options), torch.histogram(x, bins, **options).hist)
        points = torch.stack([x, torch.arange(5).to(dtype)], 1)
        for weight in (None, torch.arange(5).to(dtype)):
            want = torch.histogramdd(points, [bins, 2], weight=weight).hist
            assert_same_bits(both("histogramdd", points, [bins, 2], weight=weight), want)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_halves_all_equal_and_too_large_for_a_margin(dtype):
    for value in (300.0, 4096.0, -8192.0):
        x = torch.full((5,), value, dtype=dtype)
        for bins in (1, 2, 4):
            assert_same_bits(both("histc", x, bins), torch.histc(x, bins))


def test_points_whose_product_with_the_number_of_bins_overflows():
    x = torch.tensor([0, 1e38, 1.5e38, 2.9e38, 3e38])
    bounds = 0.0, x[-1].item()
    want = torch.histogram(x.double(), 100, range=bounds).hist.float()
    assert_same_bits(both("histc", x, 100, *bounds), want)
    assert_same_bits(both("histogram", x, 100, range=bounds), want)


def test_histc_writes_into_out():
    out = torch.zeros(2)
    for ns, ops in ((reprocuda, []), (torch, None)):
        with reprocuda.enabled(ops=ops):
            ns.histc(torch.tensor([0.0, 0.2, 1.0]), 2, 0, 1, out=out.zero_())
        assert out.tolist() == [2, 1]


@pytest.mark.parametrize("ns, ops", [(torch, []), (torch, None), (reprocuda, [])])
def test_what_histc_takes_for_out(ns, ops):
    x = torch.tensor([0.0, 0.2, 1.0])
    with reprocuda.enabled(ops=ops):
        for wrong in (torch.zeros(2).double(), torch.zeros(2).int(), torch.zeros(2, device="meta")):
            with pytest.raises(RuntimeError):
                ns.histc(x, 2, 0, 1, out=wrong)
        for size in (0, 2):
            out = torch.zeros(size, requires_grad=True)
            assert ns.histc(x, 2, 0, 1, out=out) is out
            assert out.tolist() == [2, 1] and out.is_leaf and out.requires_grad


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bins", [5, torch.tensor([0.0, 0.5, 0.75, 1.0])], ids=["count", "edges"])
def test_histogram_writes_into_out(bins, weighted):
    generator = torch.Generator().manual_seed(8)
    x = torch.rand(30_000, generator=generator)
    weight = make("wide", (30_000,), torch.float32, generator) if weighted else None
    want = reprocuda.histogram(x, bins, weight=weight)
    assert not torch.equal(want.hist, torch.histogram(x, bins, weight=weight).hist) or not weighted
    for ns, ops in ((reprocuda, []), (torch, None)):
        for size in (0, len(want.hist), 9):
            out = torch.full((size,), NAN), torch.full((size,), NAN)
            with reprocuda.enabled(ops=ops):
                got = ns.histogram(x, bins, weight=weight, out=out)
            assert got[0] is out[0] and got[1] is out[1]
            assert_same_bits(out[0], want.hist)
            assert_same_bits(out[1], want.bin_edges)
        for wrong in ((torch.zeros(5).double(), torch.zeros(6)), (torch.zeros(5), torch.zeros(6).int())):
            with reprocuda.enabled(ops=ops), pytest.raises(RuntimeError, match="should have the same dtype"):
                ns.histogram(x, bins, weight=weight, out=wrong)


COMPILED = {
    "bincount": lambda x, index, w: reprocuda.bincount(index, w, 3),
    "bincount, longer": lambda x, index, w: reprocuda.bincount(index, w, 20) * 2,
    "histc": lambda x, index, w: reprocuda.histc(x, 5, 0, 1),
    "histc of the data": lambda x, index, w: reprocuda.histc(x, 5),
    "histc of integers": lambda x, index, w: reprocuda.histc(index, 4, 0, 5),
    "histogram": lambda x, index, w: reprocuda.histogram(x, 4, range=(0.0, 1.0), weight=w),
    "histogram by edges": lambda x, index, w: reprocuda.histogram(x, x[:3].sort().values, weight=w, density=True),
    "histogramdd": lambda x, index, w: reprocuda.histogramdd(x.view(-1, 2), [2, 3], weight=w[::2]).hist,
    "histogramdd by edges": lambda x, index, w: reprocuda.histogramdd(x.view(-1, 2), [x[:3].sort().values] * 2).hist,
}


@pytest.mark.parametrize("call", COMPILED.values(), ids=COMPILED)
def test_compiled_code_calls_ours(call):
    generator = torch.Generator().manual_seed(9)
    x = torch.rand(3000, generator=generator)
    index = torch.randint(0, 11, (3000,), generator=generator)
    weight = make("wide", (3000,), torch.float32, generator)
    graphs = []

    def record(graph, _):
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    got = torch.compile(call, backend=record, fullgraph=True)(x, index, weight)
    want = call(x, index, weight)
    for ours, theirs in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        assert_same_bits(ours, theirs)
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert any(target.startswith("reprocuda.") for target in targets), targets
    torch._dynamo.reset()
    got = torch.compile(call, backend="aot_eager", fullgraph=True)(x, index, weight)
    for ours, theirs in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        assert_same_bits(ours, theirs)


def test_compiled_code_meets_torchs_errors():
    torch._dynamo.reset()
    compiled = torch.compile(reprocuda.bincount, backend="aot_eager", fullgraph=True)
    with pytest.raises(RuntimeError, match="non-negative"):
        compiled(torch.tensor([-1, 2]), torch.ones(2))


def test_integers_of_every_range():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int64):
        x = torch.tensor([0, 3, 5, 9, 100, 7, 7], dtype=dtype)
        want = torch.histc(x.double(), 5, -3, 9).to(dtype)
        assert_same_bits(both("histc", x, 5, -3, 9), want)
        assert both("histc", x, 3).tolist() == [6, 0, 1]


def integer_counts(values: list[int], bins: int, lowest: int, highest: int) -> list[int]:
    """What histc of integers is, in Python's integers."""
    if lowest == highest:
        lowest, highest = min(values), max(values)
    if lowest == highest:
        lowest, highest = lowest - 1, highest + 1
    counts = [0] * bins
    for value in values:
        if lowest <= value <= highest:
            counts[min((value - lowest) * bins // (highest - lowest), bins - 1)] += 1
    return counts


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integers_at_the_ends_of_their_range(dtype):
    """Where differences of values, or their products with the number of bins, do not fit into 64 bits."""
    first, last = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    middle = (first + last) // 2
    generator = random.Random(0)
    near = [first, first + 1, middle - 1, middle, middle + 1, last - 1, last, last // 4, first // 3]
    values = near + [generator.randint(first, last) for _ in range(100)]
    ranges = [(0, 0), (first, last), (0, last), (first, first + 7), (last - 1, last), (first + 3, last // 3)]
    for bins in (1, 2, 3, 4, 16, 17, 1000):
        edges = [first + (last - first) * k // bins for k in range(0, bins, max(bins // 20, 1))]
        every = values + edges + [edge + 1 for edge in edges]
        for lowest, highest in ranges:
            if lowest == highest != 0 or lowest > highest:
                continue
            got = both("histc", torch.tensor(every, dtype=dtype), bins, lowest, highest)
            assert got.tolist() == integer_counts(every, bins, lowest, highest), (bins, lowest, highest)
        for same in (first, last):
            equal = [same] * 3
            got = both("histc", torch.tensor(equal, dtype=dtype), bins)
            assert got.tolist() == integer_counts(equal, bins, 0, 0)


def test_a_range_that_no_integer_has_is_torchs_to_refuse():
    for lowest, highest in ((-(2.0**63) * 2, 0), (0, 2.0**63), (float("nan"), 1), (0, float("inf"))):
        with pytest.raises(RuntimeError):
            reprocuda.histc(torch.tensor([1, 2]), 4, lowest, highest)


def test_counts_that_no_memory_holds():
    with pytest.raises(RuntimeError, match=r"no memory for a tensor of shape \[1099511627777, 1\]") as caught:
        reprocuda.bincount(torch.tensor([2**40]), torch.ones(1))
    assert "/" not in str(caught.value)  # no path of the build
