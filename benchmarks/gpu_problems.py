"""What CUDA is asked for the CPU's bits about: a problem or more for every operator that has a kernel there."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

import reprocuda
from reprocuda import SegmentPlan, registry, scatter

ops = torch.ops.reprocuda


@dataclass(frozen=True)
class Problem:
    """`run(*inputs)` must give the same bits wherever the inputs lie.

    Attributes:
        operator: its name in the registry.
        variant: which form of it this is.
        algorithms: whether there are several to be forced.
        waits: whether it reads on the host what depends on data, or derives: no graph captures it then.
    """

    operator: str
    variant: str
    run: Callable
    inputs: list[Tensor]
    algorithms: bool = False
    waits: bool = False

    @property
    def name(self) -> str:
        return f"{self.operator}, {self.variant}" if self.variant else self.operator


def values(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Numbers of wide spread whose sums cancel, with a few that are not finite."""
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-9, 9, shape, generator=generator).to(dtype)
    spread = torch.exp2(torch.randint(-12, 4, shape, generator=generator).double())
    numbers = torch.randn(shape, generator=generator, dtype=torch.float64) * spread
    if numbers.numel() > 1_000:
        numbers.view(-1)[::997] = float("inf")
        numbers.view(-1)[1::1993] = float("nan")
    return numbers.to(dtype)


