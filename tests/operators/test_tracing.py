"""Where there are no values: functionalize, fake and meta tensors, masks and out= in compiled code, batched plans."""

import pytest
import torch
from torch.func import functionalize, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

import reprocuda
from tests.operators.bits import assert_same_bits
from tests.operators.table import CASES, TORCH

MASK = torch.tensor([True, False, True])
INDEX = torch.tensor([0, 1])


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_functionalize_keeps_the_bits_and_the_gradients(case):
    inputs = case.inputs(60, torch.float32)
    leaves = {n: inputs[n].clone().requires_grad_() for n in case.differentiable}
    results = []
    for transform in (lambda f: f, functionalize):
        for leaf in leaves.values():
            leaf.grad = None
        result = transform(lambda x: case.run(reprocuda, x))({**inputs, **leaves})
        result.backward(torch.arange(result.numel()).reshape(result.shape) / 7)
        results.append([result.detach(), *(leaf.grad for leaf in leaves.values())])
    for got, want in zip(*results, strict=True):
        assert_same_bits(got, want, case.name)


MADE_OF = {"take_along_dim": "index", "take": "index", "repeat_interleave": "index_select"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_functionalize_with_another_transform_is_refused_by_name(case):
    inputs = case.inputs()
    name = case.differentiable[0]
    operator = MADE_OF.get(case.operator, case.operator)
    for transform in (lambda f: functionalize(grad(f)), lambda f: grad(functionalize(f))):
        with pytest.raises(RuntimeError, match=rf"{operator}_?\(\): torch.func.functionalize together"):
            transform(lambda x: case.run(reprocuda, {**inputs, name: x}).sum())(inputs[name])


VALUES = {"each": (2,), "one": (1,), "scalar": ()}


@pytest.mark.parametrize("shape", VALUES.values(), ids=VALUES)
def test_masks_in_compiled_code(shape):
    """No shape depends on the mask's entries, so that none has to be known: with or without gradients."""

    def put(ns):
        def run(x, mask, values):
            return ns.index_put(x, (mask,), values, True)

        return run

    compiled = torch.compile(put(reprocuda), backend="aot_eager", fullgraph=True)
    for mask in (MASK, torch.tensor([True, True, False])):
        grads = []
        for run in (put(TORCH), compiled):
            x, values = torch.arange(3.0).requires_grad_(), torch.full(shape, 0.5).requires_grad_()
            result = run(x, mask, values)
            result.backward(torch.tensor([0.25, 3.0, 7.0]))
            grads.append((result.detach(), x.grad, values.grad))
        for got, want in zip(*grads, strict=True):
            assert torch.equal(got, want)


def test_a_masks_broadcast_value_gets_an_exact_gradient_in_compiled_code():

    def put(x, m, v):
        return reprocuda.index_put(x, (m,), v, True)

    values = torch.zeros(1, requires_grad=True)
    torch.compile(put, backend="aot_eager", fullgraph=True)(torch.zeros(3), torch.ones(3).bool(), values).backward(
        torch.tensor([1e8, 1.0, -1e8])
    )
    assert values.grad.item() == 1


def test_masks_without_values():
    """Meta and fake tensors have shapes only, and torch's operator needs no more."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    meta = [torch.empty(3, device="meta"), MASK.to("meta"), torch.empty(2, device="meta")]
    for ns in (TORCH, reprocuda):
        assert ns.index_put(meta[0], (meta[1],), meta[2], True).shape == (3,)
        assert ns.index_put_(meta[0], (meta[1],), meta[2], True) is meta[0]
        with FakeTensorMode():
            x, mask = torch.zeros(3, requires_grad=True), torch.tensor([True, False, True])
            result = ns.index_put(x, (mask,), torch.ones(2), True)
            result.sum().backward()
            assert result.shape == x.grad.shape == (3,)
            assert ns.index_put_(torch.zeros(3), (mask,), torch.ones(2), True).shape == (3,)


@pytest.mark.parametrize("op", ["index_add", "scatter_add"])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_out_wants_no_gradient_either(op, fullgraph):
    def add(x, out):
        return getattr(reprocuda, op)(x, 0, INDEX, torch.ones(2), out=out)

    compiled = torch.compile(add, backend="aot_eager", fullgraph=fullgraph)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        compiled(torch.zeros(3, requires_grad=True), torch.empty(3))
    out = torch.empty(3)
    assert compiled(torch.zeros(3), out).tolist() == out.tolist() == [1, 1, 0]


MIXED = {
    "index_add": lambda ns, x, i, s: ns.index_add(x, 0, i, s),
    "index_add_": lambda ns, x, i, s: ns.index_add_(x, 0, i, s),
    "scatter_add": lambda ns, x, i, s: ns.scatter_add(x, 0, i, s),
    "scatter_add_": lambda ns, x, i, s: ns.scatter_add_(x, 0, i, s),
    "index_put_ values": lambda ns, x, i, s: ns.index_put_(x, (i.to(x.device),), s, True),
}


@pytest.mark.parametrize("name", MIXED)
def test_nothing_is_added_from_where_there_are_no_values(name):
    """torch refuses this for index_add only, and leaves the others' results uninitialised."""
    call = MIXED[name]
    meta = torch.empty(2, device="meta")
    for arguments in ((torch.zeros(3), INDEX.to("meta"), torch.ones(2)), (torch.zeros(3), INDEX, meta)):
        if name.startswith("index_put") and arguments[1].is_meta:
            continue
        with pytest.raises(RuntimeError, match="same device"):
            call(reprocuda, *arguments)
        assert not arguments[0].any()
    if name.startswith("index_add"):
        with pytest.raises(RuntimeError):
            call(reprocuda, torch.empty(3, device="meta"), INDEX, torch.ones(2))
    else:
        assert call(reprocuda, torch.empty(3, device="meta"), INDEX, torch.ones(2)).is_meta


def test_a_plan_of_a_batch_is_refused():
    batches = {
        "from_index": (torch.tensor([[0, 1], [1, 1]]), lambda i: reprocuda.SegmentPlan.from_index(i, 3)),
        "from_sorted": (torch.tensor([[0, 1], [1, 1]]), lambda i: reprocuda.SegmentPlan.from_sorted(i, 3)),
        "from_offsets": (
            torch.tensor([[0, 1, 2], [0, 2, 2]]), lambda i: reprocuda.SegmentPlan.from_offsets(i, num_rows=2),
        ),
    }  # fmt: skip
    for name, (batch, plan) in batches.items():

        def sums(i, s):
            return reprocuda.segment_sum(s, plan(i)).sum()  # noqa: B023

        for function in (sums, lambda i, s: grad(sums, argnums=1)(i, s)):
            with pytest.raises(RuntimeError, match=rf"SegmentPlan.{name}\(\): the tensor is batched by vmap"):
                vmap(function, in_dims=(0, None))(batch, torch.ones(2))
        assert torch.equal(grad(sums, argnums=1)(batch[0], torch.ones(2)), torch.ones(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.complex64], ids=str)
def test_an_alpha_that_is_a_size_stays_open(dtype):
    def add(x, index, source):
        return reprocuda.index_add(torch.ones(4, dtype=dtype), 0, index, source, alpha=x.shape[0])

    def call(rows):
        return torch.ones(rows), torch.tensor([0, 0, 3]), torch.tensor([1, 2, 3], dtype=dtype)

    traced = make_fx(add, tracing_mode="symbolic")(*call(4))
    assert_same_bits(traced(*call(7)), add(*call(7)))

    class Module(torch.nn.Module):
        def forward(self, x, index, source):
            return add(x, index, source)

    exported = torch.export.export(Module(), call(4), dynamic_shapes=({0: torch.export.Dim("rows")}, None, None))
    assert_same_bits(exported.module()(*call(7)), add(*call(7)))
