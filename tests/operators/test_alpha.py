"""alpha: every kind of number that torch takes, none that it refuses, and no compilation for each integer."""

import decimal
import fractions

import numpy
import pytest
import torch

import reprocuda
from tests.operators.bits import assert_same_bits

pytestmark = pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning")
INDEX = torch.tensor([0, 1])


class Int(int):
    pass


class Float(float):
    pass


KINDS = [
    True, False, 3, 2.5, 1 + 0j, 2 + 0j, complex(2, -0.0), 2 + 1j, complex(2, float("nan")), Int(3), Float(2.5),
    None, "1", fractions.Fraction(1, 2), decimal.Decimal(2), float("nan"), float("inf"),
    2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**400,
    numpy.True_, numpy.False_, numpy.float16(2), numpy.float32(2.5), numpy.int64(3), numpy.uint8(3),
    numpy.longdouble(2), numpy.complex128(2 + 1j), numpy.array(2.0), numpy.array([2.0]), numpy.datetime64(1, "s"),
    torch.tensor(2.0), torch.tensor(2), torch.tensor(True), torch.tensor(2 + 0j), torch.tensor([2.0]),
    torch.tensor(2.0, requires_grad=True),
]  # fmt: skip
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.int64, torch.uint8, torch.bool]


def outcome(index_add, alpha, dtype):
    """The sum, or the class of the error."""
    try:
        return index_add(torch.zeros(2, dtype=dtype), 0, INDEX, torch.ones(2, dtype=dtype), alpha=alpha)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("alpha", KINDS, ids=lambda alpha: f"{type(alpha).__name__} {alpha!r:.24}")
def test_torchs_kinds_of_number(alpha, dtype):
    """With one contribution each, torch's product is the exact one too."""
    want = outcome(torch.index_add, alpha, dtype)
    got = [outcome(reprocuda.index_add, alpha, dtype)]
    with reprocuda.enabled():
        got.append(outcome(torch.index_add, alpha, dtype))
    for result in got:
        if isinstance(want, torch.Tensor):
            assert isinstance(result, torch.Tensor), result
            assert torch.equal(result, want) or (result.isnan().all() and want.isnan().all())
        else:
            assert result is want


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float, torch.complex32, torch.complex64], ids=str)
def test_alphas_at_the_end_of_the_range_are_refused_where_torch_refuses_them(dtype):
    largest = torch.finfo(dtype).max
    beyond = largest * (1 + 2**-40)
    ends = [largest, beyond, -beyond, 2 * largest, float("-inf"), 65504, 65505, 2**63 - 1]
    for alpha in [*ends, *([complex(0, end) for end in ends] if dtype.is_complex else [])]:
        want = outcome(torch.index_add, alpha, dtype)
        got = [outcome(reprocuda.index_add, alpha, dtype)]
        with reprocuda.enabled():
            got.append(outcome(torch.index_add, alpha, dtype))
        refused = isinstance(want, type)
        assert all(result is want if refused else isinstance(result, torch.Tensor) for result in got), (alpha, got)


def test_a_real_alpha_of_complex_type_has_a_real_gradient():
    source = torch.ones(2, requires_grad=True)
    reprocuda.index_add(torch.zeros(2), 0, INDEX, source, alpha=2 + 0j).sum().backward()
    assert_same_bits(source.grad, torch.full((2,), 2.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.half], ids=str)
def test_enabled_or_called_an_alpha_gives_the_same_bits(dtype):
    index = torch.randint(5, (60,))
    x, source = torch.randn(5, 3).to(dtype), torch.randn(60, 3).to(dtype)
    for alpha in (0.1, -3, 2**15 + 1 if dtype == torch.half else 2**53 + 1, True, 0, -0.0, 1.0):
        want = reprocuda.index_add(x, 0, index, source, alpha=alpha)
        with reprocuda.enabled():
            for got in (
                torch.index_add(x, 0, index, source, alpha=alpha),
                x.clone().index_add_(0, index, source, alpha=alpha),
                torch.index_add(x, 0, index, source, alpha=alpha, out=torch.empty_like(x)),
            ):
                assert_same_bits(got, want, str(alpha))


def compilations(index_add, alphas, **how):
    count = 0

    def backend(graph, inputs):
        nonlocal count
        count += 1
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    torch._dynamo.reset()
    x, source = torch.zeros(2), torch.ones(2)
    compiled = torch.compile(lambda alpha: index_add(x, 0, INDEX, source, alpha=alpha), backend=backend, **how)
    results = [compiled(alpha)[0].item() for alpha in alphas]
    torch._dynamo.reset()
    return count, results


@pytest.mark.parametrize("dynamic", [None, True], ids=str)
@pytest.mark.parametrize("alphas", [[1.5, 2.5, 3.5], [2, 3, 2**53 + 1, 2**60 + 2**36 + 1]], ids=["float", "int"])
def test_compiled_code_is_compiled_no_more_often_than_torchs(alphas, dynamic):
    ours, results = compilations(reprocuda.index_add, alphas, dynamic=dynamic)
    torchs, _ = compilations(torch.index_add, alphas, dynamic=dynamic)
    assert ours <= torchs
    assert results == [torch.tensor(alpha).to(torch.float32).item() for alpha in alphas]
