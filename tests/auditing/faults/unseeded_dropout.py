"""The weights are set by hand; dropout draws from an unseeded generator."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 8)
        self.dropout = nn.Dropout(0.5)
        with torch.no_grad():
            for parameter in self.layer.parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))

    def forward(self, points):
        return self.dropout(self.layer(points))  # FAULT


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
points = torch.linspace(0, 1, 512).view(16, 32)

for _ in range(3):
    loss = model(points).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
