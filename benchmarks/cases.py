"""What is measured: one class a family of operators, each with its baselines beside it, and the goals on the CPU."""

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

import reprocuda
from benchmarks.exactness import Sample
from benchmarks.forcing import forced
from benchmarks.timing import Contestant

try:
    import torch_scatter
except ImportError:
    torch_scatter = None

OURS = "reprocuda"
ALL_NAN = "reprocuda, all NaN"
FORCED_EXACT = "reprocuda, all exact fallback"  # entered at its first stage, pairs of doubles
FORCED_WIDE = "reprocuda, all by superaccumulators"  # which is what they cannot prove
PLANNED = "reprocuda, plan reused"
DETERMINISTIC = "native deterministic"
COLD_CACHE_BYTES = 256 * 2**20  # on a GPU, buffers rotate over at least this much memory


@contextmanager
def torch_deterministic():
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@dataclass
class Problem:
    """The tensors of one case: src reduced by index, into an output that starts at `start`."""

    index: torch.Tensor  # [rows]
    src: torch.Tensor  # [rows, features], or [rows] where features is 1
    segments: int
    sample: Sample
    start: float = 0.0
    copies: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)  # (out, src), rotated by the timer

    def fresh(self) -> torch.Tensor:
        return self.src.new_full((self.segments, *self.src.shape[1:]), self.start)

    def nan(self) -> torch.Tensor:
        return torch.full_like(self.src, float("nan"))


def make_problem(case: "Case", device: str) -> Problem:
    generator = torch.Generator().manual_seed(case.rows + case.features)
    dtype = getattr(torch, case.dtype)
    if case.zipf:  # the k-th segment has a share of 1 / k
        weights = 1 / torch.arange(1, case.segments + 1, dtype=torch.float64)
        index = torch.multinomial(weights, case.rows, replacement=True, generator=generator)
        index = torch.randperm(case.segments, generator=generator)[index]
    else:
        index = torch.randint(case.segments, (case.rows,), generator=generator)
    shape = (case.rows,) if case.features == 1 else (case.rows, case.features)
    src = torch.randn(shape, generator=generator).to(dtype)
    start = 0.0
    if case.reduce != "sum":  # near 1, so that products neither overflow nor vanish
        start, src = 1.0, (torch.rand(shape, generator=generator) + 0.5).to(dtype)
    sample = Sample.draw(index, src.reshape(case.rows, -1), case.segments, case.reduce, start)
    problem = Problem(index.to(device), src.to(device), case.segments, sample, start)
    footprint = problem.src.nbytes + problem.fresh().nbytes
    num_copies = 1 + COLD_CACHE_BYTES // footprint if device == "cuda" else 1
    problem.copies = [(problem.fresh(), problem.src.clone()) for _ in range(min(num_copies, 64))]
    return problem


def _short(number: int) -> str:
    """1000000 as 1e6, 256 as 256."""
    scientific = f"{number:.0e}".replace("e+0", "e")
    return scientific if number >= 1000 and int(float(scientific)) == number else str(number)


@dataclass(frozen=True)
class Case(ABC):
    rows: int
    features: int
    segments: int
    zipf: bool = False
    dtype: str = "float32"
    variants: bool = True  # also all-NaN input, every output through the fallback, and a plan that is reused
    goals: dict = field(default_factory=dict)  # threads -> {(contestant, baseline): largest ratio}
    reduce: str = "sum"

    @property
    def family(self) -> str:
        return type(self).__name__

    @property
    def shape(self) -> str:
        return ", ".join(map(_short, (self.rows, self.features, self.segments))) + " Zipf" * self.zipf

    @abstractmethod
    def contestants(self, problem: Problem) -> list[Contestant]:
        """Everyone who solves the problem, the baselines first."""

    def contestant(self, problem: Problem, name: str, run: Callable, *, promise="close", src=None, scope=None):
        """`run(out, src)` does the work once and returns the result; `promise` is what it must hold to be timed."""

        def prepare(copy: int) -> None:
            out, _ = problem.copies[copy]
            out.fill_(problem.start)

        def call(copy: int) -> object:
            out, finite = problem.copies[copy]
            return run(out, finite if src is None else src)

        def judge() -> tuple[str, float | None]:
            result = run(problem.fresh(), problem.src if src is None else src)
            if promise == "nan":
                return ("" if problem.sample.is_nan(result) else "not NaN", None)
            share = problem.sample.share_right(result)
            kept = share == 1.0 if promise == "exact" else problem.sample.is_close(result)
            return ("" if kept else f"only {share:.0%} of the sampled outputs are right", share)

        return Contestant(name, prepare, call, judge, *([scope] if scope else []))


