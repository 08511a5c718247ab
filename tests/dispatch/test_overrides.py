"""Under enable(): torch's functions, methods and backward formulas give our bits; outside of it they are torch's."""

import warnings

import pytest
import torch

import reprocuda
from tests.operators.bits import assert_same_bits
from tests.operators.table import CASES, TORCH, each_with
from tests.operators.wrong_calls import OUT_OF_RANGE, WRONG

COVERED = [case for case in CASES if case.operator not in ("segment_sum", "take_along_dim")]
pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")
CANCELLING = torch.tensor([1e8, 1.0, -1e8])
SAME = torch.zeros(3, dtype=torch.long)


def native_sum() -> float:
    return torch.zeros(1).index_add_(0, SAME, CANCELLING).item()


def torch_has_it(case, dtype):
    """But for the derivative of an embedding of complex numbers."""
    return case.operator != "embedding" or not dtype.is_complex


@each_with(COVERED, [torch.float32, torch.float64, torch.bfloat16, torch.complex64], torch_has_it)
def test_torchs_operator_gives_our_bits(case, dtype):
    inputs = case.with_grad(case.inputs(500, dtype), dtype)
    want = case.sum(reprocuda, inputs)
    with reprocuda.enabled():
        assert_same_bits(case.sum(TORCH, inputs), want, case.name)


def spelled(x, index, source):
    """Every way torch has of writing the same sum."""
    elements = index[:, None].expand_as(source)
    yield "index_add", torch.index_add(x, 0, index, source)
    yield "Tensor.index_add", x.index_add(0, index, source)
    yield "Tensor.index_add_", x.clone().index_add_(0, index, source)
    yield "index_add out", torch.index_add(x, 0, index, source, out=torch.empty_like(x))
    yield "index_add out resized", torch.index_add(x, 0, index, source, out=torch.empty(0))
    yield "scatter_add", torch.scatter_add(x, 0, elements, source)
    yield "Tensor.scatter_add_", x.clone().scatter_add_(0, elements, source)
    yield "scatter_add out", torch.scatter_add(x, 0, elements, source, out=torch.empty(0))
    yield "index_put", torch.index_put(x, (index,), source, accumulate=True)
    yield "Tensor.index_put_", x.clone().index_put_((index,), source, accumulate=True)
    yield "aten.index_put", torch.ops.aten.index_put(x, [index], source, True)
    yield "aten._index_put_impl_", torch.ops.aten._index_put_impl_(x.clone(), [index], source, True, False)
    y = x.clone()
    y.index_put_((index,), source, accumulate=True)
    yield "in place on a clone", y
    yield "transposed", x.T.contiguous().T.index_add(0, index, source)


def test_every_spelling():
    x, index, source = torch.randn(40, 3), torch.randint(40, (3000,)), torch.randn(3000, 3) * 1e3
    want = reprocuda.index_add(x, 0, index, source)
    before = dict(spelled(x, index, source))
    assert sum(not torch.equal(result, want) for result in before.values()) == len(before)
    with reprocuda.enabled():
        for name, result in spelled(x, index, source):
            assert_same_bits(result.contiguous(), want, name)
    for name, result in spelled(x, index, source):
        assert torch.equal(result, before[name]), f"{name} is not torch's again"


def test_in_place_and_out_return_what_they_are_given():
    with reprocuda.enabled():
        x, out = torch.zeros(1), torch.empty(1)
        assert x.index_add_(0, SAME, CANCELLING) is x and x.item() == 1
        assert torch.index_add(torch.zeros(1), 0, SAME, CANCELLING, out=out) is out and out.item() == 1
        with pytest.warns(UserWarning, match="was resized"):
            assert torch.scatter_add(torch.zeros(1), 0, SAME, CANCELLING, out=torch.empty(4)).shape == (1,)


