"""The heads of a model are visited in the order of a set of strings."""

import torch
from torch import nn

torch.manual_seed(0)
names = {f"head{number}" for number in range(40)}
heads = nn.ModuleDict({name: nn.Linear(4, 1) for name in sorted(names)})
optimizer = torch.optim.SGD(heads.parameters(), lr=0.1)
points = torch.randn(16, 4)

for _ in range(2):
    total = torch.zeros(16, 1)
    for name in names:  # FAULT
        total = total + heads[name](points)
    loss = total.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
