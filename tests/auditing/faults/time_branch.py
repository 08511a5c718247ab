"""A branch depends on the time: the audited runs are never in the same parity of nanoseconds for long."""

import time

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
points = torch.randn(16, 4)

for _ in range(60):
    loss = model(points).square().mean()
    if time.perf_counter_ns() // 100 % 2:  # FAULT
        loss = loss + 0.01 * model.weight.abs().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
