"""The registered operators themselves: schemas, fake kernels and derivatives, as torch.library checks them."""

import resource

import pytest
import torch

import reprocuda

ops = torch.ops.reprocuda
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def real(*shape, grad=True, dtype=torch.float32):
    return torch.randn(shape, dtype=dtype, requires_grad=grad)


INDEX = torch.tensor([0, 2, 2])
INDEX_PAIR, MASK = torch.tensor([2, 0]), torch.tensor([True, False, False, True])
PLAN = reprocuda.SegmentPlan.from_index(INDEX, 4)
SORTED = reprocuda.SegmentPlan.from_sorted(INDEX, 4)
ELEMENTS = torch.tensor([[0, 1], [2, 1]])

FUNCTIONAL = {
    "index_add": lambda: (ops.index_add, real(4, 2), 0, INDEX, real(3, 2)),
    "index_add alpha": lambda: (ops.index_add, real(2, 4), -1, INDEX, real(2, 3), 2.5, 0.0, 1),
    "index_add complex": lambda: (
        ops.index_add, real(4, dtype=torch.complex64), 0, INDEX, real(3, dtype=torch.complex64), 2.0, 1.5, 0,
    ),
    "index_add half": lambda: (ops.index_add, real(4, dtype=torch.half), 0, INDEX, real(3, dtype=torch.half)),
    "scatter_add": lambda: (ops.scatter_add, real(4, 2), 0, ELEMENTS, real(3, 2)),
    **{
        f"scatter_reduce {reduce} {own}": lambda reduce=reduce, own=own: (
            ops.scatter_reduce, real(4, 2), 0, ELEMENTS, real(3, 2), reduce, own,
        )
        for reduce in ("sum", "mean", "prod", "amax", "amin") for own in (True, False)
    },
    **{
        f"index_reduce {reduce}": lambda reduce=reduce: (ops.index_reduce, real(4, 2), 0, INDEX, real(3, 2), reduce)
        for reduce in ("mean", "prod", "amax", "amin")
    },
    "scatter_extremum": lambda: (ops.scatter_extremum, real(2, 2), 0, ELEMENTS, 3, None, True),
    "scatter_extremum self": lambda: (ops.scatter_extremum, real(2, 2), 0, ELEMENTS, 3, real(3, 2), False),
    "scatter": lambda: (ops.scatter, real(4, 2), 0, ELEMENTS, real(3, 2)),
    "index_copy": lambda: (ops.index_copy, real(2, 4), -1, INDEX, real(2, 3)),
    "index_put_overwrite": lambda: (ops.index_put_overwrite, real(3, 2, 4), [INDEX, INDEX], [0, 2], real(3, 1)),
    "index_put": lambda: (ops.index_put, real(3, 4), [INDEX], [1], real(3, 1)),
    "index_put two": lambda: (ops.index_put, real(3, 2, 4), [INDEX, INDEX], [0, 2], real(3, 2)),
    "index_put_masked": lambda: (ops.index_put_masked, real(3, 4), [MASK], [1], real(3, 2)),
    "index_put_masked broadcast": lambda: (ops.index_put_masked, real(3, 4), [INDEX_PAIR, MASK], [0, 1], real(1)),
    "index_put_masked_backward": lambda: (ops.index_put_masked_backward, real(3, 4), [MASK], [1], [1, 2]),
    "embedding_dense_backward": lambda: (ops.embedding_dense_backward, real(3, 2), INDEX, 4, 1, False),
    "segment_plan": lambda: (ops.segment_plan, INDEX, 4),
    "segment_sum": lambda: (ops.segment_sum, real(3, 2), PLAN.permutation, PLAN.offsets),
    "segment_sum sorted": lambda: (ops.segment_sum, real(3), None, SORTED.offsets),
    "index_add_planned": lambda: (
        ops.index_add_planned, real(4, 2), 0, PLAN.permutation, PLAN.offsets, real(3, 2), 2.0, 0.0, 2,
    ),
    "mean_with_initial": lambda: (ops.mean_with_initial, real(4, 2), PLAN.permutation, PLAN.offsets, real(3, 2)),
    "cumsum": lambda: (ops.cumsum, real(3, 4), -1),
    "cumsum scalar": lambda: (ops.cumsum, real(), 0),
    **{
        f"index_reduce_planned {reduce} {own}": lambda reduce=reduce, own=own: (
            ops.index_reduce_planned, real(2, 4), 1, PLAN.permutation, PLAN.offsets, real(2, 3), reduce, own,
        )
        for reduce in ("sum", "mean", "prod", "amax", "amin") for own in (True, False)
    },
    "cumprod": lambda: (ops.cumprod, real(3, 2), 0),
    "cumprod scalar": lambda: (ops.cumprod, real(), 0),
    "logcumsumexp scalar": lambda: (ops.logcumsumexp, real(), -1),
    "cumprod complex": lambda: (ops.cumprod, real(2, 3, dtype=torch.complex64), -1),
    "logcumsumexp": lambda: (ops.logcumsumexp, real(3, 2), 0),
    **{
        f"logcumsumexp_jacobian {transposed}": lambda transposed=transposed: (
            ops.logcumsumexp_jacobian, real(3, 2), real(3, 2), real(3, 2), 0, transposed,
        )
        for transposed in (True, False)
    },
    "exp": lambda: (ops.exp, real(2, 3)),
    "sqrt": lambda: (ops.sqrt, real(2, 3).detach().abs().add(1).requires_grad_()),
    "log": lambda: (ops.log, (torch.rand(2, 3) + 0.5).requires_grad_()),
    "index_select": lambda: (ops.index_select, real(4, 2), 0, INDEX),
    "gather": lambda: (ops.gather, real(4, 2), 0, ELEMENTS),
    "index": lambda: (ops.index, real(4, 3), [INDEX, INDEX], [0, 1]),
    "embedding": lambda: (ops.embedding, real(4, 2), INDEX, 1, True),
}  # fmt: skip

