"""What an audit costs: 20 steps of a small transformer, run plainly, recorded, and audited as a whole.

    python -m benchmarks.audit_overhead [--json FILE]

The command's time is that of everything: starting Python and importing torch in all processes, both runs, comparing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reprocuda.reports.terminal import console, print_line, print_table

SCRIPT = """
import os, time
import torch
from torch import nn

torch.set_num_threads(2)
torch.manual_seed(0)
width, vocabulary = 128, 1000
layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
model = nn.Sequential(
    nn.Embedding(vocabulary, width), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
    nn.Linear(width, vocabulary),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
start = time.perf_counter()
for _ in range(STEPS):
    tokens = torch.randint(0, vocabulary, (16, 64))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with open(os.environ["TIMES"], "a") as file:
    file.write(f"{time.perf_counter() - start}\\n")
"""


def timed(command: list[str], times: Path) -> tuple[float, float, list[float], float]:
    """(wall seconds, processor seconds, wall seconds of the training loops, peak MiB of the processes so far)."""
    times.write_text("")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "TIMES": str(times)}, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, processor, [float(line) for line in times.read_text().split()], after.ru_maxrss / 1024


def measure(steps: int, repeats: int) -> dict:
    best: dict = {"steps": steps}
    with tempfile.TemporaryDirectory() as folder:
        script, times = Path(folder) / "train.py", Path(folder) / "times"
        script.write_text(SCRIPT.replace("STEPS", str(steps)))
        audit = [sys.executable, "-m", "reprocuda", "audit", "--keep", f"{folder}/traces", str(script)]
        for _ in range(repeats):
            for name, command in (("plain", [sys.executable, str(script)]), ("audit", audit)):
                wall, processor, loops, peak = timed(command, times)
                found = {"wall_s": wall, "processor_s": processor, "loop_s": min(loops), "peak_mib": peak}
                if name not in best or wall < best[name]["wall_s"]:
                    best[name] = found
        best["trace_mib"] = (Path(folder) / "traces" / "run1.trace").stat().st_size / 2**20
    best["command_ratio"] = best["audit"]["wall_s"] / best["plain"]["wall_s"]
    best["processor_ratio"] = best["audit"]["processor_s"] / best["plain"]["processor_s"]
    best["loop_ratio"] = best["audit"]["loop_s"] / best["plain"]["loop_s"]
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    found = measure(arguments.steps, arguments.repeats)
    plain, audit = found["plain"], found["audit"]

    def row(what: str, of: str, ratio: str) -> tuple[str, ...]:
        return what, f"{plain[of]:.2f} s", f"{audit[of]:.2f} s", f"{found[ratio]:.2f}"

    rows = [
        row("the command (plain: one run; audit: two)", "wall_s", "command_ratio"),
        row("processor time of the command", "processor_s", "processor_ratio"),
        row("the training loop of one run", "loop_s", "loop_ratio"),
        ("largest process so far", f"{plain['peak_mib']:.0f} MiB", f"{audit['peak_mib']:.0f} MiB", ""),
    ]
    title = f"{arguments.steps} steps, best of {arguments.repeats}"
    print_table(console(), title, ("", "plain", "audit", "ratio"), rows, right=("plain", "audit", "ratio"))
    print_line(console(), f"trace: {found['trace_mib']:.1f} MiB a run")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
