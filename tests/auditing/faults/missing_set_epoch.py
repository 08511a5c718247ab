"""A DistributedSampler whose epoch is never set: every epoch comes in the same order, in every run."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = TensorDataset(torch.randn(64, 4))
sampler = DistributedSampler(dataset, num_replicas=2, rank=0)
loader = DataLoader(dataset, 8, sampler=sampler)

for _ in range(3):
    for (points,) in loader:  # FAULT
        loss = model(points).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