@dataclass(frozen=True)
class IndexAdd(Case):
    """index_add_ along dimension 0; with one feature, beside scatter_add_ too."""

    def contestants(self, problem: Problem) -> list[Contestant]:
        add = functools.partial(self.contestant, problem)
        index = problem.index

        def native(out, src):
            return out.index_add_(0, index, src)

        def ours(out, src):
            torch.ops.reprocuda.index_add_(out, 0, index, src)
            return out

        found = [
            add("index_add_", native),
            add(DETERMINISTIC, native, scope=torch_deterministic),
            add(OURS, ours, promise="exact"),
        ]
        if self.features == 1:
            found.insert(1, add("scatter_add_", lambda out, src: out.scatter_add_(0, index, src)))
        if torch_scatter is not None:
            scatter = torch_scatter.scatter_sum
            found.append(add("torch_scatter", lambda out, src: scatter(src, index, dim=0, dim_size=self.segments)))
        if self.variants:
            permutation, offsets = torch.ops.reprocuda.segment_plan(index, self.segments)

            def planned(out, src):
                torch.ops.reprocuda.index_add_planned_(out, 0, permutation, offsets, src)
                return out

            found += [
                add(PLANNED, planned, promise="exact"),
                add(ALL_NAN, ours, promise="nan", src=problem.nan()),
                add(FORCED_EXACT, ours, promise="exact", scope=functools.partial(forced, stage="pairs")),
                add(FORCED_WIDE, ours, promise="exact", scope=functools.partial(forced, stage="superaccumulators")),
            ]
        return found


@dataclass(frozen=True)
class ScatterAdd(Case):
    """scatter_add_ with an index for every element: the same index in every column, but spelled out."""

    def contestants(self, problem: Problem) -> list[Contestant]:
        index = problem.index if self.features == 1 else problem.index[:, None].repeat(1, self.features)

        def native(out, src):
            return out.scatter_add_(0, index, src)

        def ours(out, src):
            torch.ops.reprocuda.scatter_add_(out, 0, index, src)
            return out

        add = functools.partial(self.contestant, problem)
        return [
            add("scatter_add_", native),
            add(DETERMINISTIC, native, scope=torch_deterministic),
            add(OURS, ours, promise="exact"),
        ]


@dataclass(frozen=True)
class EmbeddingBackward(Case):
    """The dense gradient of an embedding table."""

    def contestants(self, problem: Problem) -> list[Contestant]:
        arguments = (problem.index, self.segments, -1, False)

        def native(_, src):
            grad = src.reshape(self.rows, self.features)
            return torch.ops.aten.embedding_dense_backward(grad, *arguments)

        def ours(_, src):
            grad = src.reshape(self.rows, self.features)
            return torch.ops.reprocuda.embedding_dense_backward(grad, *arguments)

        add = functools.partial(self.contestant, problem)
        return [
            add("embedding_dense_backward", native),
            add(DETERMINISTIC, native, scope=torch_deterministic),
            add(OURS, ours, promise="exact"),
        ]


