"""The loader shuffles with torch's global generator, which was not seeded."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(0)
model = nn.Linear(4, 1)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 4, generator=generator)), 8, shuffle=True)

for _ in range(2):
    for (points,) in loader:  # FAULT
        loss = model(points).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
