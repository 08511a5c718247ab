"""Prefix sums of every short length by every instruction set, each against its own exact sum in rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import reprocuda
from tests.operators.bits import NAMES, assert_same_bits, from_numpy_bits
from tests.oracle import FORMATS, round_fraction
from tests.processes import INSTRUCTION_SETS, run_python

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
LENGTHS = range(1, 18)
# (slices, columns): whole groups of slices and a rest; two and three sums that take turns; a block of columns.
SLICES = [(19, 1), (11, 2), (11, 3), (2, 25)]
WIDE = [(1, length, 300) for length in (1, 2, 3, 9)]
PROGRAM = "import sys; from tests.operators.scans import test_short_scans as t; t.save_prefixes(*sys.argv[1:])"


def numbers(shape, dtype, kind):
    generator = torch.Generator().manual_seed(sum(shape))
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "hard":  # over the whole range of exponents, and back
        info = torch.finfo(dtype)
        low, high = math.log2(info.tiny) - 8, math.log2(info.max) - 2
        x = torch.sign(x) * torch.exp2(torch.empty(shape, dtype=torch.float64).uniform_(low, high, generator=generator))
        half = shape[1] // 2
        x[:, half : 2 * half] = -x[:, :half].flip(1)
    if kind == "special":
        x[torch.rand(shape, generator=generator) < 0.6] = -0.0
        for value in (0.0, math.inf, -math.inf, math.nan, torch.finfo(dtype).max):
            x[torch.rand(shape, generator=generator) < 0.03] = value
    return x.to(dtype)


def cases(dtype):
    shapes = [(outer, length, inner) for length in LENGTHS for outer, inner in SLICES] + WIDE
    return [numbers(shape, dtype, kind) for shape in shapes for kind in ("plain", "hard", "special")]


def exact_prefixes(x):
    """Of the middle dimension."""
    name = NAMES[x.dtype]
    form = FORMATS[name]
    prefixes = np.empty(x.shape, form.bits)
    for outer, columns in enumerate(x.double().transpose(1, 2).tolist()):
        for inner, column in enumerate(columns):
            total, others, only_negative_zeros = Fraction(0), 0.0, True
            for i, value in enumerate(column):
                only_negative_zeros &= value == 0 and math.copysign(1, value) < 0
                if math.isfinite(value):
                    total += Fraction(value)
                else:
                    others += value
                if others != others:
                    result = form.nan
                elif others != 0:
                    result = form.infinity | (form.sign if others < 0 else 0)
                else:
                    result = form.sign if only_negative_zeros else round_fraction(total, name)
                prefixes[outer, i, inner] = result
    return from_numpy_bits(prefixes, x.dtype)


def save_prefixes(source, target):
    torch.set_num_threads(2)
    torch.save([reprocuda.cumsum(x, 1) for x in torch.load(source)], target)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_length_by_every_instruction_set(dtype, tmp_path):
    given = cases(dtype)
    expected = [exact_prefixes(x) for x in given]
    torch.save(given, tmp_path / "given")
    for isa in INSTRUCTION_SETS:
        run_python(PROGRAM, tmp_path / "given", tmp_path / isa, REPROCUDA_CPU_ISA=isa)
        for x, want, got in zip(given, expected, torch.load(tmp_path / isa), strict=True):
            assert_same_bits(got, want, f"{isa} {tuple(x.shape)}")
