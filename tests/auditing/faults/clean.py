"""Everything seeded; every way of making memory and writing all of it: nothing here may be called different."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)

model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
features = torch.empty(48, 8).normal_()
targets = torch.from_numpy(np.random.randint(0, 3, 48))
loader = DataLoader(TensorDataset(features, targets), 16, shuffle=True)
history = torch.empty(12)  # written piece by piece, and read only where it was written
scratch = torch.empty(16, 8)
chunks = list(features.split(12))

for _ in range(2):
    random.shuffle(chunks)  # seeded
    scale = sum(0.5**place * chunk.mean() for place, chunk in enumerate(chunks))
    for inputs, labels in loader:
        scratch.copy_(inputs)
        noise = torch.empty_like(scratch).uniform_(-0.1, 0.1)
        torch.add(scratch, noise * scale, out=scratch)
        loss = nn.functional.cross_entropy(model(scratch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step = int(optimizer.state[model[0].weight]["step"]) - 1
        history[step] = loss.detach() * random.random()
        mean = history[: step + 1].mean()
        masked = torch.where(torch.arange(12) <= step, history, 0.0).sum()

model.eval()
with torch.no_grad():
    accuracy = (model(features).argmax(1) == targets).float().mean()
