"""Asks CUDA for the CPU's bits: every operator, dtype and algorithm, repeatedly, also from a captured graph."""

import argparse
import sys
from collections import Counter

import torch

from benchmarks.forcing import forced
from benchmarks.gpu_problems import Problem, problems

ALGORITHMS = ("auto", "rows", "bins", "fixed_point", "small")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.int64, torch.bool)
SHAPES = (  # rows, features, segments
    (1, 1, 1),
    (300, 5, 7),
    (3_000, 64, 100),
    (20_000, 1, 5),
    (20_000, 130, 1_000),
    (200_000, 1, 50_000),
)
SHORT_SHAPES = SHAPES[1:3]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    as_bytes = [tensor.cpu().contiguous().view(-1).view(torch.uint8) for tensor in (a, b)]
    return torch.equal(*as_bytes)


def tensors_of(result: torch.Tensor | tuple) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def compare(
    problem: Problem, right: list[torch.Tensor], algorithm: str, exact: bool, short: bool, device: str = "cuda"
) -> str:
    """'same', 'other bits', or 'not served' by this algorithm; `short` runs it once, else repeatedly and as a graph."""
    inputs = [tensor.to(device) for tensor in problem.inputs]
    with forced(algorithm, "pairs" if exact else "filter"):
        try:
            results = [problem.run(*inputs) for _ in range(1 if short else 3)]
        except RuntimeError as error:
            if algorithm == "auto":
                raise
            assert "CUDA error" not in str(error), error
            return "not served"
        if not short and not problem.waits:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results.append(problem.run(*inputs))
            graph.replay()
        if device == "cuda":
            torch.cuda.synchronize()
    same = all(same_bits(a, b) for result in results for a, b in zip(tensors_of(result), right, strict=True))
    return "same" if same else "other bits"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_bits", description=__doc__)
    parser.add_argument("--short", action="store_true", help="small shapes only, for the sanitizer")
    options = parser.parse_args()
    tally: Counter = Counter()
    for shape in SHORT_SHAPES if options.short else SHAPES:
        for dtype in DTYPES[:1] if options.short else DTYPES:
            for problem in problems(shape, dtype):
                right = tensors_of(problem.run(*problem.inputs))
                for algorithm in ALGORITHMS if problem.algorithms else ALGORITHMS[:1]:
                    for exact in (False, True):
                        verdict = compare(problem, right, algorithm, exact, options.short)
                        tally[verdict] += 1
                        if verdict == "other bits":
                            print(f"OTHER BITS: {problem.name} {shape} {dtype} {algorithm}{' forced exact' * exact}")
    print(", ".join(f"{verdict}: {count}" for verdict, count in sorted(tally.items())))
    return 1 if tally["other bits"] or not tally["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
