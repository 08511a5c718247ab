"""exp, log and sqrt by the operator: the numerics' bits for every dtype, instruction set, thread count and layout."""

import hashlib

import numpy as np
import pytest
import reprocuda_numerics as numerics
import torch

from reprocuda.families import elementary
from tests.operators.bits import NAMES, assert_same_bits, threads, to_numpy_bits
from tests.operators.elementary_arguments import arguments
from tests.processes import by_instruction_set

FUNCTIONS = {"exp": elementary.exp, "log": elementary.log, "sqrt": elementary.sqrt}


@pytest.mark.parametrize("dtype", NAMES, ids=NAMES.get)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_of_the_numerics(name, dtype):
    """Whose own test compares them with mpmath."""
    x = arguments(dtype)
    want = getattr(numerics, name)(x.double().numpy(), NAMES[dtype])
    for count in (1, 2):
        with threads(count):
            torch.set_flush_denormal(True)
            got = FUNCTIONS[name](x)
            torch.set_flush_denormal(False)
            np.testing.assert_array_equal(to_numpy_bits(got).astype(np.uint64), want)
    assert_same_bits(FUNCTIONS[name](x[:999].view(27, 37).T), FUNCTIONS[name](x[:999]).view(27, 37).T.contiguous())
    assert FUNCTIONS[name](x[:0]).shape == (0,)


PROGRAM = """
import hashlib, torch
from reprocuda.families import elementary
from tests.operators.elementary.test_elementary import FUNCTIONS, NAMES, arguments, to_numpy_bits
digest = hashlib.sha256()
for dtype in NAMES:
    for function in FUNCTIONS.values():
        digest.update(to_numpy_bits(function(arguments(dtype))).tobytes())
print(digest.hexdigest())
"""


def test_the_same_bits_by_every_instruction_set():
    digest = hashlib.sha256()
    for dtype, label in NAMES.items():
        for name in FUNCTIONS:
            bits = getattr(numerics, name)(arguments(dtype).double().numpy(), label)
            digest.update(bits.astype(f"u{dtype.itemsize}").tobytes())
    assert {*by_instruction_set(PROGRAM).values()} == {digest.hexdigest()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name):
    function = FUNCTIONS[name]
    x = (torch.rand(3, 4, dtype=torch.float64) + 0.5).requires_grad_()
    torch.autograd.gradcheck(function, x, check_forward_ad=True)
    torch.autograd.gradgradcheck(function, x, check_fwd_over_rev=True)
    assert_same_bits(torch.vmap(function, in_dims=1)(x), function(x.T))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors(name):
    for dtype in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(RuntimeError, match=rf"{name}\(\): self must be of a real floating-point dtype"):
            FUNCTIONS[name](torch.ones(2, dtype=dtype))
