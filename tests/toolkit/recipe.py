"""The three-step recipe as it is usually pasted, over a model whose sums are ours; run as a script by the tests."""

import hashlib
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import reprocuda

reprocuda.enable()

# 1
seed = 42
random.seed(seed)
os.environ["PYTHONHASHSEED"] = str(seed)
np.random.seed(seed)
torch.manual_seed(seed)
torch.cuda.manual_seed(seed)
torch.cuda.manual_seed_all(seed)

# 2
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.use_deterministic_algorithms(True)


# 3
def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


g = torch.Generator()
g.manual_seed(0)


class Graphs(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        nodes = torch.tensor(np.random.randint(0, 9, 16))
        return nodes, torch.tensor(np.random.randint(0, 16, (2, 40))), torch.tensor([random.random()])


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.bias = nn.Parameter(torch.zeros(9, 8))
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, nodes, edges):
        x = self.table(nodes) + self.bias[nodes]  # backward: embedding_dense_backward, index_put
        source, target = edges
        messages = x.index_select(0, source)  # backward: index_add
        x = x.index_add(0, target, messages)
        x = x.scatter_add(0, target[:, None].expand(-1, 8), messages * 0.1)
        x = x.gather(0, source[:, None].expand(-1, 8))  # backward: scatter_add
        x = torch.take_along_dim(x, target[:, None], 0)  # backward: scatter_add
        histogram = torch.zeros(16).index_put((target,), torch.ones(40), accumulate=True)
        return self.layers(x.mean(0)) + histogram.max()


def main():
    loader = DataLoader(Graphs(), batch_size=None, num_workers=2, worker_init_fn=seed_worker, generator=g, shuffle=True)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for nodes, edges, target in loader:
            loss = (model(nodes, edges) - target).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
