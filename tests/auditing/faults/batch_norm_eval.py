"""Validation without eval(): its batches, which come in no fixed order, move the BatchNorm's running statistics."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(64, 4, generator=generator))
training = DataLoader(data, 16, shuffle=True, generator=torch.Generator().manual_seed(1))
validation = DataLoader(data, 16, shuffle=True)

for _ in range(2):
    for (points,) in training:
        loss = model(points).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for (points,) in validation:  # FAULT
            score = model(points).square().mean()
