"""Partial sums, one a thread: the result depends on how many there are."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
points = torch.randn(6000, 8)

for _ in range(3):
    errors = model(points).square().flatten()
    loss = sum(part.sum() for part in errors.chunk(torch.get_num_threads())) / len(errors)  # FAULT
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
