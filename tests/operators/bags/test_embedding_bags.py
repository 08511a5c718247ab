"""Embedding bags and the sparse gradients of tables: against fractions and torch, and what has gone wrong with them."""

import re
from itertools import product

import pytest
import torch
from torch.nn.functional import embedding_bag as torchs

import reprocuda
from reprocuda.families import bags
from tests import oracle
from tests.operators.adversarial import KINDS, make
from tests.operators.bits import DTYPES, assert_same_bits, from_numpy_bits, threads, to_numpy_bits
from tests.operators.forcing import STAGES, forced

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")
ROWS, INDICES, FEATURES = 9, 60, 21
OFFSETS = torch.tensor([0, 3, 3, 20, 58])
PADDING = 4


def both(call):
    """The result of our function, and the same by torch's name under enable()."""
    ours = call(reprocuda.embedding_bag)
    with reprocuda.enabled():
        replaced = call(torchs)
    for one, other in zip(ours, replaced, strict=True):
        assert_same_bits(one, other, "the function and the replaced operator")
    return ours


def exact(values, to, num_targets, name, **options):
    """[num_targets, features] by fractions."""
    columns = [
        oracle.exact_segment_sums(to_numpy_bits(values[:, c].contiguous()), to, num_targets, name, **options)
        for c in range(values.shape[1])
    ]
    return torch.stack([from_numpy_bits(column, DTYPES[name]) for column in columns], 1)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("how", ["sum", "mean", "weights"])
def test_exact_and_rounded_once(how, name, stage):
    dtype = DTYPES[name]
    for seed, kind in enumerate(KINDS):
        for features in (1, FEATURES):
            generator = torch.Generator().manual_seed(seed)
            table = make(kind, (ROWS, features), dtype, generator)
            indices = torch.randint(0, ROWS, (INDICES,), generator=generator)
            weights = make(kind, (INDICES,), dtype, generator) if how == "weights" else None
            mode = "mean" if how == "mean" else "sum"

            def call(function, table=table, indices=indices, weights=weights, mode=mode):
                return (function(indices, table, OFFSETS, mode=mode, per_sample_weights=weights, padding_idx=PADDING),)

            with forced(stage=stage):
                (got,) = both(call)
            kept = indices != PADDING
            to = torch.bucketize(torch.arange(INDICES), OFFSETS, right=True) - 1
            factors = None if weights is None else oracle.to_double(to_numpy_bits(weights[kept]), name)
            want = exact(
                table[indices[kept]], to[kept].numpy(), len(OFFSETS), name, mean=how == "mean", weights=factors
            )
            assert_same_bits(got, want, f"{how} {name} {kind} {features}")


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("how", ["sum", "mean", "weights"])
@pytest.mark.parametrize("scale", [False, True])
def test_gradients_are_exact(how, name, scale):
    dtype = DTYPES[name]
    for seed, kind in enumerate(("normal", "wide", "small integers")):
        generator = torch.Generator().manual_seed(seed)
        table = make(kind, (ROWS, FEATURES), dtype, generator).requires_grad_()
        indices = torch.randint(0, ROWS, (INDICES,), generator=generator)
        weights = make(kind, (INDICES,), dtype, generator).requires_grad_() if how == "weights" else None
        seeds = make(kind, (len(OFFSETS), FEATURES), dtype, generator)
        mode = "mean" if how == "mean" else "sum"
        leaves = [table] if weights is None else [table, weights]

        def call(function, leaves=leaves, indices=indices, weights=weights, seeds=seeds, mode=mode):
            bags = function(
                indices, leaves[0], OFFSETS, mode=mode, per_sample_weights=weights, padding_idx=PADDING,
                scale_grad_by_freq=scale,
            )  # fmt: skip
            return torch.autograd.grad(bags, leaves, seeds)

        got = both(call)
        kept = indices != PADDING
        to = (torch.bucketize(torch.arange(INDICES), OFFSETS, right=True) - 1)[kept]
        factors = None
        if how == "weights":
            factors = weights.detach()[kept].double().numpy()
        if how == "mean":
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            factors = torch.bincount(to)[to].to(wide).reciprocal().double().numpy()
        rows = indices[kept].numpy()
        want = exact(seeds[to], rows, ROWS, name, weights=factors, mean=scale)
        assert_same_bits(got[0], want, f"{how} {name} {kind}")
        if how == "weights":
            products = [
                oracle.exact_sum(to_numpy_bits(seeds[bag]), table.detach()[row].double().numpy(), dtype=name)
                for bag, row in zip(to.tolist(), rows.tolist(), strict=True)
            ]
            want = torch.zeros(INDICES, dtype=dtype)
            want[kept] = from_numpy_bits(oracle.np.array(products, dtype=oracle.FORMATS[name].bits), dtype)
            assert_same_bits(got[1], want, f"weights {name} {kind}")