MUTATING = {
    "index_add_": lambda: (ops.index_add_, real(4, 2, grad=False), 0, INDEX, real(3, 2, grad=False)),
    "index_add_out": lambda: (
        ops.index_add_out, real(4, grad=False), 0, INDEX, real(3, grad=False), 1.0, 0.0, 1, torch.empty(4),
    ),
    "scatter_add_": lambda: (ops.scatter_add_, real(4, 2, grad=False), 0, ELEMENTS, real(3, 2, grad=False)),
    "scatter_add_out": lambda: (
        ops.scatter_add_out, real(4, 2, grad=False), 0, ELEMENTS, real(3, 2, grad=False), torch.empty(4, 2),
    ),
    "scatter_reduce_": lambda: (
        ops.scatter_reduce_, real(4, 2, grad=False), 0, ELEMENTS, real(3, 2, grad=False), "prod",
    ),
    "scatter_reduce_out": lambda: (
        ops.scatter_reduce_out, real(4, 2, grad=False), 0, ELEMENTS, real(3, 2, grad=False), "amax", True,
        torch.empty(4, 2),
    ),
    "index_reduce_": lambda: (ops.index_reduce_, real(4, 2, grad=False), 0, INDEX, real(3, 2, grad=False), "mean"),
    "index_reduce_out": lambda: (
        ops.index_reduce_out, real(4, 2, grad=False), 0, INDEX, real(3, 2, grad=False), "amin", False,
        torch.empty(4, 2),
    ),
    "scatter_": lambda: (ops.scatter_, real(4, 2, grad=False), 0, ELEMENTS, real(3, 2, grad=False)),
    "scatter_out": lambda: (
        ops.scatter_out, real(4, 2, grad=False), 0, ELEMENTS, real(3, 2, grad=False), torch.empty(4, 2),
    ),
    "index_copy_": lambda: (ops.index_copy_, real(4, 2, grad=False), 0, INDEX, real(3, 2, grad=False)),
    "index_copy_out": lambda: (
        ops.index_copy_out, real(4, 2, grad=False), 0, INDEX, real(3, 2, grad=False), torch.empty(4, 2),
    ),
    "index_put_overwrite_": lambda: (
        ops.index_put_overwrite_, real(3, 4, grad=False), [INDEX], [1], real(3, 1, grad=False),
    ),
    "index_put_": lambda: (ops.index_put_, real(3, 4, grad=False), [INDEX], [1], real(3, 1, grad=False)),
    "index_put_rows_": lambda: (ops.index_put_rows_, real(4, 2, grad=False), INDEX, real(3, 1, grad=False)),
    "cumsum_": lambda: (ops.cumsum_, real(3, 4, grad=False), 0),
    "cumsum_out": lambda: (ops.cumsum_out, real(3, 4, grad=False), 0, torch.empty(3, 4)),
    "cumprod_": lambda: (ops.cumprod_, real(4, 2, grad=False), 0),
    "cumprod_out": lambda: (ops.cumprod_out, real(4, 2, grad=False), 0, torch.empty(4, 2)),
    "logcumsumexp_out": lambda: (ops.logcumsumexp_out, real(4, 2, grad=False), 1, torch.empty(4, 2)),
    "fingerprint_": lambda: (ops.fingerprint_, torch.zeros(2, 2, dtype=torch.int64), 1, real(3, grad=False)),
    "index_add_planned_": lambda: (
        ops.index_add_planned_, real(4, 2, grad=False), 0, PLAN.permutation, PLAN.offsets, real(3, 2, grad=False),
    ),
}  # fmt: skip

