"""torch.compile: reprocuda's functions keep their bits, their errors and their gradients in compiled code."""

import pytest
import torch

import reprocuda
from tests.operators.bits import assert_same_bits
from tests.operators.table import CASES

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
COMPILED = [case for case in CASES if case.name in {
    "index_add", "index_add-last-dim-alpha", "index_add-in-place", "index_add-planned", "scatter_add",
    "scatter_add-in-place-dim-1", "index_put", "index_put-in-place-apart",
    "scatter_reduce-mean", "scatter_reduce-prod", "scatter_reduce-amax-without-self", "index_reduce-amin",
    "gather", "index_select",
    "index_select-planned", "take_along_dim-broadcast", "index", "embedding", "embedding-planned",
}]  # fmt: skip


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def run(function, case, inputs, dtype):
    leaves = {n: inputs[n].detach().clone().requires_grad_() for n in case.differentiable}
    result = function({**inputs, **leaves})
    result.backward(torch.arange(result.numel(), dtype=dtype).reshape(result.shape).to(result.dtype) / 7)
    return [result, *[leaf.grad for leaf in leaves.values()]]


@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case.name)
def test_same_bits_as_eager(case):
    """aot_eager traces forward and backward as inductor does, and runs in a moment."""
    inputs = case.inputs(60, torch.float32)
    eager = run(lambda x: case.run(reprocuda, x), case, inputs, torch.float32)
    compiled = torch.compile(
        lambda x: case.run(reprocuda, x), backend="aot_eager", fullgraph="planned" not in case.variant
    )
    for got, want in zip(run(compiled, case, inputs, torch.float32), eager, strict=True):
        assert_same_bits(got, want, case.name)


def test_every_function_has_its_own_share_of_the_compilers_patience():
    """Dynamo gives up where one code object is compiled too often."""
    index, x = torch.tensor([0, 2, 2, 1]), torch.arange(4.0)
    calls = {
        **{name: (x, 0, index) for name in ("gather", "index_select")},
        **{name: (x, 0, index, x) for name in ("index_add", "index_copy", "scatter", "scatter_add")},
        **{name: (x, 0) for name in ("cumprod", "cumsum", "logcumsumexp")},
        **{name: (x, 0, index, x, "mean") for name in ("index_reduce", "scatter_reduce")},
        "put": (x, index, x),
        "take": (x, index),
    }
    for name, arguments in calls.items():
        compiled = torch.compile(getattr(reprocuda, name), backend="eager", fullgraph=True)
        assert_same_bits(compiled(*arguments), getattr(reprocuda, name)(*arguments), name)


def test_inductor_keeps_the_bits():
    """Forward and backward reach our operators; inductor would sum index_add and index_select's gradient itself."""

    def step(x, index, source):
        return reprocuda.index_add(x, 0, index, reprocuda.index_select(x, 0, index) + source)

    index, terms = torch.zeros(3, dtype=torch.long), torch.tensor([1e8, 1.0, -1e8])
    x = torch.zeros(2, requires_grad=True)
    result = torch.compile(step, fullgraph=True)(x, index, terms)
    assert result.tolist() == [1, 0]
    result.backward(torch.tensor([0.1, 0.2]))
    wanted = torch.zeros(2, requires_grad=True)
    step(wanted, index, terms).backward(torch.tensor([0.1, 0.2]))
    assert_same_bits(x.grad, wanted.grad)


def test_compiled_code_refuses_what_eager_refuses():
    """A negative index must not wrap around."""
    bad = torch.tensor([-1])
    with pytest.raises(IndexError, match="out of bounds"):
        torch.compile(lambda x, i, s: reprocuda.index_add(x, 0, i, s))(torch.zeros(3), bad, torch.ones(1))
    with pytest.raises((IndexError, RuntimeError)):
        torch.compile(lambda i, w: reprocuda.embedding(i, w))(bad, torch.ones(2, 2))


def test_shape_errors_come_at_compile_time():
    add = torch.compile(lambda x, i, s: reprocuda.index_add(x, 0, i, s), backend="aot_eager")
    with pytest.raises(Exception, match=r"(?i)source|shape|size"):
        add(torch.zeros(3, 2), torch.tensor([1]), torch.ones(1, 3))


IN_PLACE = {
    f"{name} {reduce} {include_self}": (name, reduce, include_self)
    for name, reductions in {
        "scatter_reduce_": ("sum", "mean", "prod", "amax", "amin"),
        "index_reduce_": ("mean", "prod", "amax", "amin"),
    }.items()
    for reduce in reductions
    for include_self in (True, False)
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_gradients_through_compiled_reductions_in_place(case):
    name, reduce, include_self = IN_PLACE[case]
    index = torch.tensor([0, 1, 0])

    def reduced(base, src, inplace):
        return inplace(base * 1, 0, index, src, reduce, include_self=include_self)

    results = []
    for run, inplace in (
        (reduced, getattr(torch.Tensor, name)),
        (torch.compile(reduced, fullgraph=True, backend="aot_eager"), getattr(reprocuda, name)),
    ):
        base, src = torch.tensor([1.0, 5.0], requires_grad=True), torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
        result = run(base, src, inplace)
        results.append((result, *torch.autograd.grad(result.sum(), (base, src))))
    for want, got in zip(*results, strict=True):
        assert torch.equal(got, want)
