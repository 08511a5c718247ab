"""What replacing an operator costs a call, in microseconds: a program, so that its process has replaced nothing yet."""

import json
import sys
import time

import torch

import reprocuda

CALLS = 2_000
ROUNDS = 15


def microseconds(call) -> float:
    """The fastest of several rounds of many calls: whatever else the machine does can only add to a call this short."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append(1e6 * (time.perf_counter() - start) / CALLS)
    return min(rounds)


def main() -> None:
    torch.set_num_threads(1)
    rows, index, src = torch.zeros(4, 4), torch.tensor([0, 1, 2, 3]), torch.ones(4, 4)
    column, values = torch.zeros(4), torch.ones(4)
    spelled_out = index[:, None].expand(4, 4)
    calls = {
        "scatter_add_": lambda: rows.scatter_add_(0, spelled_out, src),
        "index_add_ of one column": lambda: column.index_add_(0, index, values),
        "index_add_ with alpha": lambda: column.index_add_(0, index, values, alpha=0.5),
        "index_add_ of rows": lambda: rows.index_add_(0, index, src),  # torch's own calls scatter_add_: two when off
    }
    before = {name: microseconds(call) for name, call in calls.items()}
    with reprocuda.enabled():
        on = {name: microseconds(call) for name, call in calls.items()}
    off = {name: microseconds(call) for name, call in calls.items()}
    costs = {name: {"never enabled": before[name], "on": on[name], "off": off[name]} for name in calls}
    json.dump(costs, sys.stdout)


if __name__ == "__main__":
    main()