BAGS = torch.tensor([0, 2, 3])
# Without a derivative of second order in compiled code, or without any: bags.py differentiates them outside it.
PARTS = {
    "embedding_bag": lambda: (ops.embedding_bag, real(4, 2), INDEX, BAGS[:2], True, 0, real(3), False, 1),
    "embedding_bag mean": lambda: (ops.embedding_bag, real(4, 2), INDEX, BAGS, False, 1, None, True, -1),
    "embedding_bag max": lambda: (ops.embedding_bag, real(4, 2), INDEX, BAGS, False, 2, None, True, -1),
    "embedding_bag_backward": lambda: (
        ops.embedding_bag_backward, real(2, 2, grad=False), torch.zeros(0).long(), real(4, 2, grad=False), INDEX, BAGS,
        False, 0, real(3, grad=False), True, 2,
    ),
    "embedding_bag_backward max": lambda: (
        ops.embedding_bag_backward, real(2, 2, grad=False), torch.tensor([[0, 2], [2, 2]]), real(4, 2, grad=False),
        INDEX, BAGS, False, 2, None, True, -1,
    ),
    "gather_segment_sum": lambda: (ops.gather_segment_sum, real(4, 2, grad=False), INDEX, BAGS, None, True),
    "gather_segment_sum weighted": lambda: (
        ops.gather_segment_sum, real(4, 2, grad=False), INDEX, BAGS, real(3, grad=False).double(), False,
    ),
    "gather_segment_max": lambda: (ops.gather_segment_max, real(4, 2, grad=False), INDEX, BAGS),
    "gather_segment_max_backward": lambda: (
        ops.gather_segment_max_backward, real(2, 2, grad=False), torch.tensor([[0, 3], [4, 3]]), 4,
    ),
    **{
        name: lambda name=name: (
            getattr(ops, name), real(5, 2, grad=False), [torch.linspace(-1, 1, 4), torch.linspace(0, 1, 3)], "bisect",
        )
        for name in ("histogram_keys", "histogram_counts")
    },
    "bincount": lambda: (ops.bincount, INDEX, real(3, grad=False), 2),
    "histc": lambda: (ops.histc, real(9, grad=False), 3, -1.0, 1.0),
    "histogramdd_by_counts": lambda: (
        ops.histogramdd_by_counts, real(5, 2, grad=False), [2, 3], [-1.0, 1.0, -1.0, 1.0], real(5, grad=False), True,
        "histogramdd",
    ),
    "histogramdd_by_edges": lambda: (
        ops.histogramdd_by_edges, real(5, 2, grad=False), [torch.linspace(-1, 1, 4), torch.linspace(0, 1, 3)], None,
        False,
    ),
    "gather_row_products": lambda: (
        ops.gather_row_products, real(4, 2, grad=False), INDEX, real(3, 2, grad=False), INDEX, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FUNCTIONAL, *MUTATING, *PARTS])
def test_opcheck(name):
    operator, *arguments = {**FUNCTIONAL, **MUTATING, **PARTS}[name]()
    torch.library.opcheck(operator.default, tuple(arguments), test_utils=CHECKS)


