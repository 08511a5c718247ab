"""A small training run with everything that can go wrong in it, resumable; run as a script by the tests.

    python training.py FOLDER [--kill STEP] [--workers N] [--mode MODE]

Prints a SHA-256 of weights, optimiser, losses and the generators' next numbers. With --kill it saves at that step and
dies without cleaning up; a run that finds a checkpoint goes on from there.
"""

import argparse
import hashlib
import os
import random
import signal
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

import reprocuda

EPOCHS = 3


class Augmented(Dataset):
    def __init__(self):
        self.rng = np.random.default_rng()  # of its own, not seeded

    def __len__(self):
        return 26

    def __getitem__(self, index):
        noise = torch.randn(4) * random.random() + np.random.rand() + self.rng.standard_normal()
        return torch.tensor([index % 7, index % 5]), noise


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, tokens, noise):
        return self.layers(self.table(tokens).sum(1) + noise)


def digest(*things):
    found = hashlib.sha256()

    def add(thing):
        if isinstance(thing, torch.Tensor):
            found.update(thing.detach().contiguous().numpy().tobytes())
        elif isinstance(thing, dict):
            for key in sorted(thing, key=str):
                found.update(str(key).encode())
                add(thing[key])
        elif isinstance(thing, (list, tuple)):
            for part in thing:
                add(part)
        else:
            found.update(repr(thing).encode())

    add(things)
    return found.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kill", type=int)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--mode", default="train")
    arguments = parser.parse_args()

    reprocuda.reproducible(7, arguments.mode)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    batches = reprocuda.data.loader(Augmented(), batch_size=4, shuffle=True, num_workers=arguments.workers)
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": batches}

    path, losses = arguments.folder / "run.pt", []
    if path.exists():
        losses = reprocuda.checkpoint.load(path, objects)["losses"]
    for _ in range(batches.epoch, EPOCHS):
        for tokens, noise in batches:
            loss = model(tokens, noise).square().mean() + np.random.rand() * 1e-3 + random.random() * 1e-3
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == arguments.kill:
                reprocuda.checkpoint.save(path, {**objects, "losses": losses})
                os.kill(os.getpid(), signal.SIGKILL)
        scheduler.step()
    state = model.state_dict(), optimizer.state_dict(), scheduler.state_dict()["_last_lr"]
    print(digest(*state, losses, torch.rand(3), np.random.rand(), random.random()))


if __name__ == "__main__":
    main()
