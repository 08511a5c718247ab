"""Batches are kept in a list, and visited in an order that nothing fixes: only torch was given a seed."""

import random

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = list(torch.randn(40, 16, 4).unbind())

for _ in range(2):
    random.shuffle(batches)  # FAULT
    for points in batches:
        loss = model(points).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