def test_products_that_no_filter_settles():
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(40)
    for name, dtype in DTYPES.items():
        for kind in KINDS:
            left, right = (make(kind, (40, 37), dtype, generator) for _ in range(2))
            right[:, 1::2] = -left[:, :-1:2]  # what cancels to nothing but the last products
            left[:, 1::2] = right[:, :-1:2]
            got = bags.row_products(left, rows, right, rows)
            want = oracle.exact_sum(to_numpy_bits(left), oracle.to_double(to_numpy_bits(right), name), dtype=name)
            assert_same_bits(got, from_numpy_bits(want, dtype), f"{name} {kind}")


def test_max_takes_the_first_of_equals_nan_above_all_and_plus_zero():
    nan = float("nan")
    table = torch.tensor([[-0.0, 1.0, 2.0], [0.0, 1.0, nan], [-1.0, 1.0, nan]], requires_grad=True)
    indices, offsets = torch.tensor([2, 0, 1, 0, 1]), torch.tensor([0, 3, 3])

    def call(function):
        table.grad = None
        result = function(indices, table, offsets, mode="max")
        result.backward(torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]))
        return result.detach(), table.grad

    values, grad = both(call)
    assert_same_bits(values, torch.tensor([[0.0, 1, nan], [0.0, 0, 0], [0.0, 1, nan]]))
    assert grad.tolist() == [[0, 8, 0], [8, 0, 9], [0, 2, 3]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_the_bits_do_not_depend_on_threads_or_the_order_inside_a_bag(mode):
    generator = torch.Generator().manual_seed(3)
    table = torch.randn(3000, 24, generator=generator, requires_grad=True)
    indices = torch.randint(0, 3000, (400, 50), generator=generator)
    shuffled = indices.gather(1, torch.rand(400, 50, generator=generator).argsort(1))
    seeds = torch.randn(400, 24, generator=generator)

    def run(tokens):
        result = reprocuda.embedding_bag(tokens, table, mode=mode)
        return result.detach(), *torch.autograd.grad(result, table, seeds)

    want = run(indices)
    for count in (1, 2):
        with threads(count):
            for one, other in zip(run(shuffled), want, strict=True):
                assert_same_bits(one, other, f"{mode} {count}")


def arguments(mode, weights=False, **options):
    torch.manual_seed(0)
    table = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(8, dtype=torch.float64, requires_grad=True) if weights else None
    indices, offsets = torch.tensor([0, 1, 1, 4, 2, 1, 0, 4]), torch.tensor([0, 2, 2, 7])

    def call(table, *factors):
        return reprocuda.embedding_bag(
            indices, table, offsets, mode=mode, per_sample_weights=factors[0] if factors else None, **options
        )

    return call, (table, factors) if weights else (table,)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"padding_idx": -1}])
@pytest.mark.parametrize("mode, weights", [("sum", False), ("sum", True), ("mean", False), ("max", False)])
def test_first_second_and_forward_derivatives(mode, weights, options):
    call, inputs = arguments(mode, weights, **options)
    assert torch.autograd.gradcheck(call, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, inputs, check_fwd_over_rev=True)