@dataclass(frozen=True)
class Reducing(Case):
    """Other reductions than the sum, of rows or with `elements` of single elements; self is one more member."""

    elements: bool = False

    @property
    def family(self) -> str:
        return f"{'Scatter' if self.elements else 'Index'}Reduce {self.reduce}"

    def contestants(self, problem: Problem) -> list[Contestant]:
        rows = problem.index
        spread = rows if self.features == 1 else rows[:, None].repeat(1, self.features)
        name = "scatter_reduce_" if self.elements else "index_reduce_"
        index, ours_ = spread if self.elements else rows, getattr(torch.ops.reprocuda, name)

        def native(out, src):
            return getattr(out, name)(0, index, src, self.reduce)

        def ours(out, src):
            ours_(out, 0, index, src, self.reduce)
            return out

        add = functools.partial(self.contestant, problem)
        return [
            add(name, native),
            add(DETERMINISTIC, native, scope=torch_deterministic),
            add(OURS, ours, promise="exact"),
        ]


@dataclass(frozen=True)
class Overwriting(Case):
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


# (rows, features, segments, Zipf) -> the largest ratio to index_add_ with 2 threads, and to scatter_add_ (one feature)
SHAPES = {
    (1_000_000, 16, 100_000, False): (0.4, None),
    (1_000_000, 64, 50_000, False): (0.65, None),
    (200_000, 256, 10_000, False): (0.9, None),
    (100_000, 768, 50_000, True): (0.65, None),
    (1_000_000, 1, 10_000, False): (1.0, 1.0),
    (1_000_000, 1, 1_000_000, False): (2.0, 3.0),
    (10_000_000, 1, 256, False): (1.0, 1.5),
}


def reducing_cases() -> list[Case]:
    cases: list[Case] = []
    shapes = [(1_000_000, 16, 100_000), (200_000, 256, 10_000), (1_000_000, 1, 10_000), (1_000_000, 1, 1_000_000)]
    for reduce, shape, elements in itertools.product(("mean", "prod", "amax", "amin"), shapes, (False, True)):
        name = "scatter_reduce_" if elements else "index_reduce_"
        goals = {2: {(OURS, name): 3.0}}  # and at most 1 on the median case
        for dtype in ("float32", "float64", "bfloat16") if reduce in ("mean", "prod") else ("float32",):
            cases.append(Reducing(*shape, dtype=dtype, goals=goals, reduce=reduce, elements=elements))
    return cases


def all_cases() -> list[Case]:
    cases: list[Case] = []
    for (rows, features, segments, zipf), (goal, scatter_goal) in SHAPES.items():
        goals = {
            2: {(OURS, "index_add_"): goal, (FORCED_EXACT, "index_add_"): 5.0, (ALL_NAN, OURS): 1.5},
            1: {(OURS, "index_add_"): 1.0} if features > 1 else {},
        }
        if scatter_goal:
            goals[2][OURS, "scatter_add_"] = scatter_goal
        shape = (rows, features, segments, zipf)
        cases.append(IndexAdd(*shape, goals=goals))
        cases += [IndexAdd(*shape, dtype=dtype, variants=False) for dtype in ("bfloat16", "float64")]
        cases.append(EmbeddingBackward(*shape, goals={2: {(OURS, "embedding_dense_backward"): 0.4}}))
    cases.append(ScatterAdd(1_000_000, 16, 100_000))
    cases += reducing_cases()
    for shape in ((1_000_000, 16, 100_000), (200_000, 256, 10_000), (1_000_000, 1, 1_000_000)):
        cases.append(Overwriting(*shape, goals={2: {(OURS, "index_copy_"): 1.0}}))
        limit = 1.5 if shape[1] == 1 else 1.0
        cases.append(Overwriting(*shape, elements=True, goals={2: {(OURS, "scatter_"): limit}}))
    return cases


def exists_on(device: str) -> bool:
    return device == "cpu" or (torch.cuda.is_available() and reprocuda.build_info()["cuda_loaded"])