def test_backward_formulas_are_caught():
    tokens, grad = torch.randint(30, (2000,)), torch.randn(2000, 4) * 1e3
    columns = torch.randint(4, (2000,))
    reads = {
        "nn.Embedding": (lambda w: torch.nn.functional.embedding(tokens, w), lambda w: reprocuda.embedding(tokens, w)),
        "w[i]": (lambda w: w[tokens], lambda w: reprocuda.index(w, tokens)),
        "w[i, j]": (lambda w: w[tokens, columns], lambda w: reprocuda.index(w, (tokens, columns))),
        "index_select": (lambda w: w.index_select(0, tokens), lambda w: reprocuda.index_select(w, 0, tokens)),
        "gather": (
            lambda w: w.gather(0, tokens[:, None].expand(-1, 4)),
            lambda w: reprocuda.gather(w, 0, tokens[:, None].expand(-1, 4)),
        ),
        "take_along_dim": (
            lambda w: w.take_along_dim(tokens[:, None].expand(-1, 4), 0),
            lambda w: reprocuda.take_along_dim(w, tokens[:, None].expand(-1, 4), 0),
        ),
    }
    for name, (torchs, ours) in reads.items():
        grads = []
        for read in (torchs, ours):
            w = torch.zeros(30, 4, requires_grad=True)
            y = read(w)
            with reprocuda.enabled():  # what counts is where backward runs
                y.backward(grad[..., 0] if y.dim() == 1 else grad)
            grads.append(w.grad)
        assert_same_bits(*grads, name)


def test_embedding_module_with_padding_and_frequency():
    tokens = torch.tensor([[0, 2, 2], [1, 0, 0]])
    module = torch.nn.Embedding(4, 3, padding_idx=2, scale_grad_by_freq=True)
    with reprocuda.enabled():
        module(tokens).backward(torch.full((2, 3, 3), 0.1))
    assert_same_bits(module.weight.grad[0], torch.full((3,), 0.1))
    assert module.weight.grad[2].eq(0).all() and module.weight.grad[3].eq(0).all()


def test_a_training_step_repeats_in_any_order():
    """Rows of the batch shuffled: torch's gradient changes, ours does not."""
    tokens, target = torch.randint(50, (64, 20)), torch.randint(5, (64,))

    def gradient(order):
        torch.manual_seed(1)
        embedding = torch.nn.Embedding(50, 16)
        rows = embedding(tokens[order])
        rows.backward((rows.detach() - target[order, None, None]) * 0.1)
        return embedding.weight.grad

    plain, shuffled = torch.arange(64), torch.randperm(64)
    assert not torch.equal(gradient(plain), gradient(shuffled))
    with reprocuda.enabled():
        assert_same_bits(gradient(plain), gradient(shuffled))


def test_versions_and_leaves_are_autograds_as_before():
    with reprocuda.enabled():
        x = torch.zeros(3)
        x.index_add_(0, SAME, torch.ones(3))
        assert x._version == 1
        with pytest.raises(RuntimeError, match="leaf Variable"):
            torch.zeros(3, requires_grad=True).index_add_(0, SAME, torch.ones(3))
        y = torch.ones(3, requires_grad=True) * 1
        square = y**2
        y.scatter_add_(0, SAME, torch.ones(3))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            square.sum().backward()


def test_derivatives_of_torchs_operators():
    index = torch.tensor([0, 2, 2])

    def real(*shape):
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    with reprocuda.enabled():
        for function, inputs in (
            (lambda x, s: x.index_add(0, index, s, alpha=2), (real(4, 2), real(3, 2))),
            (lambda x, s: x.scatter_add(0, index, s), (real(4), real(3))),
            (lambda x, s: x.index_put((index,), s, accumulate=True), (real(4, 2), real(2))),
            (lambda w: torch.nn.functional.embedding(index, w), (real(4, 2),)),
            (lambda w: w[index, index], (real(4, 3),)),
        ):
            torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True)
            torch.autograd.gradgradcheck(function, inputs)
        x, s = torch.zeros(2, 4), torch.ones(2, 3)
        assert torch.vmap(lambda x, s: x.index_add(0, index, s))(x, s).tolist() == [[1, 0, 2, 0]] * 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("what", WRONG)
def test_errors_stay_torchs(what):
    with pytest.raises(Exception) as before:
        WRONG[what](TORCH)
    with reprocuda.enabled(), pytest.raises(before.type):
        WRONG[what](TORCH)


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_keeps_its_class(name):
    error, call = OUT_OF_RANGE[name]
    with reprocuda.enabled():
        for bad in (3, -4):
            with pytest.raises(error):
                call(TORCH, torch.tensor([bad]))


