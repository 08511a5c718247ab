"""Run by the tests as `torchrun --nproc-per-node 2 torchrun_run.py FOLDER`: DDP on gloo, one history a rank."""

import hashlib
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.utils.data import DistributedSampler, TensorDataset

import reprocuda
from reprocuda.reports import History


def main():
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    reprocuda.reproducible(42, mode="train", rank="auto")
    words = torch.randint(50, (32, 6), generator=torch.Generator().manual_seed(3))
    data = TensorDataset(words)
    sampler = DistributedSampler(data, seed=42)
    batches = reprocuda.data.loader(data, batch_size=4, sampler=sampler)
    with reprocuda.fork_rng(shared=True):
        model = nn.Sequential(nn.Embedding(50, 8), nn.Dropout(0.3), nn.Flatten(), nn.Linear(48, 1))
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    history = History(model)
    order = []
    for _ in range(2):
        for (batch,) in batches:
            order += batch[:, 0].tolist()
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.record(loss)
    joined = b"".join(weight.detach().numpy().tobytes() for weight in model.state_dict().values())
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    (folder / f"order{rank}").write_text(repr(order))
    (folder / f"sha{rank}").write_text(hashlib.sha256(joined).hexdigest())
    (folder / f"drawn{rank}").write_text(repr(torch.rand(1).item()))
    history.save(folder / f"history{rank}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