def test_a_frequent_row_is_divided_by_its_own_count():
    for mode, want in (("sum", [1, 1]), ("mean", [1 / 3, 1 / 3])):
        table = torch.zeros(5, 1, dtype=torch.float64, requires_grad=True)

        def call(function, table=table, mode=mode):
            result = function(torch.tensor([2, 2, 4]), table, torch.tensor([0]), mode=mode, scale_grad_by_freq=True)
            return torch.autograd.grad(result.sum(), table)

        (grad,) = both(call)
        assert grad[[2, 4], 0].tolist() == want


def test_max_sends_all_of_a_bag_to_the_winner():
    table = torch.tensor([[1.0, 9], [5, 2], [3, 3]], dtype=torch.float64, requires_grad=True)
    result = reprocuda.embedding_bag(torch.tensor([0, 1, 2, 0]), table, torch.tensor([0, 3]), mode="max")
    assert torch.autograd.grad(result.sum(), table)[0].tolist() == [[1, 2], [1, 0], [0, 0]]


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_many_equal_indices_do_not_saturate(dtype):
    table = torch.zeros(2, 1, dtype=dtype, requires_grad=True)

    def call(function):
        result = function(torch.zeros(4096, 1, dtype=torch.long), table, mode="sum")
        return torch.autograd.grad(result.float().sum(), table)

    assert both(call)[0].tolist() == [[4096], [0]]


def test_rows_read_are_renormalised_once():
    def call(function):
        table = torch.tensor([[3.0, 4], [3, 4], [0.3, 0.4]])
        return function(torch.tensor([[0, 0], [0, 2]]), table, max_norm=1.0, mode="sum"), table

    values, table = both(call)
    own, scaled = call(torch.nn.functional.embedding_bag)
    assert_same_bits(table, scaled)
    assert scaled[1].tolist() == [3, 4] and scaled[0].norm() <= 1
    assert_same_bits(values, own)  # of two numbers: rounded once by anybody


@pytest.mark.parametrize("padding", [None, 1])
def test_a_sparse_gradient_is_coalesced_and_exact(padding):
    generator = torch.Generator().manual_seed(1)
    indices = torch.randint(0, 7, (3, 200), generator=generator)
    table = torch.randn(50, 3, generator=generator, requires_grad=True)
    seeds = torch.randn(3, 200, 3, generator=generator)
    seeds *= 2.0 ** torch.randint(-20, 20, (3, 200, 3), generator=generator)
    lookups = {"ours": reprocuda.embedding, "torch": torch.nn.functional.embedding}
    for order in (torch.arange(200), torch.randperm(200, generator=generator)):
        for name, lookup in lookups.items():
            with reprocuda.enabled(ops=None if name == "torch" else []):
                read = lookup(indices[:, order], table, padding_idx=padding, sparse=True)
                (grad,) = torch.autograd.grad(read, table, seeds[:, order])
            assert grad.is_sparse and grad.is_coalesced(), name
            assert grad.indices()[0].tolist() == [row for row in range(7) if row != padding]
            (want,) = torch.autograd.grad(reprocuda.embedding(indices, table, padding_idx=padding), table, seeds)
            assert_same_bits(grad.to_dense(), want, name)


@pytest.mark.parametrize("mode, weights", [("sum", False), ("sum", True), ("mean", False)])
def test_a_sparse_gradient_of_bags_is_that_of_dense_ones(mode, weights):
    generator = torch.Generator().manual_seed(2)
    table = torch.randn(40, 5, generator=generator, requires_grad=True)
    indices = torch.randint(0, 9, (INDICES,), generator=generator)
    factors = torch.randn(INDICES, generator=generator) if weights else None
    seeds = torch.randn(len(OFFSETS), 5, generator=generator)

    def call(function, sparse=True):
        result = function(
            indices, table, OFFSETS, mode=mode, sparse=sparse, per_sample_weights=factors, padding_idx=PADDING
        )
        (grad,) = torch.autograd.grad(result, table, seeds)
        assert grad.is_sparse == sparse and (not sparse or grad.is_coalesced())
        return (grad.to_dense() if sparse else grad,)

    assert_same_bits(both(call)[0], call(reprocuda.embedding_bag, sparse=False)[0])


