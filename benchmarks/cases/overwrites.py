"""Plain writes through an index."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.cases.base import DETERMINISTIC, OURS, Case, torch_deterministic
from benchmarks.cases.by_index import ByIndex, Problem
from benchmarks.timing import Contestant


@dataclass(frozen=True)
class Overwriting(ByIndex):
    """Rows, or with `elements` single elements, written over what is there; the last in source order must stand."""

    elements: bool = False

    @property
    def family(self) -> str:
        return "Scatter" if self.elements else "IndexCopy"

    def contestants(self, problem: Problem) -> list[Contestant]:
        rows = problem.index
        spread = rows if self.features == 1 else rows[:, None].repeat(1, self.features)
        ours_ = torch.ops.reprocuda.scatter_ if self.elements else torch.ops.reprocuda.index_copy_
        index = spread if self.elements else rows

        def native(out, src):
            return out.scatter_(0, index, src) if self.elements else out.index_copy_(0, index, src)

        def ours(out, src):
            ours_(out, 0, index, src)
            return out

        def index_put(out, src):
            return out.index_put_((rows,), src)

        def contestant(name: str, run: Callable, keeps_order: bool, scope: Callable | None = None) -> Contestant:
            def judge() -> tuple[str, float | None]:
                positions = torch.arange(self.rows, device=rows.device)
                last = rows.new_full((self.segments,), -1).scatter_reduce(0, rows, positions, "amax")
                wanted = problem.fresh()
                wanted[last >= 0] = problem.src[last[last >= 0]]
                right = (run(problem.fresh(), problem.src) == wanted).double().mean().item()
                wrong = keeps_order and right != 1
                return (f"only {right:.0%} of the outputs are the last in source order" if wrong else "", right)

            def keep(copy: int) -> None:  # what is there costs a write nothing
                pass

            return Contestant(name, keep, lambda copy: run(*problem.copies[copy]), judge, *([scope] if scope else []))

        name = "scatter_" if self.elements else "index_copy_"
        return [
            contestant(name, native, False),
            contestant("index_put_", index_put, False),
            contestant(DETERMINISTIC, native, True, torch_deterministic),
            contestant(OURS, ours, True),
        ]


def cases() -> list[Case]:
    found: list[Case] = []
    for shape in ((1_000_000, 16, 100_000), (200_000, 256, 10_000), (1_000_000, 1, 1_000_000)):
        found.append(Overwriting(*shape, goals={2: {(OURS, "index_copy_"): 1.0}}))
        limit = 1.5 if shape[1] == 1 else 1.0
        found.append(Overwriting(*shape, elements=True, goals={2: {(OURS, "scatter_"): limit}}))
    return found
