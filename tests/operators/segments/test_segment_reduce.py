"""torch.segment_reduce, called and replaced: against fractions, torch's gradients, threads, orders, refusals."""

import math
from itertools import pairwise

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import reprocuda
from reprocuda import ops
from reprocuda.families import segments
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, NAMES, assert_same_bits, threads, to_numpy_bits
from tests.operators.forcing import forced

REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}
EMPTY = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}
LENGTHS = torch.tensor([3, 0, 1, 9, 0, 7])
pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_exact_and_rounded_once(reduce, dtype):
    generator, outputs = torch.Generator().manual_seed(0), 0
    for kind in KINDS * 2:
        for initial in (None, 0.0, 1.5):
            if reduce == "mean" and initial:
                continue  # not counted: test_mean_with_initial.py
            for columns in (1, 5, 33):
                data = make(kind, (20, columns), DTYPES[dtype], generator)
                got = reprocuda.segment_reduce(data, reduce, lengths=LENGTHS, initial=initial)
                offsets = torch.cat([torch.zeros(1, dtype=torch.long), LENGTHS.cumsum(0)])
                assert_same_bits(reprocuda.segment_reduce(data, reduce, offsets=offsets, initial=initial), got)
                with reprocuda.enabled():
                    assert_same_bits(torch.segment_reduce(data, reduce, lengths=LENGTHS, initial=initial), got)
                bits = to_numpy_bits(got)
                for segment, column in ((s, c) for s in range(6) for c in range(columns)):
                    values = data[offsets[segment] : offsets[segment + 1], column].double().tolist()
                    # sums start at +0; a mean's start counts for nothing
                    start = EMPTY[reduce] if initial is None else initial
                    members = values if values and reduce == "mean" else [*values, start]
                    want = oracle.exact_reduction(members, REDUCTIONS[reduce], dtype)
                    assert int(bits[segment, column]) == want, (kind, initial, values)
                outputs += bits.size
    assert outputs > 2000


NONE = torch.zeros(2, 0, dtype=torch.long)


@pytest.mark.parametrize(
    "shape, keywords, want",
    [
        ((0, 6, 3), {"lengths": NONE.T, "axis": 1}, (0, 2, 3)),
        ((0, 6, 3), {"offsets": torch.zeros(0, 3, dtype=torch.long), "axis": 1}, (0, 2, 3)),
        ((2, 0, 3), {"lengths": NONE, "axis": 1}, (2, 0, 3)),
        ((2, 4, 3), {"lengths": NONE, "axis": 1, "unsafe": True}, (2, 0, 3)),
        ((3, 0), {"lengths": torch.tensor([1, 2])}, (2, 0)),
        ((0, 2), {"lengths": torch.tensor([0, 0])}, (2, 2)),
        ((4,), {"offsets": torch.tensor([2])}, (0,)),
    ],
)
def test_nothing_at_all(shape, keywords, want):
    for reduce, empty in EMPTY.items():
        got = reprocuda.segment_reduce(torch.ones(shape), reduce, **keywords)
        assert got.shape == want
        assert_same_bits(got, torch.full(want, empty))


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("initial", [None, 0.0, 2.0, 3.0])
def test_values_and_gradients_are_torchs(reduce, initial):
    """Ties with the initial value too, whose gradient goes to the members; zeros among factors."""
    data = torch.tensor([3.0, 1, 3, 2, 0, 5, 4, 3, 3], dtype=torch.float64)
    for lengths in (torch.tensor([3, 2, 0, 4]), torch.tensor([9]), torch.tensor([2, 2, 2, 3], dtype=torch.int32)):
        for shape in ((9,), (9, 1)):
            results = []
            for function in (torch.segment_reduce, reprocuda.segment_reduce):
                x = data.clone().reshape(shape).requires_grad_()
                out = function(x, reduce, lengths=lengths, initial=initial)
                out.nan_to_num(0.0, 0.0, 0.0).square().sum().backward()
                results.append((out, x.grad))
            for got, want in zip(results[1], results[0], strict=True):
                assert_same_bits(got, want)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_derivatives(reduce):
    """Of both orders and directions, which torch does not have."""
    x = (torch.randperm(12, generator=torch.Generator().manual_seed(0)).double() / 4 + 0.3).requires_grad_()
    for keywords in (
        {"lengths": torch.tensor([3, 4, 5])},
        {"offsets": torch.tensor([1, 4, 4, 9]), "initial": 0.7},
    ):
        call = lambda x, k=keywords: reprocuda.segment_reduce(x, reduce, **k)  # noqa: E731
        torch.autograd.gradcheck(call, x, check_forward_ad=True)
        torch.autograd.gradgradcheck(call, x)


