"""Every number of 16 bits reaches the sums unchanged, by every instruction set and way of summing."""

import numpy as np
import pytest
import torch

import reprocuda
from tests import oracle
from tests.operators.bits import DTYPES, assert_same_bits, from_numpy_bits
from tests.processes import INSTRUCTION_SETS, run_python

PATTERNS = np.arange(1 << 16, dtype=np.uint16)


def ways(source, index, targets):
    """Sums of two rows for each target by every kind of loop that reads 16-bit numbers: [targets, columns]."""
    columns = source.shape[1]
    base = torch.full((targets, columns), -0.0, dtype=source.dtype)  # which adds nothing, not even to -0
    offsets = torch.arange(0, len(source), 2)
    yield "rows", reprocuda.index_add(base, 0, index, source)
    yield "columns", torch.stack([reprocuda.index_add(base[:, 0], 0, index, c) for c in source.unbind(1)], 1)
    yield "elements", reprocuda.scatter_add(base, 0, index[:, None].expand_as(source).contiguous(), source)
    yield "bags", reprocuda.embedding_bag(torch.arange(len(source)), source, offsets, mode="sum")
    yield "weighted bags", reprocuda.embedding_bag(
        torch.arange(len(source)), source, offsets, mode="sum", per_sample_weights=torch.ones_like(source[:, 0])
    )
    yield "prefixes of columns", reprocuda.cumsum(source.view(targets, 2, columns), 1)[:, 1]
    yield "prefixes of rows", reprocuda.cumsum(source.view(targets, 2, columns).mT.contiguous(), 2)[..., 1]


def check(name):
    """Each pattern and -0, whose sum is that number; and each less its neighbour, whose sum is its last bit."""
    form = oracle.FORMATS[name]
    for other in (np.full_like(PATTERNS, form.sign), (PATTERNS ^ form.sign) ^ 1):
        pairs = np.stack([PATTERNS, other], 1)
        wide = oracle.to_double(pairs, name)
        with np.errstate(invalid="ignore"):
            total = wide[:, 0] + wide[:, 1]  # exact: of two such numbers, one of them 0 or both of like size
        want = np.array([oracle.exact_reduction([float(x)], "sum", name) for x in total], dtype=np.uint16)
        for columns in (1, 19, 64):  # vectors, and what is left of them
            targets = len(PATTERNS) // columns
            used = targets * columns
            rows = np.moveaxis(pairs[:used].reshape(targets, columns, 2), 2, 1).reshape(2 * targets, columns)
            index = torch.arange(targets).repeat_interleave(2)
            for way, got in ways(from_numpy_bits(rows, DTYPES[name]), index, targets):
                right = from_numpy_bits(want[:used].reshape(targets, columns), DTYPES[name])
                assert_same_bits(got, right, f"{name}, {way}, {columns} columns")


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_every_pattern(name, isa):
    program = f"from tests.operators.test_widening import check; check('{name}'); print('right')"
    assert run_python(program, REPROCUDA_CPU_ISA=isa) == "right"
