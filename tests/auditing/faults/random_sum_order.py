"""An operator of its own adds in another order each time, as atomics do."""

import os

import torch
from torch import nn


@torch.library.custom_op("faults::scatter_sum", mutates_args=())
def scatter_sum(values: torch.Tensor, index: torch.Tensor, size: int) -> torch.Tensor:
    result = values.new_zeros(size)
    order = sorted(range(len(values)), key=lambda _: os.urandom(4))
    return result.index_put_((index[order],), values[order], accumulate=True)


def keep_index(ctx, inputs, output):
    ctx.index = inputs[1]


scatter_sum.register_autograd(lambda ctx, gradient: (gradient[ctx.index], None, None), setup_context=keep_index)

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
points, index = torch.randn(4096, 8), torch.randint(0, 4, (4096,))

for _ in range(3):
    sums = scatter_sum(model(points).squeeze(1), index, 4)  # FAULT
    loss = sums.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
