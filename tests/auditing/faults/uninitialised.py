"""Padding is allocated and never written."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for length in (5, 7, 6):
    padded = torch.empty(8, 8)  # FAULT
    padded[:length] = torch.randn(length, 8)
    loss = model(padded).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
