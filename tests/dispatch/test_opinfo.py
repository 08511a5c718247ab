"""PyTorch's own samples and error inputs for these operators, with enable(), forward and backward, on the CPU."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import reprocuda
from tests.operators.bits import assert_same_bits

# The import has called this function, which would hold for the tests of other files too.
torch.backends.disable_global_flags.__globals__["__allow_nonbracketed_mutation_flag"] = True

NAMES = {
    "index_add", "index_put", "scatter_add", "gather", "index_select", "take_along_dim", "nn.functional.embedding",
    "nn.functional.embedding_bag", "bincount", "histc", "histogram", "histogramdd",
    "__getitem__", "scatter_reduce.sum", "scatter_reduce.mean", "scatter_reduce.prod", "scatter_reduce.amax",
    "scatter_reduce.amin", "index_reduce.mean", "index_reduce.prod", "index_reduce.amax", "index_reduce.amin",
    "scatter", "index_copy", "index_fill", "masked_scatter", "put", "take", "repeat_interleave",
    "cumsum", "cumprod", "logcumsumexp", "_segment_reduce.lengths", "_segment_reduce.offsets",
    "sparse.mm.reduce",
}  # fmt: skip


def full_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


# The gradient of logcumsumexp is a difference of exponentials, which loses digits on both sides.
RTOL = {"logcumsumexp": 1e-9}
# Which bin a point falls into depends on the dtype.
BINNED = {"histc", "histogram", "histogramdd"}
OPERATORS = {full_name(op): op for op in op_db if full_name(op) in NAMES}
pytestmark = [
    pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def variants(op, sample):
    yield "function", op.get_op()
    if op.get_method() is not None:
        yield "method", op.get_method()
    if op.get_inplace() is not None and not sample.broadcasts_input:  # nothing can be written into a smaller one
        yield "in place", op.get_inplace()


def doubled(value):
    """The same arguments in double precision, to compare values with."""
    if isinstance(value, torch.Tensor):
        wide = torch.complex128 if value.is_complex() else torch.float64
        return value.detach().to(wide) if value.is_floating_point() or value.is_complex() else value
    if isinstance(value, torch.dtype):
        return torch.complex128 if value.is_complex else torch.float64 if value.is_floating_point else value
    if isinstance(value, (list, tuple)):
        return type(value)(doubled(part) for part in value)
    return {k: doubled(v) for k, v in value.items()} if isinstance(value, dict) else value


def samples(op, dtype, requires_grad):
    return list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))


def run(variant, call, sample, change=lambda value: value):
    x = change(sample.input)
    return call(x.clone() if variant == "in place" else x, *change(sample.args), **change(sample.kwargs))


def test_all_of_them_are_found():
    assert set(OPERATORS) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_samples_forward(name):
    op = OPERATORS[name]
    for dtype in sorted(op.supported_dtypes("cpu"), key=str):
        for sample in samples(op, dtype, False):
            for variant, call in variants(op, sample):
                want = run(variant, call, sample)
                with reprocuda.enabled():
                    got = run(variant, call, sample)
                exact = None
                if (dtype.is_floating_point or dtype.is_complex) and name not in BINNED:
                    exact = parts(run(variant, call, sample, doubled))
                strict = exact is not None and "max_norm" not in sample.kwargs
                compare(parts(got), parts(want), exact, strict, f"{name} {variant} {dtype} {sample}")


def parts(result):
    """The tensors of a result."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in parts(part)]


def compare(got, want, exact, strict, where):
    for place, (one, other) in enumerate(zip(got, want, strict=True)):
        assert one.dtype == other.dtype and one.shape == other.shape, where
        right = other if exact is None else exact[place].to(other.dtype)
        if other.dtype.is_floating_point or other.dtype.is_complex:
            if torch.finfo(other.dtype).bits == 64:  # torch rounds at every step
                torch.testing.assert_close(one, right, equal_nan=True, rtol=1e-12, atol=1e-12, msg=where)
            elif strict:
                assert_same_bits(one, right, where)
            else:  # torch's weighted counts, and the rows that max_norm scales, are rounded at every step too
                torch.testing.assert_close(one, right, equal_nan=True, rtol=2e-3, atol=1e-2, msg=where)
        else:
            assert torch.equal(one, other), where


def gradients(op, sample):
    arguments = [sample.input, *sample.args, *sample.kwargs.values()]
    leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
    result = op.get_op()(sample.input, *sample.args, **sample.kwargs)
    seed = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).reshape(result.shape).to(result.dtype)
    return torch.autograd.grad(result, leaves, seed, allow_unused=True, create_graph=True)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_samples_backward(name):
    op = OPERATORS[name]
    for dtype in (torch.float64, torch.complex128):
        if dtype not in op.supported_backward_dtypes("cpu"):
            continue
        for sample in samples(op, dtype, True):
            want = gradients(op, sample)
            with reprocuda.enabled():
                got = gradients(op, sample)
            for mine, torchs in zip(got, want, strict=True):
                if torchs is not None:
                    torch.testing.assert_close(mine, torchs, rtol=RTOL.get(name, 1e-12), atol=1e-12)


@pytest.mark.parametrize("name", sorted(n for n in NAMES if OPERATORS[n].error_inputs_func is not None))
def test_error_inputs(name):
    op = OPERATORS[name]
    for error in op.error_inputs("cpu"):
        sample = error.sample_input
        with reprocuda.enabled(), pytest.raises(error.error_type, match=error.error_regex):
            op.get_op()(sample.input, *sample.args, **sample.kwargs)
