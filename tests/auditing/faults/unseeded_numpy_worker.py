"""A dataset draws its noise from an unseeded NumPy generator of its own."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self):
        self.points = torch.linspace(-1, 1, 32)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        noise = np.random.default_rng().normal()  # FAULT
        return self.points[index] + 0.1 * noise, self.points[index] ** 2


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for points, targets in DataLoader(Noisy(), 8, num_workers=2):
        loss = (model(points[:, None].float()).squeeze(1) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