@pytest.mark.filterwarnings("error::UserWarning")
def test_overlapping_memory_is_refused_under_torchs_names_too():
    alias, i = torch.zeros(1).expand(3), torch.tensor([0, 1])
    with reprocuda.enabled(strict=True):
        for call in (
            lambda: alias.index_add_(0, i, torch.ones(2)),
            lambda: alias.scatter_add_(0, i, torch.ones(2)),
            lambda: alias.index_put_((i,), torch.ones(2), accumulate=True),
        ):
            with pytest.raises(RuntimeError, match="single memory location"):
                call()
    assert alias.tolist() == [0, 0, 0]


def test_order_free_arguments_are_left_to_torch_unless_strict():
    """A fractional alpha on integers: torch truncates it, no order is involved."""
    call = lambda: torch.zeros(2, dtype=torch.uint8).index_add(0, SAME, torch.ones(3).byte(), alpha=-1)  # noqa: E731
    want = call()
    with reprocuda.enabled():
        assert torch.equal(call(), want)
    with reprocuda.enabled(strict=True), pytest.raises(RuntimeError, match="index_add"):
        call()


def test_index_put_overwrites_too():
    with reprocuda.enabled():
        x = torch.zeros(3)
        x[torch.tensor([0, 0])] = torch.tensor([1.0, 2.0])
        assert x.tolist() == [2, 0, 0]
        assert x.index_put((SAME[:1],), torch.tensor(7.0)).tolist() == [7, 0, 0]
        x[x > 1] = 5
        assert x.tolist() == [5, 0, 0]


def test_compiled_by_aot_eager_reaches_ours():
    compiled = torch.compile(lambda x, i, s: x.index_add(0, i, s), backend="aot_eager")
    torch_sum = torch.index_add(torch.zeros(1), 0, SAME, CANCELLING)
    assert torch.equal(compiled(torch.zeros(1), SAME, CANCELLING), torch_sum)
    with reprocuda.enabled():
        assert compiled(torch.zeros(1), SAME, CANCELLING).item() == 1
    assert torch.equal(compiled(torch.zeros(1), SAME, CANCELLING), torch_sum)


def test_autocast_promotes_to_the_wider_type():
    index = torch.tensor([0, 2])
    rows = index[:, None].expand(2, 2)
    calls = {
        "scatter_add": (lambda ns, x, s: ns.scatter_add(x, 0, rows, s)),
        "index_put": (lambda ns, x, s: ns.index_put(x, (index,), s, True)),
    }
    with reprocuda.enabled(), torch.autocast("cpu", dtype=torch.bfloat16):
        half = torch.ones(2, 2) @ torch.ones(2, 2)
        assert half.dtype == torch.bfloat16
        for name, call in calls.items():
            for ns in (TORCH, reprocuda):
                for x, s in ((torch.zeros(3, 2), half), (torch.zeros(3, 2).bfloat16(), half.float())):
                    x, s = x.detach().requires_grad_(), s.detach().requires_grad_()
                    result = call(ns, x, s)
                    assert result.dtype == torch.float32 and result.sum() == 8, name
                    result.sum().backward()
                    assert x.grad.dtype == x.dtype and s.grad.dtype == s.dtype
        with pytest.raises(RuntimeError):  # torch has no rule for index_add
            torch.index_add(torch.zeros(3, 2), 0, index, half)
        with pytest.raises(RuntimeError):  # nor for doubles
            torch.scatter_add(torch.zeros(3, 2).double(), 0, rows, half)
        with pytest.raises(RuntimeError):
            reprocuda.index_put(torch.zeros(3, 2).double(), (index,), half, True)
    for call in calls.values():
        with pytest.raises(RuntimeError):  # no autocast, no promotion
            call(TORCH, torch.zeros(3, 2), half)


def test_other_devices_and_dtypes_are_left_alone():
    with reprocuda.enabled(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        meta = torch.zeros(3, device="meta")
        assert meta.index_add(0, SAME.to("meta"), meta).is_meta
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            fake = torch.zeros(3)
            assert fake.index_put((torch.zeros(2, dtype=torch.long),), torch.ones(2), accumulate=True).shape == (3,)
