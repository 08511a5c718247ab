"""Comparing bits as bits: signed zeros differ, NaN patterns differ, equal numbers of two dtypes are not equal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def bits(tensor: Tensor) -> Tensor:
    """The bits of a tensor as integers; complex numbers as pairs."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.contiguous().view(INTEGERS[tensor.element_size()])


def assert_same_bits(got: Tensor, want: Tensor, message: str = "") -> None:
    assert got.dtype == want.dtype and got.shape == want.shape, f"{message}: {got.dtype} {tuple(got.shape)}"
    different = bits(got) != bits(want)
    if different.any():
        at = different.nonzero()[0].tolist()
        raise AssertionError(
            f"{message}: {int(different.sum())} of {different.numel()} differ, first at {at}: "
            f"{bits(got)[tuple(at)].item():x} is not {bits(want)[tuple(at)].item():x}"
        )


def to_numpy_bits(tensor: Tensor) -> np.ndarray:
    """The bits of a real tensor, as the unsigned integers of tests.oracle."""
    integers = bits(tensor).numpy()
    return integers.view(f"u{integers.itemsize}")


def from_numpy_bits(array: np.ndarray, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array).view(f"i{array.itemsize}")).view(dtype)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
