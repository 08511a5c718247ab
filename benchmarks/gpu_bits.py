"""Asks CUDA for the CPU's bits: every operator, dtype and algorithm, repeatedly, also from a captured graph."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import torch

from benchmarks.forcing import forced

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
ops = torch.ops.reprocuda


def values(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Numbers of wide spread whose sums cancel, with a few that are not finite."""
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-9, 9, shape, generator=generator).to(dtype)
    spread = torch.exp2(torch.randint(-12, 4, shape, generator=generator).double())
    numbers = torch.randn(shape, generator=generator, dtype=torch.float64) * spread
    if numbers.numel() > 1_000:
        numbers.view(-1)[::997] = float("inf")
        numbers.view(-1)[1::1993] = float("nan")
    return numbers.to(dtype)


def problems(shape: tuple[int, int, int], dtype: torch.dtype) -> Iterator[tuple[str, Callable, list[torch.Tensor]]]:
    """(name, operator, arguments): the operator must give the same bits wherever its tensors lie."""
    rows, features, segments = shape
    generator = torch.Generator().manual_seed(rows)
    index = torch.randint(segments, (rows,), generator=generator)
    src = values((rows, features), dtype, generator)
    base = values((segments, features), dtype, generator)
    every = torch.randint(segments, (rows, features), generator=generator)
    yield "index_add", lambda b, i, s: ops.index_add(b, 0, i, s), [base, index, src]
    yield "scatter_add", lambda b, i, s: ops.scatter_add(b, 0, i, s), [base, every, src]
    yield "index_put", lambda b, i, s: ops.index_put(b, [i], [0], s), [base, index, src]
    if dtype.is_floating_point:
        yield "index_add, alpha", lambda b, i, s: ops.index_add(b, 0, i, s, 0.1), [base, index, src]
        yield (
            "embedding backward",
            lambda i, s: ops.embedding_dense_backward(s, i, segments, 0, True),
            [index, src],
        )
    if dtype != torch.bool:
        yield "cumsum, rows", lambda s: ops.cumsum(s, 0), [src]
        yield "cumsum, columns", lambda s: ops.cumsum(s, 1), [src]
        yield "segment_sum", lambda i, s: ops.segment_sum(s, *ops.segment_plan(i, segments)), [index, src]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    as_bytes = [tensor.cpu().contiguous().view(-1).view(torch.uint8) for tensor in (a, b)]
    return torch.equal(*as_bytes)


def compare(operator: Callable, arguments: list[torch.Tensor], algorithm: str, exact: bool, short: bool) -> str:
    """'same', 'other bits', or 'not served' by this algorithm; `short` runs it once, else repeatedly and as a graph."""
    right = operator(*arguments)
    on_device = [argument.cuda() for argument in arguments]
    with forced(algorithm, "pairs" if exact else "filter"):
        try:
            results = [operator(*on_device) for _ in range(1 if short else 3)]
        except RuntimeError as error:
            if algorithm == "auto":
                raise
            assert "CUDA error" not in str(error), error
            return "not served"
        if not short:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results.append(operator(*on_device))
            graph.replay()
        torch.cuda.synchronize()
    return "same" if all(same_bits(result, right) for result in results) else "other bits"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_bits", description=__doc__)
    parser.add_argument("--short", action="store_true", help="small shapes only, for the sanitizer")
    options = parser.parse_args()
    tally: Counter = Counter()
    for shape in SHORT_SHAPES if options.short else SHAPES:
        for dtype in DTYPES[:1] if options.short else DTYPES:
            for name, operator, arguments in problems(shape, dtype):
                for algorithm in ALGORITHMS:
                    for exact in (False, True):
                        verdict = compare(operator, arguments, algorithm, exact, options.short)
                        tally[verdict] += 1
                        if verdict == "other bits":
                            print(f"OTHER BITS: {name} {shape} {dtype} {algorithm}{' forced exact' * exact}")
    print(", ".join(f"{verdict}: {count}" for verdict, count in sorted(tally.items())))
    return 1 if tally["other bits"] or not tally["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
