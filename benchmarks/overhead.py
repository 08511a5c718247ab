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
    out, index, src = torch.zeros(4, 4), torch.tensor([0, 1, 2, 3]), torch.ones(4, 4)

    def torch_call():
        out.index_add_(0, index, src)

    def torch_call_scaled():
        out.index_add_(0, index, src, alpha=0.5)

    def our_call():
        torch.ops.reprocuda.index_add_(out, 0, index, src)

    untouched = microseconds(torch_call)
    scaled = microseconds(torch_call_scaled)
    ours = microseconds(our_call)
    with reprocuda.enabled():
        enabled = microseconds(torch_call)
        scaled_enabled = microseconds(torch_call_scaled)
    disabled = microseconds(torch_call)
    result = {
        "index_add_, never enabled": untouched,
        "reprocuda's operator called directly": ours,
        "index_add_, enabled": enabled,
        "index_add_, enabled once, now disabled": disabled,
        "cost when on": enabled - untouched,
        "cost when off": disabled - untouched,
        "cost when on, with alpha": scaled_enabled - scaled,
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
