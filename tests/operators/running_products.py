"""cumprod and logcumsumexp in the order of csrc/numerics/running.h, by NumPy."""

import numpy as np
import reprocuda_numerics as numerics
import torch

import reprocuda
from tests.operators.bits import NAMES, from_numpy_bits

BLOCK, BLOCKS_OF_GROUP = 64, 256
SHAPES = [(1, 1, 1), (3, 63, 1), (1, 64, 1), (9, 65, 1), (2, 130, 3), (1, 700, 1), (11, 200, 2), (2, 1, 5), (1, 90, 17)]
SHAPES += [(90, 4, 25), (3, 64, 32), (3, 64, 33), (20, 7, 3), (2, 33, 16)]  # about as many neighbours as are short
LONG = [(1, 2 * BLOCK * BLOCKS_OF_GROUP + 70, 1), (1, BLOCK * BLOCKS_OF_GROUP, 2), (9, BLOCK * BLOCKS_OF_GROUP + 1, 1)]


def exp(x):
    return numerics.exp(x).view(np.float64).reshape(np.shape(x))


def log(x):
    return numerics.log(x).view(np.float64).reshape(np.shape(x))


class Product:
    """States are arrays of a dtype: [slices]."""

    start = staticmethod(lambda x: x)
    finish = staticmethod(lambda state: state)

    @staticmethod
    def combine(a, b):
        if not np.iscomplexobj(a):
            return a * b
        return pack(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def pack(real, imag):
    result = np.empty(real.shape, np.complex128)
    result.real, result.imag = real, imag
    return result


class LogSumExp:
    """States are pairs: the largest, and the sum of exponentials relative to it."""

    @staticmethod
    def start(x):
        return x, np.ones_like(x)

    @staticmethod
    def combine(a, b):
        second = (b[0] > a[0]) | np.isnan(b[0])
        largest, other = np.where(second, b[0], a[0]), np.where(second, a[0], b[0])
        scale = exp(np.where(other == largest, 0, other - largest))
        return largest, np.where(second, a[1] * scale + b[1], a[1] + b[1] * scale)

    @staticmethod
    def finish(state):
        return state[0] + log(state[1])


def in_order(x, op):
    """The order of csrc/numerics/running.h, for x [outer, length, inner]."""
    length = x.shape[1]
    result = np.empty_like(x)
    before_group = None
    for first_of_group in range(0, length, BLOCK * BLOCKS_OF_GROUP):
        in_group = None
        for first in range(first_of_group, min(length, first_of_group + BLOCK * BLOCKS_OF_GROUP), BLOCK):
            parts = [part for part in (before_group, in_group) if part is not None]
            before = op.combine(*parts) if len(parts) == 2 else parts[0] if parts else None
            own = None
            for i in range(first, min(length, first + BLOCK)):
                element = op.start(x[:, i])
                own = element if own is None else op.combine(own, element)
                result[:, i] = op.finish(own if before is None else op.combine(before, own))
            in_group = own if in_group is None else op.combine(in_group, own)
        before_group = in_group if before_group is None else op.combine(before_group, in_group)
    return result


def reference(name, x):
    """As a tensor like x, whose dtype is rounded to once."""
    with np.errstate(all="ignore"):
        if not (x.is_floating_point() or x.is_complex()):
            return torch.from_numpy(in_order(x.numpy(), Product))
        wide = x.to(torch.complex128 if x.is_complex() else torch.float64).numpy()
        result = in_order(wide, Product if name == "cumprod" else LogSumExp)
    if x.is_complex():
        parts = [rounded(part, x.real.dtype) for part in (result.real, result.imag)]
        return torch.complex(*parts) if x.dtype != torch.complex32 else torch.view_as_complex(torch.stack(parts, -1))
    return rounded(result, x.dtype)


def rounded(values, dtype):
    values = np.ascontiguousarray(values)
    bits = numerics.round_to(values.reshape(-1), NAMES[dtype]).astype(f"u{dtype.itemsize}")
    return from_numpy_bits(bits.reshape(values.shape), dtype)


def numbers(shape, dtype, name="cumprod", special=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(-9, 9, shape, generator=generator).to(dtype) * 2 + 1
    spread = 0.2 if name == "cumprod" else 20.0
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * spread + (name == "cumprod")
    if dtype.is_complex:
        x = torch.complex(x, torch.randn(shape, generator=generator, dtype=torch.float64))
        x = x / x.abs() * (1 + 0.01 * torch.randn(shape, generator=generator, dtype=torch.float64))
    if special:
        values = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e300, 1e-300, -1e-310], dtype=x.dtype)
        where = torch.rand(shape, generator=generator) < 0.03
        x[where] = values[torch.randint(len(values), (int(where.sum()),), generator=generator)]
        if name == "logcumsumexp":
            x[:, :2] = -torch.inf
    return x.to(dtype)


EVERY = {
    "cumprod": [
        *NAMES, torch.complex32, torch.complex64, torch.complex128, torch.uint8, torch.int16, torch.int32, torch.int64,
    ],
    "logcumsumexp": [*NAMES],
}  # fmt: skip
CASES = [(name, dtype) for name, dtypes in EVERY.items() for dtype in dtypes]


def compute(name, x, dim=1):
    return reprocuda.cumprod(x, dim, dtype=x.dtype) if name == "cumprod" else reprocuda.logcumsumexp(x, dim)
