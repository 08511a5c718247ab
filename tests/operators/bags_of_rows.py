"""Sums over bags by fractions, and tables whose sums are hard to round."""

import torch

from tests import oracle
from tests.operators.bits import DTYPES, from_numpy_bits, to_numpy_bits

FEATURES = 20


def fractions(table, indices, sizes, name, mean=False, weights=None):
    """[num_bags, features] of one exact sum each."""
    to = torch.repeat_interleave(torch.arange(len(sizes)), sizes).numpy()
    factors = None if weights is None else oracle.to_double(to_numpy_bits(weights), name)
    columns = [
        oracle.exact_segment_sums(
            to_numpy_bits(table[indices, f].contiguous()), to, len(sizes), name, mean=mean, weights=factors
        )
        for f in range(table.shape[1])
    ]
    return torch.stack([from_numpy_bits(column, DTYPES[name]) for column in columns], 1)


def adversarial(rows, dtype, generator):
    """Rows in threes: a number, half of its last place or a little beside, and what decides or takes all of it back."""
    shape = rows // 3, FEATURES
    step = torch.finfo(dtype).eps

    def drawn(*values):
        return torch.tensor(values, dtype=torch.float64)[torch.randint(len(values), shape, generator=generator)]

    head = drawn(1, -1, 1 + step, 2 - step, -3, 0.0, -0.0) * 2.0 ** torch.randint(-30, 31, shape, generator=generator)
    half = head.sign() * 2.0 ** head.abs().clamp(min=2.0**-40).log2().floor() * step / 2
    tiny = drawn(0.0, -0.0, 1, -1) * 2.0**-100
    second = drawn(0.0, 1, 1, 3, -1) * half
    third = torch.where(torch.rand(shape, generator=generator) < 0.3, -head, tiny)
    return torch.stack([head, second, third], 1).reshape(rows, FEATURES).to(dtype)
