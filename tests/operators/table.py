"""The table of operators that the tests of values, bits, derivatives and compilation go through.

An entry says how an operator is called, here and in torch, on which inputs, which of them are differentiable, and which
of them list contributions, in dimension 0: those may be shuffled together without a bit of the sum changing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import reprocuda

Inputs = dict[str, Tensor]

TORCH = SimpleNamespace(
    index_add=torch.index_add,
    index_add_=torch.Tensor.index_add_,
    scatter_add=torch.scatter_add,
    scatter_add_=torch.Tensor.scatter_add_,
    scatter_reduce=torch.scatter_reduce,
    scatter_reduce_=torch.Tensor.scatter_reduce_,
    index_reduce=torch.index_reduce,
    index_reduce_=torch.Tensor.index_reduce_,
    index_put=torch.index_put,
    index_put_=torch.Tensor.index_put_,
    gather=torch.gather,
    index_select=torch.index_select,
    take_along_dim=torch.take_along_dim,
    take=torch.take,
    repeat_interleave=torch.repeat_interleave,
    bincount=torch.bincount,
    histc=torch.histc,
    histogram=torch.histogram,
    histogramdd=torch.histogramdd,
    embedding_bag=torch.nn.functional.embedding_bag,
    scatter=torch.scatter,
    scatter_=torch.Tensor.scatter_,
    index_copy=torch.index_copy,
    index_copy_=torch.Tensor.index_copy_,
    index_fill=torch.index_fill,
    masked_scatter=torch.masked_scatter,
    put=lambda x, index, source, accumulate=False: x.put(index, source, accumulate=accumulate),
    put_=lambda x, index, source, accumulate=False: x.put_(index, source, accumulate=accumulate),
    index=lambda tensor, indices: tensor[tuple(indices)],
    embedding=lambda i, w: w[i] if w.is_complex() else torch.nn.functional.embedding(i, w),
    cumsum=torch.cumsum,
    cumprod=torch.cumprod,
    logcumsumexp=torch.logcumsumexp,
    segment_reduce=torch.segment_reduce,
    coalesce=torch.Tensor.coalesce,
    sparse_mm=torch.sparse.mm,
    sparse_addmm=torch.sparse.addmm,
    segment_sum=lambda src, offsets: torch.stack(
        [src[a:b].sum(0) for a, b in zip(offsets.tolist(), offsets.tolist()[1:], strict=False)]
    ),
)


@dataclass(frozen=True)
class Case:
    """
    Attributes:
        operator: its name in the registry.
        variant: what is special about this entry.
        call: the operator from a namespace (reprocuda or TORCH) on inputs by name.
        floats: shapes of the floating inputs, by name, for a number of rows.
        indices: bounds and shapes of the index inputs.
        rows: the inputs with a contribution in each entry of dimension 0; "grad" is the incoming gradient.
        differentiable: the inputs that have a derivative.
        excluded: dtypes that torch does not take: complex numbers, bools.
    """

    operator: str
    variant: str
    call: Callable[..., Tensor]
    floats: Callable[[int], dict[str, tuple[int, ...]]]
    indices: Callable[[int], dict[str, tuple[int, tuple[int, ...]]]]
    rows: tuple[str, ...]
    differentiable: tuple[str, ...]
    excluded: Callable[[torch.dtype], bool] = lambda dtype: False

    @property
    def name(self) -> str:
        return f"{self.operator}-{self.variant}" if self.variant else self.operator

    @property
    def sums_forward(self) -> bool:
        return reprocuda.registry[self.operator].part == "forward"

    def takes(self, dtype: torch.dtype) -> bool:
        return not self.excluded(dtype)

    def inputs(self, num_rows: int = 7, dtype: torch.dtype = torch.float64, seed: int = 0) -> Inputs:
        generator = torch.Generator().manual_seed(seed)
        made: Inputs = {}
        for name, shape in self.floats(num_rows).items():
            made[name] = _values(shape, dtype, generator)
        for name, (bound, shape) in self.indices(num_rows).items():
            made[name] = torch.randint(bound, shape, generator=generator)
        return made

    def run(self, namespace, inputs: Inputs) -> Tensor:
        return self.call(namespace, **{name: tensor for name, tensor in inputs.items() if name != "grad"})

    def sum(self, namespace, inputs: Inputs) -> Tensor:
        """The sum by index that the operator makes: its result, or the gradient of what it reads."""
        if self.sums_forward:
            return self.run(namespace, inputs)
        (name,) = self.differentiable
        leaf = inputs[name].detach().clone().requires_grad_()
        with torch.enable_grad():
            read = self.run(namespace, {**inputs, name: leaf})
        return torch.autograd.grad(read, leaf, inputs["grad"])[0]

    def with_grad(self, inputs: Inputs, dtype: torch.dtype, seed: int = 1) -> Inputs:
        """For a reading operator, the incoming gradient as one more input."""
        if self.sums_forward:
            return inputs
        shape = self.run(TORCH, inputs).shape
        return {**inputs, "grad": _values(shape, dtype, torch.Generator().manual_seed(seed))}

    def shuffled(self, inputs: Inputs, permutation: Tensor) -> Inputs:
        return {name: tensor[permutation] if name in self.rows else tensor for name, tensor in inputs.items()}


def _values(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Values over a few orders of magnitude that cancel in part: plain summation gets many of their sums wrong."""
    if dtype == torch.bool:
        return torch.randint(2, shape, generator=generator).bool()
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-100, 100, shape, generator=generator).to(dtype)
    real = torch.randn(shape, generator=generator, dtype=torch.float64)
    real = real * 10.0 ** torch.randint(-2, 3, shape, generator=generator)
    if dtype.is_complex:
        imaginary = torch.randn(shape, generator=generator, dtype=torch.float64)
        return torch.complex(real, imaginary).to(dtype)
    return real.to(dtype)