def test_a_mean_with_an_empty_segment():
    """C56"""
    x = torch.arange(1.0, 7.0, dtype=torch.float64).requires_grad_()
    out = reprocuda.segment_reduce(x, "mean", lengths=torch.tensor([2, 0, 4]), initial=0.0)
    out.sum().backward()
    assert out.tolist() == [1.5, 0, 4.5] and x.grad.tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]


def exact(data, slices, reduce, initial):
    """The bits of [len(slices), segments, columns], by fractions; `slices` are lists of the first and last rows."""
    dtype = NAMES[data.dtype]
    start = EMPTY[reduce] if initial is None else initial
    results = []
    for rows, cuts in zip(data, slices, strict=True):
        for first, last in cuts:
            for column in range(data.shape[2]):
                values = rows[first:last, column].double().tolist()
                members = values if values and reduce == "mean" else [*values, start]
                results.append(oracle.exact_reduction(members, REDUCTIONS[reduce], dtype))
    return results


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_segments_of_every_slice(reduce, dtype):
    """Lengths that cover each slice, and offsets that leave rows out before, between slices and behind."""
    generator = torch.Generator().manual_seed(1)
    for kind in KINDS:
        for columns in (1, 9):
            data = make(kind, (2, 9, columns), DTYPES[dtype], generator)
            for edges in ([[0, 2, 2, 9], [0, 1, 4, 9]], [[1, 2, 2, 7], [0, 3, 8, 8]]):
                offsets = torch.tensor(edges)
                slices = [list(pairwise(row)) for row in edges]
                ways = [{"offsets": offsets}, {"offsets": offsets.int(), "unsafe": True}]
                if edges[0][0] == 0:
                    ways.append({"lengths": offsets.diff()})
                for initial in (None, 0.0) if reduce == "mean" else (None, 1.5):
                    want = exact(data, slices, reduce, initial)
                    for way in ways:
                        got = reprocuda.segment_reduce(data, reduce, axis=1, initial=initial, **way)
                        assert got.shape == (2, 3, columns) and got.is_contiguous()
                        assert to_numpy_bits(got).reshape(-1).tolist() == want, (kind, edges, way)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients_of_every_slice_are_torchs(reduce):
    """Of a sum that rises: what falls torch gives to each of equal extremes undivided."""
    data = torch.randint(-2, 3, (2, 6, 3), generator=torch.Generator().manual_seed(0)).double()
    functions = ((torch.segment_reduce, False), (torch.segment_reduce, True), (reprocuda.segment_reduce, False))
    for way in ({"lengths": torch.tensor([[2, 0, 4], [1, 3, 2]])}, {"offsets": torch.tensor([[1, 2, 4], [0, 3, 5]])}):
        for initial in (None, 2.0, 0.0):
            gradients = []
            for function, on in functions:
                x = data.clone().requires_grad_()
                with reprocuda.enabled(ops=None if on else []):
                    out = function(x, reduce, axis=1, initial=initial, **way)
                    gradients.append(torch.autograd.grad(out.nan_to_num(0.0, 0.0, 0.0).exp().sum(), x)[0])
            for gradient in gradients[1:]:
                assert_same_bits(gradient, gradients[0])


