"""Vermv, Vc and distances in ulp against exact fractions and struct; zero exactly when the bits are equal."""

import math
import struct
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reprocuda.reports.variability import relative_differences, variability

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)
SPECIAL = [0.0, -0.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, math.inf, -math.inf, math.nan, 1.0]


def bits(x: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def term(a: float, b: float) -> Fraction:
    if bits(a) == bits(b):
        return Fraction(0)
    if a == 0 or not (math.isfinite(a) and math.isfinite(b)):
        return Fraction(1)
    return abs(Fraction(a) - Fraction(b)) / abs(Fraction(a))


def steps(a: float, b: float) -> int:
    """How many neighbours lie between, counted on the bits: magnitudes upwards from +0, downwards from -0."""
    place = [bits(x) if bits(x) < 1 << 63 else -1 - (bits(x) - (1 << 63)) for x in (a, b)]
    return abs(place[0] - place[1])


@given(st.lists(st.tuples(NUMBERS | st.sampled_from(SPECIAL), NUMBERS | st.sampled_from(SPECIAL)), max_size=8))
def test_float64_against_fractions(pairs):
    a = torch.tensor([a for a, _ in pairs], dtype=torch.float64)
    b = torch.tensor([b for _, b in pairs], dtype=torch.float64)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    found = variability(a, b)
    differing = sum(bits(x) != bits(y) for x, y in pairs)
    assert found.vc == (differing / len(pairs) if pairs else 0) and found.elements == len(pairs)
    assert found.max_ulp == max((steps(x, y) for x, y in pairs), default=0)
    total = sum((term(x, y) for x, y in pairs), Fraction(0))
    if total < Fraction(10) ** 308:
        assert found.vermv == pytest.approx(float(total / max(1, len(pairs))), rel=1e-14, abs=0)
    assert (found.vermv == 0) == (found.vc == 0) == (found.max_ulp == 0) == found.identical == (differing == 0)


@pytest.mark.parametrize(
    "dtype, a, b, ulp",
    [
        (torch.float32, 1.0, 1.0 + 2**-23, 1),
        (torch.float32, 0.0, -0.0, 1),
        (torch.bfloat16, 1.0, 1.0 + 2**-7, 1),
        (torch.float16, -(2.0**-24), 2.0**-24, 3),
        (torch.float8_e4m3fn, 1.0, 1.25, 2),
        (torch.float8_e8m0fnu, 1.0, 4.0, 2),
        (torch.int64, -(2**63), 2**63 - 1, 2**64 - 1),
        (torch.int64, 2**53, 2**53 + 1, 1),
        (torch.uint8, 3, 5, 2),
        (torch.bool, True, False, 1),
        (torch.complex64, 1 + 1j, 1 + (1 + 2**-23) * 1j, 1),
    ],
)
def test_every_kind_of_number(dtype, a, b, ulp):
    x, y = torch.tensor([a, a]).to(dtype), torch.tensor([a, b]).to(dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        x, y = torch.tensor([a, a], dtype=dtype), torch.tensor([a, b], dtype=dtype)
    found = variability(x, y)
    assert found.max_ulp == ulp and found.different == 1 and found.vermv > 0
    assert variability(y, y).identical and variability(y, y).vermv == 0


def test_vermv_does_not_depend_on_threads_or_strides():
    a, b = torch.rand(1000, 700) + 1, torch.rand(1000, 700) + 1
    found = set()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found |= {variability(a, b), variability(a.t().contiguous().t(), b)}
    assert len(found) == 1
    assert found.pop().vermv == pytest.approx(((a.double() - b) / a).abs().mean().item(), rel=1e-12)


def test_states_are_compared_name_by_name():
    a = {
        "w": torch.ones(3),
        "state": {0: {"step": 5, "m": torch.zeros(2)}},
        "gone": torch.ones(1),
        "shape": torch.ones(2),
    }
    b = {"w": torch.tensor([1.0, 2, 1]), "state": {0: {"step": 6, "m": torch.zeros(2)}}, "shape": torch.ones(1, 2)}
    found = variability(a, {**b, "kind": "adam"})
    assert found.tensors["w"].vc == pytest.approx(1 / 3) and found.tensors["state.0.step"].max_ulp == 1
    assert found.tensors["state.0.m"].identical and found.total.elements == 6 and found.total.different == 2
    assert set(found.unmatched) == {"gone", "kind", "shape"} and not found.identical
    assert variability(a, a).identical
    assert not variability({"w": torch.ones(1)}, {"w": torch.ones(1), "x": torch.ones(1)}).identical


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match=r"variability: a and b must have one shape, got \(2,\) and \(3,\)"):
        variability(torch.ones(2), torch.ones(3))
    with pytest.raises(TypeError, match="must have one dtype"):
        variability(torch.ones(2), torch.ones(2).double())
    with pytest.raises(TypeError, match=r"must be two tensors or two mappings, got .*float32.* and 'w'"):
        variability(torch.ones(2), "w")
    with pytest.raises(TypeError, match="strided tensors of numbers"):
        variability(torch.ones(2).to_sparse(), torch.ones(2).to_sparse())


def test_relative_difference_of_a_weight_at_many_steps():
    a = torch.tensor([[3.0, 4.0], [0, 0], [0, 0], [math.nan, 1], [math.nan, 1], [1, 2**24]])
    b = torch.tensor([[3.0, 4.5], [0, 0], [0, -0.0], [1, 1], [math.nan, 1], [1, 2**24 + 2]])
    assert relative_differences(a, b).tolist() == [0.1, 0, 1, 1, 0, 2 / math.sqrt(1 + 2.0**48)]
    huge = torch.tensor([[1e308, 1e308], [5e-324, 0]], dtype=torch.float64)
    assert relative_differences(huge, huge * 0.5).tolist() == [0.5, 1]
    integers = torch.tensor([[1, 2**53]]), torch.tensor([[1, 2**53 + 1]])
    assert relative_differences(*integers).item() == 1  # beyond what float64 tells apart, and still not 0
    assert relative_differences(torch.ones(2, 0), torch.ones(2, 0)).tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"relative_differences: .* \(2,\) and"):
        relative_differences(torch.ones(2), torch.ones(2))
