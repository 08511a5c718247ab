"""Training stops and resumes; the generator's state was not in the checkpoint, so a new seed is drawn."""

import io

import torch
from torch import nn


def train(model, optimizer, generator, steps):
    for _ in range(steps):
        points = torch.randn(16, 4, generator=generator)  # FAULT
        loss = model(points).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
train(model, optimizer, torch.Generator().manual_seed(1), 2)
checkpoint = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)

checkpoint.seek(0)
state = torch.load(checkpoint)
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
generator = torch.Generator()
generator.seed()
train(model, optimizer, generator, 2)
