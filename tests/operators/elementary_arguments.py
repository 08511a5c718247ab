"""Arguments of exp, log and sqrt."""

import torch


def arguments(dtype, count=40_003):
    generator = torch.Generator().manual_seed(1)
    if dtype.itemsize == 2:
        return torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(dtype)  # all there are
    scale = 10.0 ** torch.randint(-9, 4, (count,), generator=generator)
    x = torch.randn(count, generator=generator, dtype=torch.float64) * scale
    special = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-310, 709.8, -745.2, 88.8, -104.0]
    return torch.cat([x, torch.tensor(special, dtype=torch.float64)]).to(dtype)