def _gradient(function: Callable) -> Callable:
    """Of run(x, ..., seed): what the seed becomes as a gradient of x."""

    def run(x: Tensor, *rest: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_(True)
        return torch.autograd.grad(function(leaf, *rest[:-1]), leaf, rest[-1])[0]

    return run


def _reductions(dtype: torch.dtype) -> tuple[str, ...]:
    if dtype.is_complex:
        return ("sum", "mean")
    return ("sum", "prod", "amax", "amin") if dtype == torch.bool else ("sum", "mean", "prod", "amax", "amin")


def _by_index(shape: tuple[int, int, int], dtype: torch.dtype) -> Iterator[Problem]:
    """What the algorithms of the sums, products and extremes by index serve."""
    rows, features, segments = shape
    generator = torch.Generator().manual_seed(rows)
    index = torch.randint(segments, (rows,), generator=generator)
    src = values((rows, features), dtype, generator)
    base = values((segments, features), dtype, generator)
    every = torch.randint(segments, (rows, features), generator=generator)

    def problem(operator: str, variant: str, run: Callable, *inputs: Tensor) -> Problem:
        return Problem(operator, variant, run, list(inputs), algorithms=True)

    yield problem("index_add", "", lambda b, i, s: ops.index_add(b, 0, i, s), base, index, src)
    yield problem("scatter_add", "", lambda b, i, s: ops.scatter_add(b, 0, i, s), base, every, src)
    yield problem("index_put", "", lambda b, i, s: ops.index_put(b, [i], [0], s), base, index, src)
    if dtype != torch.bool:
        yield problem("segment_sum", "", lambda i, s: ops.segment_sum(s, *ops.segment_plan(i, segments)), index, src)
    if dtype.is_floating_point:
        yield problem("index_add", "alpha", lambda b, i, s: ops.index_add(b, 0, i, s, 0.1), base, index, src)
        backward = functools.partial(_embedding_backward, segments)
        yield problem("embedding", "backward", functools.partial(backward, False), index, src)
        yield problem("embedding", "backward, by frequency", functools.partial(backward, True), index, src)
    for reduce in _reductions(dtype):
        for own in (False, True):
            variant = f"{reduce}{', with self' * own}"
            reducing = functools.partial(_reducing, reduce, own)
            yield problem("scatter_reduce", variant, functools.partial(reducing, ops.scatter_reduce), base, every, src)
            if reduce == "sum" or dtype.is_complex or dtype == torch.bool:
                continue
            yield problem("index_reduce", variant, functools.partial(reducing, ops.index_reduce), base, index, src)


def _embedding_backward(segments: int, scaled: bool, index: Tensor, grad: Tensor) -> Tensor:
    return ops.embedding_dense_backward(grad, index, segments, 0, scaled)


def _reducing(reduce: str, own: bool, operator: Callable, base: Tensor, index: Tensor, src: Tensor) -> Tensor:
    return operator(base, 0, index, src, reduce, own)


def _others(shape: tuple[int, int, int], dtype: torch.dtype) -> Iterator[Problem]:
    """What has one way on CUDA; whatever the dtype, which `problems` looks at."""
    rows, features, segments = shape
    generator = torch.Generator().manual_seed(rows)
    index = torch.randint(segments, (rows,), generator=generator)
    src = values((rows, features), dtype, generator)
    base = values((segments, features), dtype, generator)
    every = torch.randint(segments, (rows, features), generator=generator)
    table = values((segments, features), dtype, generator)
    flat = torch.randint(segments * features, (rows,), generator=generator)
    inner = torch.randint(rows + 1, (segments - 1,), generator=generator).sort().values
    edges = torch.cat([torch.tensor([0]), inner, torch.tensor([rows])])
    r = reprocuda

    def problem(operator: str, variant: str, run: Callable, *inputs: Tensor, waits: bool = False) -> Problem:
        return Problem(operator, variant, run, list(inputs), waits=waits or variant.endswith("gradient"))

    yield problem("scatter", "", lambda b, i, s: r.scatter(b, 0, i, s), base, every, src)
    yield problem("index_copy", "", lambda b, i, s: r.index_copy(b, 0, i, s), base, index, src)
    yield problem("index_put", "overwriting", lambda b, i, s: r.index_put(b, (i,), s), base, index, src)
    yield problem("index_fill", "", lambda b, i: r.index_fill(b, 0, i, 3), base, index)
    yield problem("masked_scatter", "", r.masked_scatter, base[:1], every % 2 == 0, src)
    if dtype.is_floating_point or dtype.is_complex:
        broadcast = _gradient(r.masked_scatter)
        yield problem("masked_scatter", "gradient", broadcast, base[:1], every % 2 == 0, src, src)
    column = src[:, 0].contiguous()
    yield problem("put", "", r.put, base, flat, column)
    yield problem("put", "accumulating", functools.partial(r.put, accumulate=True), base, flat, column)
    yield problem("take", "gradient", _gradient(r.take), base, flat, column)
    repeats = torch.bincount(index, minlength=segments)
    repeat = _gradient(lambda x, n: r.repeat_interleave(x, n, 0))
    yield problem("repeat_interleave", "gradient", repeat, base, repeats, src)
    yield problem("index_select", "gradient", _gradient(lambda x, i: r.index_select(x, 0, i)), base, index, src)
    yield problem("gather", "gradient", _gradient(lambda x, i: r.gather(x, 0, i)), base, every, src)
    yield problem("take_along_dim", "gradient", _gradient(lambda x, i: r.take_along_dim(x, i, 0)), base, every, src)
    yield problem("index", "gradient", _gradient(lambda x, i: r.index(x, i)), base, index, src)
    yield problem("embedding", "gradient", _gradient(lambda x, i: r.embedding(i, x)), base, index, src)
    offsets = edges[:-1].contiguous()
    for mode in ("sum", "mean", "max"):
        bags = functools.partial(_bags, mode)
        yield problem("embedding_bag", mode, bags, table, index, offsets)
        seeds = values((offsets.shape[0], features), dtype, generator)
        yield problem("embedding_bag", f"{mode}, gradient", _gradient(bags), table, index, offsets, seeds)
    yield problem("embedding_bag", "weights", functools.partial(_bags, "sum"), table, index, offsets, column)

    def coalesce(i: Tensor, s: Tensor) -> Tensor:
        return r.coalesce(torch.sparse_coo_tensor(i[None], s, (segments, features), check_invariants=False)).values()

    yield problem("coalesce", "", coalesce, index, src, waits=True)
    for reduce in ("sum", "mean", "max", "min", "prod"):
        yield problem("segment_reduce", reduce, functools.partial(_segmented, reduce), src, edges, waits=True)
    yield problem("bincount", "", lambda i, w: r.bincount(i, w, segments), index, column, waits=True)
    if dtype in (torch.float32, torch.float64):
        yield problem("histogram", "", lambda s: r.histogram(s.clamp(-9, 9).nan_to_num(), 20), src, waits=True)
        yield problem("histogramdd", "", _histogramdd, src[:, :2], edges[:-1].to(dtype), column, waits=True)
    yield problem("histc", "", lambda s: r.histc(s, 100, -5, 5), src, waits=True)
    for scan in (r.cumsum, r.cumprod, r.logcumsumexp):
        yield problem(scan.__name__, "rows", functools.partial(scan, dim=0), src)
        yield problem(scan.__name__, "columns", functools.partial(scan, dim=1), src)

    def planned(b: Tensor, i: Tensor, s: Tensor) -> Tensor:
        return r.index_add(b, 0, SegmentPlan.from_index(i, segments), s)

    yield problem("index_add", "planned", planned, base, index, src, waits=True)
    if dtype.is_floating_point or dtype.is_complex:  # torch multiplies integers, on the CPU alone
        yield from _sparse_products(index, flat % segments, column, table, base)
    yield from _torch_scatter(src, table, index, edges, segments)


def _sparse_products(rows: Tensor, columns: Tensor, entries: Tensor, dense: Tensor, base: Tensor) -> Iterator[Problem]:
    """Of a square matrix; `dense` and `base` are [its size, features]."""
    inputs = [rows, columns, entries, dense]
    for layout in ("coo", "csr", "csc"):
        multiply = functools.partial(_multiplied, layout)
        yield Problem("sparse_mm", layout, multiply, inputs, waits=True)
        yield Problem("sparse_addmm", layout, multiply, [*inputs, base], waits=True)
        swapped = functools.partial(_multiplied_by, multiply)
        yield Problem("sparse_mm", f"{layout}, gradient", _gradient(swapped), [dense, *inputs[:3], base], waits=True)
    if not dense.is_complex():
        for reduce in ("mean", "amax", "amin"):
            reducing = functools.partial(_multiplied, "csr", reduce=reduce)
            yield Problem("sparse_mm", f"csr, {reduce}", reducing, inputs, waits=True)


def _multiplied(
    layout: str,
    rows: Tensor,
    columns: Tensor,
    entries: Tensor,
    dense: Tensor,
    base: Tensor | None = None,
    reduce: str = "sum",
) -> Tensor:
    size = dense.shape[0]
    matrix = torch.sparse_coo_tensor(torch.stack([rows, columns]), entries, (size, size), check_invariants=False)
    if layout != "coo":
        matrix = reprocuda.coalesce(matrix).to_sparse(layout=getattr(torch, f"sparse_{layout}"))
    if base is not None:
        return reprocuda.sparse_addmm(base, matrix, dense, alpha=0.1)
    return reprocuda.sparse_mm(matrix, dense, reduce)


def _multiplied_by(multiply: Callable, dense: Tensor, *matrix: Tensor) -> Tensor:
    return multiply(*matrix, dense)


def _histogramdd(points: Tensor, rising: Tensor, weight: Tensor) -> Tensor:
    rising = torch.nn.functional.pad(rising, (0, 1), value=float("inf"))
    return reprocuda.histogramdd(points, [rising - 50] * points.shape[1], weight=weight).hist


def _bags(mode: str, table: Tensor, index: Tensor, offsets: Tensor, weights: Tensor | None = None) -> Tensor:
    return reprocuda.embedding_bag(index, table, offsets, mode=mode, per_sample_weights=weights)


def _segmented(reduce: str, src: Tensor, edges: Tensor) -> Tensor:
    return reprocuda.segment_reduce(src, reduce, offsets=edges)


def _torch_scatter(src: Tensor, table: Tensor, index: Tensor, edges: Tensor, size: int) -> Iterator[Problem]:
    ordered = index.sort().values
    for name in [name for name in registry if name.startswith("scatter.")]:
        function = getattr(scatter, name.removeprefix("scatter."))
        if name == "scatter.gather_coo":
            run, inputs = _gradient(function), [table, ordered, src]
        elif name == "scatter.gather_csr":
            run, inputs = _gradient(function), [table, edges, src]
        elif name.endswith("_csr"):
            run, inputs = function, [src, edges]
        elif name.endswith("_coo"):
            run, inputs = (lambda s, i, f=function: f(s, i, dim_size=size)), [src, ordered]
        else:
            run, inputs = (lambda s, i, f=function: f(s, i, dim=0, dim_size=size)), [src, index]
        yield Problem(name, "", run, inputs, waits=True)


def problems(shape: tuple[int, int, int], dtype: torch.dtype) -> Iterator[Problem]:
    """All problems of `dtype`; of shape (rows, features, segments)."""
    yield from _by_index(shape, dtype)
    for problem in _others(shape, dtype):
        takes = dtype.is_floating_point if problem.operator == "bincount" else _takes(problem.operator, dtype)
        if takes:
            yield problem


def _takes(operator: str, dtype: torch.dtype) -> bool:
    return str(dtype).removeprefix("torch.") in registry[operator].dtypes