def _plan(index: Tensor, num_segments: int, namespace):
    return reprocuda.SegmentPlan.from_index(index, num_segments) if namespace is reprocuda else index


def _segment_sum(ns, src: Tensor) -> Tensor:
    rows = src.shape[0]
    return ns.segment_sum(src, torch.tensor([0, rows // 3, rows // 3, rows]))


def _complex(dtype: torch.dtype) -> bool:
    return dtype.is_complex


def _complex_or_bool(dtype: torch.dtype) -> bool:
    return dtype.is_complex or dtype == torch.bool


TARGETS = 5
CASES = [
    Case(
        "index_add", "",
        lambda ns, x, i, s: ns.index_add(x, 0, i, s),
        lambda n: {"x": (TARGETS, 3), "s": (n, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "index_add", "vector",
        lambda ns, x, i, s: ns.index_add(x, -1, i, s),
        lambda n: {"x": (TARGETS,), "s": (n,)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "index_add", "last-dim-alpha",
        lambda ns, x, i, s: ns.index_add(x, -1, i, s.movedim(0, -1), alpha=-3),
        lambda n: {"x": (2, 3, TARGETS), "s": (n, 2, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "index_add", "in-place",
        lambda ns, x, i, s: ns.index_add_(x.clone(), 0, i, s),
        lambda n: {"x": (TARGETS, 17), "s": (n, 17)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "index_add", "planned",
        lambda ns, x, i, s: ns.index_add(x, 0, _plan(i, TARGETS, ns), s),
        lambda n: {"x": (TARGETS, 3), "s": (n, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "scatter_add", "",
        lambda ns, x, i, s: ns.scatter_add(x, 0, i, s),
        lambda n: {"x": (TARGETS, 3), "s": (n, 3)},
        lambda n: {"i": (TARGETS, (n, 3))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "scatter_add", "vector",
        lambda ns, x, i, s: ns.scatter_add(x, 0, i, s),
        lambda n: {"x": (TARGETS,), "s": (n,)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "scatter_add", "expanded-rows",
        lambda ns, x, i, s: ns.scatter_add(x, 0, i[:, None].expand(-1, 3), s),
        lambda n: {"x": (TARGETS, 3), "s": (n, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "scatter_add", "in-place-dim-1",
        lambda ns, x, i, s: ns.scatter_add_(x.clone(), 1, i.transpose(0, 1), s.transpose(0, 1)),
        lambda n: {"x": (3, TARGETS), "s": (n, 2)},
        lambda n: {"i": (TARGETS, (n, 2))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "index_put", "",
        lambda ns, x, i, s: ns.index_put(x, (i,), s, True),
        lambda n: {"x": (TARGETS, 3), "s": (n, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "index_put", "points",
        lambda ns, x, i, j, s: ns.index_put(x, (i, j - 3), s, True),
        lambda n: {"x": (TARGETS, 3), "s": (n,)},
        lambda n: {"i": (TARGETS, (n,)), "j": (3, (n,))},
        ("i", "j", "s"), ("x", "s"),
    ),
    Case(
        "index_put", "in-place-apart",
        lambda ns, x, i, j, s: ns.index_put_(x.clone(), (i, None, j), s, True)
        if ns is reprocuda
        else torch.ops.aten.index_put_(x.clone(), [i, None, j], s, True),
        lambda n: {"x": (TARGETS, 2, 3), "s": (n, 2)},
        lambda n: {"i": (TARGETS, (n,)), "j": (3, (n,))},
        ("i", "j", "s"), ("x", "s"),
    ),
    *(
        Case(
            "scatter_reduce", f"{reduce}{'' if include_self else '-without-self'}",
            lambda ns, x, i, s, r=reduce, own=include_self: ns.scatter_reduce(x, 0, i, s, r, include_self=own),
            lambda n: {"x": (TARGETS, 3), "s": (n, 3)},
            lambda n: {"i": (TARGETS, (n, 3))},
            ("i", "s"), ("x", "s"), _complex_or_bool if reduce == "mean" else _complex,
        )
        for reduce in ("sum", "mean", "prod", "amax", "amin")
        for include_self in (True, False)
    ),
    Case(
        "scatter_reduce", "vector-mean",
        lambda ns, x, i, s: ns.scatter_reduce(x, 0, i, s, "mean"),
        lambda n: {"x": (TARGETS,), "s": (n,)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"), _complex_or_bool,
    ),
    Case(
        "scatter_reduce", "in-place-dim-1-prod",
        lambda ns, x, i, s: ns.scatter_reduce_(x.clone(), 1, i.transpose(0, 1), s.transpose(0, 1), "prod"),
        lambda n: {"x": (3, TARGETS), "s": (n, 2)},
        lambda n: {"i": (TARGETS, (n, 2))},
        ("i", "s"), ("x", "s"), _complex,
    ),
    *(
        Case(
            "index_reduce", f"{reduce}{'' if include_self else '-without-self'}",
            lambda ns, x, i, s, r=reduce, own=include_self: ns.index_reduce(x, 0, i, s, r, include_self=own),
            lambda n: {"x": (TARGETS, 3), "s": (n, 3)},
            lambda n: {"i": (TARGETS, (n,))},
            ("i", "s"), ("x", "s"), _complex_or_bool,
        )
        for reduce in ("mean", "prod", "amax", "amin")
        for include_self in (True, False)
    ),
    Case(
        "index_reduce", "in-place-wide-mean",
        lambda ns, x, i, s: ns.index_reduce_(x.clone(), 0, i, s, "mean"),
        lambda n: {"x": (TARGETS, 17), "s": (n, 17)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "s"), ("x", "s"), _complex_or_bool,
    ),
    Case(
        "put", "accumulate",
        lambda ns, x, i, s: ns.put(x, i - 15, s, True),
        lambda n: {"x": (TARGETS, 3), "s": (n,)},
        lambda n: {"i": (15, (n,))},
        ("i", "s"), ("x", "s"),
    ),
    Case(
        "gather", "",
        lambda ns, x, i: ns.gather(x, 0, i),
        lambda n: {"x": (TARGETS, 3)},
        lambda n: {"i": (TARGETS, (n, 3))},
        ("i", "grad"), ("x",),
    ),
    Case(
        "index_select", "",
        lambda ns, x, i: ns.index_select(x, 0, i),
        lambda n: {"x": (TARGETS, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "grad"), ("x",),
    ),
    Case(
        "index_select", "planned",
        lambda ns, x, i: ns.index_select(x, 0, _plan(i, TARGETS, ns)),
        lambda n: {"x": (TARGETS, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "grad"), ("x",),
    ),
    Case(
        "take_along_dim", "broadcast",
        lambda ns, x, i: ns.take_along_dim(x, i, 0),
        lambda n: {"x": (TARGETS, 1)},
        lambda n: {"i": (TARGETS, (n, 3))},
        ("i", "grad"), ("x",),
    ),
    Case(
        "take", "",
        lambda ns, x, i: ns.take(x, i - 15),
        lambda n: {"x": (TARGETS, 3)},
        lambda n: {"i": (15, (n, 2))},
        ("i", "grad"), ("x",),
    ),
    Case(
        "repeat_interleave", "",
        lambda ns, x, i: ns.repeat_interleave(x, i.new_tensor([1, 0, len(i), 2, 3]), 0),
        lambda n: {"x": (TARGETS, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        (), ("x",),
    ),
    Case(
        "index", "",
        lambda ns, x, i, j: ns.index(x, (i, j)),
        lambda n: {"x": (TARGETS, 3, 2)},
        lambda n: {"i": (TARGETS, (n,)), "j": (3, (n,))},
        ("i", "j", "grad"), ("x",),
    ),
    Case(
        "embedding", "",
        lambda ns, x, i: ns.embedding(i, x),
        lambda n: {"x": (TARGETS, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "grad"), ("x",),
    ),
    Case(
        "embedding", "planned",
        lambda ns, x, i: ns.embedding(_plan(i, TARGETS, ns), x),
        lambda n: {"x": (TARGETS, 3)},
        lambda n: {"i": (TARGETS, (n,))},
        ("i", "grad"), ("x",),
    ),
    Case(
        "segment_sum", "offsets",
        _segment_sum,
        lambda n: {"src": (n, 3)},
        lambda n: {},
        (), ("src",),
    ),
]  # fmt: skip


def each_with(
    cases: list[Case], dtypes: list[torch.dtype], also: Callable[[Case, torch.dtype], bool] = lambda case, dtype: True
):
    """Parametrizes a test of `case` and `dtype` by all pairs that go together."""
    pairs = [(case, dtype) for dtype in dtypes for case in cases if case.takes(dtype) and also(case, dtype)]
    return pytest.mark.parametrize(("case", "dtype"), pairs, ids=[f"{case.name}-{dtype}" for case, dtype in pairs])