def test_the_gradient_of_a_factor_that_is_zero():
    """The exact product of the others, with torch's own function replaced: torch multiplies them one by one."""
    generator = torch.Generator().manual_seed(0)
    others = torch.rand(40, generator=generator) + 0.5
    want = oracle.exact_reduction(others.double().tolist(), "prod", "float32")
    by_torch = set()
    for _ in range(6):
        data = torch.cat([torch.zeros(1), others[torch.randperm(40, generator=generator)]]).repeat(2)
        for way in ({"lengths": torch.tensor([41, 41])}, {"offsets": torch.tensor([41, 82])}):
            for on in (True, False):
                x = data.clone().requires_grad_()
                with reprocuda.enabled(ops=None if on else []):
                    gradient = torch.autograd.grad(torch.segment_reduce(x, "prod", **way).sum(), x)[0]
                if on:
                    assert int(to_numpy_bits(gradient)[41]) == want
                    assert gradient.count_nonzero() == gradient[::41].count_nonzero() == len(way.get("lengths", [0]))
                else:
                    by_torch.add(gradient[41].item())
    assert len(by_torch) > 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_one_column(reduce, dtype):
    """Many segments rounded side by side, short and long, empty, cut by the ranges of two threads: the bits of the same
    reduction by an index in no order, and of any stage.
    """
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 9, (3000,), generator=generator)
    lengths[::97] = 180
    lengths[1500] = 30_000
    shuffled = torch.randperm(int(lengths.sum()), generator=generator)
    targets = torch.repeat_interleave(torch.arange(3000), lengths)[shuffled]
    for kind in KINDS:
        data = make(kind, (len(shuffled),), DTYPES[dtype], generator)
        for initial in (None, 0.5):
            start = torch.full((3000,), EMPTY[reduce] if initial is None else initial, dtype=data.dtype)
            if reduce == "mean" and initial:
                continue
            own = reduce not in ("mean",) and (initial is not None or reduce in ("sum", "prod"))
            want = reprocuda.scatter_reduce(start, 0, targets, data[shuffled], REDUCTIONS[reduce], include_self=own)
            for count, stage in ((1, "filter"), (2, "filter"), (2, "superaccumulators")):
                with threads(count), forced(stage=stage):
                    got = reprocuda.segment_reduce(data, reduce, lengths=lengths, initial=initial)
                    assert_same_bits(got, want, kind)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_where_offsets_cannot_be_read(reduce, monkeypatch):
    """As on CUDA, where it would wait for the device: bounded, the same bits, and never a read beyond the data."""
    data = torch.randn(3, 20, 4, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([[5, 0, 15], [0, 20, 0], [7, 7, 6]])
    offsets = torch.nn.functional.pad(lengths.cumsum(-1), (1, 0))
    want = reprocuda.segment_reduce(data, reduce, lengths=lengths, axis=1)
    part = reprocuda.segment_reduce(data, reduce, offsets=offsets[:, :3], axis=1)
    monkeypatch.setattr(segments, "has_data", lambda tensor: False)
    assert_same_bits(reprocuda.segment_reduce(data, reduce, lengths=lengths, axis=1), want)
    assert_same_bits(reprocuda.segment_reduce(data, reduce, offsets=offsets, axis=1), want)
    assert_same_bits(reprocuda.segment_reduce(data, reduce, offsets=offsets[:, :3], axis=1), part)
    wild = torch.tensor([[-3, 4, 2, 99]] * 3)
    bounded = torch.tensor([[0, 4, 4, 20]] * 3)
    assert_same_bits(
        reprocuda.segment_reduce(data, reduce, offsets=wild, axis=1),
        reprocuda.segment_reduce(data, reduce, offsets=bounded, axis=1),
    )


class Recorded(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function.name())
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_the_route_on_cuda(reduce):
    """By operators that have kernels there, and without one that waits for the device."""
    with FakeTensorMode():
        data, offsets = torch.empty(6, 3, device="cuda"), torch.empty(4, dtype=torch.long, device="cuda")
        with Recorded() as calls:
            result = reprocuda.segment_reduce(data, reduce, offsets=offsets)
    assert result.device.type == "cuda" and result.shape == (3, 3)
    planned = {"sum": "index_add_planned", "mean": "index_reduce_planned", "prod": "index_reduce_planned"}
    ours = [name for name in calls.names if name.startswith("reprocuda::")]
    assert ours == [f"reprocuda::{planned.get(reduce, 'index_reduce')}"]
    assert not any("nonzero" in name or "_local_scalar_dense" in name or "is_nonzero" in name for name in calls.names)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_a_plan_and_an_index_give_the_same_extremes(reduce):
    """CUDA finds them by an index, the CPU by a plan."""
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(9, (50,), generator=generator)
    plan = reprocuda.SegmentPlan.from_index(index, 9)
    for kind in KINDS:
        base, rows = make(kind, (9, 5), torch.float32, generator), make(kind, (50, 5), torch.float32, generator)
        for own in (True, False):
            by_plan = ops.index_reduce_planned(base, 0, plan.permutation, plan.offsets, rows, reduce, own)
            assert_same_bits(by_plan, ops.index_reduce(base, 0, plan.targets, rows, reduce, own), kind)


def test_vmap():
    data = torch.randn(5, 9, 2, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([4, 0, 5])
    for reduce in REDUCTIONS:
        call = lambda x, r=reduce: reprocuda.segment_reduce(x, r, lengths=lengths)  # noqa: E731
        assert_same_bits(torch.func.vmap(call)(data), torch.stack([call(x) for x in data]), reduce)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_threads_and_orders(reduce):
    generator = torch.Generator().manual_seed(0)
    data, lengths = torch.randn(60_000, 2, generator=generator) + 1.5, torch.full((60,), 1000)
    results = []
    for count in (1, 2):
        order = torch.cat([1000 * s + torch.randperm(1000, generator=generator) for s in range(60)])
        with threads(count), reprocuda.enabled():
            results.append(torch.segment_reduce(data[order], reduce, lengths=lengths))
    assert_same_bits(*results)


def test_compiled_code():
    """The bits of eager code, and the gradients that it has."""
    offsets, lengths = torch.tensor([1, 2, 2, 6]), torch.tensor([[2, 5], [3, 4]])
    for reduce in REDUCTIONS:
        for initial in (None, 0.5):
            for data, way in (
                (torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), {"offsets": offsets}),
                (torch.randn(2, 7, generator=torch.Generator().manual_seed(0)), {"lengths": lengths, "axis": 1}),
            ):
                call = lambda x, r=reduce, i=initial, w=way: reprocuda.segment_reduce(x, r, initial=i, **w)  # noqa: E731
                torch._dynamo.reset()
                results = []
                for function in (call, torch.compile(call, backend="aot_eager")):
                    x = data.clone().requires_grad_()
                    out = function(x)
                    gradient = torch.autograd.grad(out.nan_to_num(0.0, 0.0, 0.0).square().sum(), x)[0]
                    results.append((out, gradient))
                assert_same_bits(results[1][0], results[0][0], reduce)
                assert_same_bits(results[1][1], results[0][1], reduce)


DATA = torch.arange(6.0)


@pytest.mark.parametrize(
    "keywords, error",
    [
        ({"lengths": torch.tensor([2, 3])}, "sum to data.size"),
        ({"lengths": torch.tensor([2, -1, 5])}, "negative"),
        ({}, "Either lengths or offsets"),
        ({"lengths": torch.tensor([[6]]), "axis": 0}, "data.dim"),
        ({"lengths": torch.tensor([2, -1, 5]), "unsafe": True}, r"^segment_reduce.*(lengths|offsets) must"),
        ({"lengths": torch.tensor([6]), "indices": torch.tensor([0])}, "indices"),
        ({"lengths": torch.tensor([7]), "unsafe": True}, r"^segment_reduce.*(lengths|offsets) must"),
        ({"offsets": torch.tensor([0, 7])}, r"^segment_reduce.*(lengths|offsets) must"),
        ({"offsets": torch.tensor([0, 4, 2])}, r"^segment_reduce.*(lengths|offsets) must"),
    ],
)
def test_refusals(keywords, error):
    for function in (reprocuda.segment_reduce, torch.segment_reduce):
        with reprocuda.enabled(), pytest.raises(RuntimeError, match=error):
            function(DATA, "sum", **keywords)


def test_lengths_that_do_not_cover_the_data():
    got = reprocuda.segment_reduce(DATA, "sum", lengths=torch.tensor([2, 3]), unsafe=True)
    assert got.tolist() == [1, 9]


@pytest.mark.parametrize("lengths", [[1, 2], [3, 4], [-1, 5], [], [[1, 3], [2, 1]], [[5, -1], [2, 2]]])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_compiled_code_refuses_lengths_that_do_not_cover_the_data(lengths, needs_grad):
    lengths = torch.tensor(lengths, dtype=torch.long)
    axis = lengths.dim() - 1
    data = torch.ones(4) if axis == 0 else torch.ones(2, 4)
    data.requires_grad_(needs_grad)
    call = lambda x, at, ns=reprocuda: ns.segment_reduce(x, "sum", lengths=at, axis=axis)  # noqa: E731
    with pytest.raises(RuntimeError):
        call(data.detach(), lengths, torch)
    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    with pytest.raises(RuntimeError, match="sum to the number of rows"):
        compiled(data, lengths)
    fitting = torch.zeros_like(lengths)
    if lengths.numel():
        fitting[..., 0] = 4
        assert torch.equal(compiled(data, fitting), call(data, fitting))


def test_a_planned_reduction_refuses():
    plan = reprocuda.SegmentPlan.from_offsets(torch.tensor([0, 1, 3]))
    rows = torch.ones(3, 2)
    for arguments, error in (
        ((rows, 0, None, plan.offsets, rows, "mean"), "the plan has 2 segments"),
        ((rows[:2], 0, None, torch.tensor([0, 4, 3]), rows, "mean"), "must not decrease"),
        ((rows[:2].long(), 0, None, plan.offsets, rows.long(), "prod"), "real floating dtype"),
        ((rows[:2], 0, None, plan.offsets, rows, "median"), "sum, mean, prod, amax, amin"),
        ((rows[:2], 0, None, plan.offsets, rows[:, :1], "mean"), "source has size 1"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=error):
            ops.index_reduce_planned(*arguments)


WRONG = {
    r"offsets must not fall, got 2 behind 3 at \[1, 2\]": {"offsets": torch.tensor([[0, 1, 4], [0, 3, 2]])},
    "offsets must lie between 0 and 4, the number of rows, got 5": {"offsets": torch.tensor([[0, 1, 4], [0, 3, 5]])},
    "offsets must lie between 0 and 4, .*, got -1": {"offsets": torch.tensor([[0, 1, 4], [-1, 3, 4]])},
    r"lengths must not be negative, got -1 at \[1, 0\]": {"lengths": torch.tensor([[1, 3], [-1, 5]]), "unsafe": True},
    "lengths must sum to at most 4, .*, got 6": {"lengths": torch.tensor([[1, 3], [1, 5]]), "unsafe": True},
}


@pytest.mark.parametrize("error", WRONG)
def test_the_wrong_offset_or_length_is_named(error):
    with pytest.raises(RuntimeError, match=rf"^segment_reduce\(\): {error}"):
        reprocuda.segment_reduce(torch.ones(2, 4), "sum", axis=1, **WRONG[error])


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 0.0])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_rows_outside_all_segments_get_the_gradient_0(reduce, value):
    offsets = torch.tensor([1, 3])
    for run in (reprocuda.segment_reduce, torch.compile(reprocuda.segment_reduce, backend="aot_eager", fullgraph=True)):
        x = torch.tensor([value, 1.0, 2.0, value], requires_grad=True)
        run(x, reduce, offsets=offsets).sum().backward()
        want = {"sum": [1, 1], "mean": [0.5, 0.5], "max": [0, 1], "min": [1, 0], "prod": [2, 1]}[reduce]
        assert x.grad.tolist() == [0, *want, 0]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "prod"])
def test_a_complex_initial_value(reduce):
    """torch looks at it where there is something to start from."""
    for function in (torch.segment_reduce, reprocuda.segment_reduce):
        for count in (1, 2):
            with pytest.raises(RuntimeError, match="value cannot be converted to type float"):
                offsets = torch.zeros(count + 1, dtype=torch.long)
                function(torch.ones(0), reduce, offsets=offsets, initial=1j, unsafe=True)
        nothing = torch.zeros(1, dtype=torch.long)
        assert function(torch.ones(0), reduce, offsets=nothing, initial=1j, unsafe=True).shape == (0,)
