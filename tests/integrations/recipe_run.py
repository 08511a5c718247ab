"""Run by the tests: the usual three-step recipe, pasted as people paste it, under reprocuda.enable().

python recipe_run.py FOLDER
"""

import hashlib
import json
import os
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import reprocuda

reprocuda.enable()

# 1: every seed
seed = 42
random.seed(seed)
os.environ["PYTHONHASHSEED"] = str(seed)
np.random.seed(seed)
torch.manual_seed(seed)
torch.cuda.manual_seed_all(seed)

# 2: deterministic algorithms
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.use_deterministic_algorithms(True)


# 3: a loader whose workers are seeded
def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        noise = random.random() + np.random.rand() + torch.rand(()).item()
        return torch.tensor([i % 7, i % 5, 3]), torch.tensor(noise, dtype=torch.float32)


def main():
    generator = torch.Generator().manual_seed(0)
    batches = DataLoader(
        Noisy(), batch_size=4, shuffle=True, num_workers=2, worker_init_fn=seed_worker, generator=generator
    )
    table = torch.nn.Embedding(7, 4)
    optimizer = torch.optim.SGD(table.parameters(), 0.1)
    for _ in range(2):
        for words, noise in batches:
            rows = torch.nn.functional.dropout(table(words.flatten()), 0.2)
            index = words.flatten() % 3
            total = torch.zeros(3, 4).index_add(0, index, rows)
            total = total.scatter_add(0, index[:, None].expand(-1, 4), rows)
            total = total.index_put((index,), rows, accumulate=True)
            read = total[index] + total.index_select(0, index) + total.gather(0, index[:, None].expand(-1, 4))
            read = read + torch.take_along_dim(total, index[:, None], 0)
            loss = (read.sum(1) * noise.repeat_interleave(3)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(json.dumps({"sha": hashlib.sha256(table.weight.detach().numpy().tobytes()).hexdigest()}))


if __name__ == "__main__":
    main()