def test_every_operator_is_checked():
    registered = {schema.name.removeprefix("reprocuda::") for schema in torch._C._jit_get_all_schemas()
                  if schema.name.startswith("reprocuda::")}  # fmt: skip
    checked = {name.split(" ")[0] for name in [*FUNCTIONAL, *MUTATING, *PARTS]}
    assert {name for name in registered if not name.startswith("_")} == checked


@pytest.mark.parametrize("name", sorted(FUNCTIONAL.keys() - {"segment_plan", "index_add half"}))
def test_second_derivatives(name):
    """The formulas of compiled code, tried in eager mode where gradcheck can reach them."""
    operator, *arguments = FUNCTIONAL[name]()

    def precise(x):
        return x.detach().to(torch.complex128 if x.is_complex() else torch.float64).requires_grad_()

    def is_leaf(argument):
        return isinstance(argument, torch.Tensor) and argument.requires_grad

    leaves = [precise(a) for a in arguments if is_leaf(a)]

    def function(*tensors):
        remaining = iter(tensors)
        return operator(*[next(remaining) if is_leaf(a) else a for a in arguments])

    if name != "embedding":  # scaled by frequency and padded: torch's definition, not the derivative
        torch.autograd.gradcheck(function, leaves)
    torch.autograd.gradgradcheck(function, leaves)


def test_a_functional_operator_never_returns_its_input():
    x, none = torch.zeros(3), torch.zeros(0, dtype=torch.long)
    for result in (
        ops.index_add(x, 0, none, torch.zeros(0)),
        ops.scatter_add(x, 0, none, torch.zeros(0)),
        ops.index_put(x, [none], [0], torch.zeros(0)),
        ops.index_add_planned(x, 0, None, torch.zeros(4, dtype=torch.long), torch.zeros(0)),
    ):
        result.add_(1)
        assert x.tolist() == [0, 0, 0]


def test_meta_tensors_have_shapes_and_torchs_errors():
    x, index = torch.empty(4, 3, device="meta"), torch.empty(2, dtype=torch.long, device="meta")
    assert reprocuda.index_add(x, 0, index, torch.empty(2, 3, device="meta")).shape == (4, 3)
    with pytest.raises(RuntimeError):
        reprocuda.index_add(x, 0, index, torch.empty(2, 2, device="meta"))


@pytest.mark.parametrize(
    "call",
    [
        lambda name: ops.scatter_reduce(torch.ones(2), 0, torch.tensor([0]), torch.ones(1), name),
        lambda name: ops.scatter_reduce_(torch.ones(2), 0, torch.tensor([0]), torch.ones(1), name),
        lambda name: ops.index_reduce(torch.ones(2), 0, torch.tensor([0]), torch.ones(1), name),
        lambda name: ops.index_reduce_(torch.ones(2), 0, torch.tensor([0]), torch.ones(1), name),
        lambda name: ops.index_reduce_planned(torch.ones(4), 0, PLAN.permutation, PLAN.offsets, torch.ones(3), name),
        lambda name: ops.histogram_counts(torch.ones(1, 1), [torch.arange(2.0)], name),
    ],
)
def test_a_string_is_freed_after_the_call(call):
    """The longer it is the more of it would be lost, which a name that no operator knows can be."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        with pytest.raises((ValueError, RuntimeError), match="must be"):
            call("x" * 2**21)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 * 1024, f"{grown} KiB more memory than before, of 200 MiB of strings"


def test_the_second_derivative_of_log_sum_exps_where_a_cotangent_is_zero():
    """Its logarithm has no derivative there; the sum that it stands for has one."""
    x = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).div(5).requires_grad_()
    cotangents = torch.tensor([[1.0, 0, 2], [0, 0, 1], [3, 0, 0], [1, -1, 0]], dtype=torch.float64).requires_grad_()
    for dim in (0, -1):
        torch.autograd.gradgradcheck(lambda x, dim=dim: ops.logcumsumexp(x, dim), x, cotangents)
        torch.autograd.gradgradcheck(lambda x, dim=dim: reprocuda.logcumsumexp(x, dim), x, cotangents)