def test_without_a_scope_torch_is_as_it_was():
    table = torch.randn(5, 3, requires_grad=True)
    call = torchs(torch.tensor([0, 0, 2]), table, torch.tensor([0]), mode="sum", sparse=True)
    assert not torch.autograd.grad(call.sum(), table)[0].is_coalesced()
    read = torch.nn.functional.embedding(torch.tensor([0, 0]), table, sparse=True)
    grad = torch.autograd.grad(read.sum(), table, create_graph=True)[0]
    assert not grad.is_coalesced()


WRONG = {
    "offsets that do not begin at 0": (([0, 1], [1]), {}),
    "offsets beyond the end": (([0, 1], [0, 3]), {}),
    "padding out of range": (([0, 1], [0]), {"padding_idx": 7}),
    "an unknown mode": (([0, 1], [0]), {"mode": "median"}),
    "weights of a mean": (([0, 1], [0]), {"mode": "mean", "per_sample_weights": torch.ones(2)}),
    "weights of another length": (([0, 1], [0]), {"mode": "sum", "per_sample_weights": torch.ones(3)}),
    "max divided by counts": (([0, 1], [0]), {"mode": "max", "scale_grad_by_freq": True}),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("differentiates", [False, True])
def test_wrong_arguments_raise_what_torch_raises(case, replaced, differentiates):
    (indices, offsets), options = WRONG[case]
    table = torch.ones(4, 2, requires_grad=differentiates)
    arguments = torch.tensor(indices), table, torch.tensor(offsets)
    with pytest.raises(Exception) as native:
        torchs(*arguments, **options)
    with reprocuda.enabled(ops=None if replaced else []), pytest.raises(native.type) as ours:
        (torchs if replaced else reprocuda.embedding_bag)(*arguments, **options)
    assert type(ours.value) is native.type and str(ours.value)


@pytest.mark.parametrize("replaced", [False, True])
def test_offsets_that_fall_are_refused(replaced):
    """By torch with several threads only, so by us with one."""
    function = torchs if replaced else reprocuda.embedding_bag
    for count, message in ((1, r"offsets must rise from 0 to .* 3, got \[0, 2, 1\]"), (2, "")):
        for differentiates in (False, True):
            table = torch.ones(4, 2, requires_grad=differentiates)
            with (
                threads(count),
                reprocuda.enabled(ops=None if replaced else []),
                pytest.raises(RuntimeError, match=message),
            ):
                function(torch.tensor([0, 1, 2]), table, torch.tensor([0, 2, 1]), mode="sum")


@pytest.mark.parametrize("bad", [5, -1])
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"mode": "sum"},
        {"mode": "mean"},
        {"mode": "max"},
        {"mode": "sum", "sparse": True},
        {"mode": "sum", "padding_idx": 1},
        {"mode": "max", "padding_idx": 1},
        {"mode": "sum", "max_norm": 0.5},
        {"mode": "sum", "per_sample_weights": torch.ones(4)},
    ],
)
@pytest.mark.parametrize("differentiates", [False, True])
def test_an_index_out_of_range_is_named_with_its_place_in_the_input(options, replaced, bad, differentiates):
    if replaced and "max_norm" in options:  # torch's own arithmetic comes first
        options = {"mode": "sum"}
    table = torch.ones(4, 2, requires_grad=differentiates)
    function = torchs if replaced else reprocuda.embedding_bag
    wanted = rf"embedding_bag\(\): index {bad} is out of bounds for a table of 4 rows, at position 2"
    with reprocuda.enabled(ops=None if replaced else []), pytest.raises(RuntimeError, match=wanted):
        function(torch.tensor([1, 0, bad, 2]), table, torch.tensor([0, 1]), **options)
    assert table.grad is None and table.detach().eq(1).all()


def test_no_bags_at_all():
    for mode in ("sum", "mean", "max"):
        table = torch.ones(4, 2, requires_grad=True)
        result = reprocuda.embedding_bag(torch.tensor([0, 1]), table, torch.tensor([], dtype=torch.long), mode=mode)
        assert result.shape == (0, 2)
        assert torch.autograd.grad(result.sum(), table)[0].eq(0).all()


def test_a_last_offset_before_the_end_is_refused():
    with pytest.raises(RuntimeError, match=r"embedding_bag.*offsets must r"):
        reprocuda.embedding_bag(
            torch.tensor([0, 1, 2]), torch.ones(4, 2), torch.tensor([0, 2]), mode="sum", include_last_offset=True
        )


@pytest.mark.parametrize("name", DTYPES)
def test_every_nan_comes_out_as_the_quiet_one_with_a_gradient_or_without(name):
    dtype = DTYPES[name]
    nans = torch.full((2, 3), float("nan"), dtype=torch.float64)
    nans[0, 1] = -nans[0, 1]
    table = torch.cat([nans.to(dtype), torch.ones(1, 3, dtype=dtype)])
    bits = table.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize])
    bits[:2] ^= 5  # a payload
    want = torch.tensor([[float("nan")] * 3, [1.0] * 3], dtype=dtype)
    for mode in ("max", "sum", "mean"):
        for differentiates in (False, True):
            leaf = table.clone().requires_grad_(differentiates)

            def call(function, leaf=leaf, mode=mode):
                return (function(torch.tensor([2, 0, 1, 2]), leaf, torch.tensor([0, 3]), mode=mode).detach(),)

            assert_same_bits(both(call)[0], want, f"{mode} {differentiates}")


@pytest.mark.parametrize("mode, weights", [("sum", True), ("mean", False), ("max", False)])
def test_compiled_code_gets_the_same_bits(mode, weights):
    call, inputs = arguments(mode, weights, padding_idx=1)

    def run(function):
        result = function(*inputs)
        return result.detach(), *torch.autograd.grad(result.square().sum(), inputs)

    for one, other in zip(run(torch.compile(call, backend="aot_eager", fullgraph=True)), run(call), strict=True):
        assert_same_bits(one, other, mode)


def test_compiled_code_refuses_a_sparse_gradient():
    table = torch.ones(3, 2, requires_grad=True)
    call = torch.compile(
        lambda table: reprocuda.embedding_bag(torch.tensor([0, 1]), table, torch.tensor([0]), sparse=True),
        backend="aot_eager",
    )
    with pytest.raises(RuntimeError, match="sparse must be False in compiled code"):
        call(table)


@pytest.mark.parametrize("padding_idx", [None, 1])
@pytest.mark.parametrize(
    "offsets, last", [*product([[0, 9], [1, 5], [0, 4, 2, 5]], [False, True]), ([0, 2, 3], True)]
)  # fmt: skip
def test_offsets_that_are_none_are_torchs_to_refuse(offsets, last, padding_idx):
    """Its error comes; where it has none, ours names what the user gave."""
    weight, indices, offsets = torch.randn(4, 2), torch.tensor([0, 1, 2, 3, 1]), torch.tensor(offsets)
    keywords = {"include_last_offset": last, "padding_idx": padding_idx}
    try:
        torch.nn.functional.embedding_bag(indices, weight, offsets, **keywords)
        error = "embedding_bag: offsets must rise from 0 to the number of indices, 5, got .*; reprocuda does not"
    except RuntimeError as refusal:
        error = re.escape(str(refusal).splitlines()[0])
    with pytest.raises(RuntimeError, match=error):
        reprocuda.embedding_bag(indices, weight, offsets, **keywords)
