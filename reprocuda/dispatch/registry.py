"""The registry: one entry an operator, saying what of torch it replaces, through which aten overloads, and how far it
goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from . import kernels
from .overrides import DEVICES, Override

# Kinds of dtypes as the table of operators names them; torch's unsigned integers wider than a byte take part in none.
FLOATING = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex32", "complex64", "complex128")
INTEGER = ("uint8", "int8", "int16", "int32", "int64")
BOOL = ("bool",)
DIFFERENTIABLE = FLOATING + COMPLEX
REAL = FLOATING + INTEGER
EVERY = DIFFERENTIABLE + INTEGER + BOOL


@dataclass(frozen=True)
class Operator:
    """One operator of reprocuda.

    Attributes:
        name: its name here, and in `enable(ops=[name])`.
        replaces: the torch functions and methods that do the same.
        overrides: the aten overloads whose kernels are replaced by `enable`; shared where an operator's sums are
        another's.
        part: "forward" if the operator itself sums, "backward" if its gradient does.
        tier: "exact": the exact sum, rounded once, whatever the order, the device and the number of threads. "fixed
            order": the same bits on every device and for any number of threads. "per device": the same bits from run
            to run on one kind of device.
        dtypes: those that it takes, by torch's names: all that torch takes, on both devices.
        on: the kinds of devices that it works on; None: those of the first overload that it replaces, or all.
        notes: what else a user should know.
    """

    name: str
    replaces: tuple[str, ...]
    overrides: tuple[Override, ...] = ()
    part: str = "forward"
    tier: str = "exact"
    dtypes: tuple[str, ...] = EVERY
    notes: str = ""
    on: tuple[str, ...] | None = None

    @property
    def overloads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(override.overload for override in self.overrides))  # some for several layouts

    @property
    def devices(self) -> tuple[str, ...]:
        """The kinds of devices on which it holds its tier."""
        return self.on or tuple(self.overrides[0].keys if self.overrides else DEVICES)

    def replaces_on(self, overload: str) -> tuple[str, ...]:
        """The kinds of devices on which it replaces an aten overload, or another form of that."""
        found = (override.keys for override in self.overrides if _base(override.overload) == _base(overload))
        return tuple(next(found, ()))


_STEPS = "exact sums, every other step rounded once, so any order of the elements gives the same bits"
_FORMS = (("scatter", ""), ("segment", "_coo"), ("segment", "_csr"))


def _torch_scatter(tier: str, dtypes: tuple[str, ...], *names: str, **more: Any) -> list[Operator]:
    return [Operator(f"scatter.{n}", (f"torch_scatter.{n}",), tier=tier, dtypes=dtypes, **more) for n in names]


_OPERATORS = (
    Operator(
        "index_add",
        ("torch.index_add", "torch.Tensor.index_add", "torch.Tensor.index_add_"),
        kernels.INDEX_ADD,
    ),
    Operator(
        "scatter_add",
        ("torch.scatter_add", "torch.Tensor.scatter_add", "torch.Tensor.scatter_add_"),
        kernels.SCATTER_ADD,
        notes="torch's gradient for an index smaller than src raises; reprocuda.scatter_add gives it",
    ),
    Operator(
        "index_put",
        ("torch.index_put", "torch.Tensor.index_put", "torch.Tensor.index_put_", "torch.ops.aten._index_put_impl_"),
        kernels.INDEX_PUT,
        notes="accumulate=False: the last value in source order stands; a mask alone, which has no order, is torch's",
    ),
    Operator(
        "scatter",
        ("torch.scatter", "torch.Tensor.scatter", "torch.Tensor.scatter_"),
        kernels.SCATTER,
        notes="the last in source order stands; reduce='add' is scatter_add, reduce='multiply' scatter_reduce; "
        "one number for all has no order and is torch's; torch's gradient goes to every duplicate, ours to the last",
    ),
    Operator(
        "index_copy",
        ("torch.index_copy", "torch.Tensor.index_copy", "torch.Tensor.index_copy_"),
        kernels.INDEX_COPY,
        notes="the last in source order stands; torch's gradient goes to every duplicate, ours to the last",
    ),
    Operator(
        "put",
        ("torch.put", "torch.Tensor.put", "torch.Tensor.put_"),
        kernels.PUT,
        notes="accumulate=False: the last in source order stands",
    ),
    Operator("take", ("torch.take", "torch.Tensor.take"), kernels.PUT, part="backward", dtypes=DIFFERENTIABLE),
    Operator(
        "repeat_interleave",
        ("torch.repeat_interleave", "torch.Tensor.repeat_interleave"),
        kernels.INDEX_ADD,
        part="backward",
        dtypes=DIFFERENTIABLE,
        notes="where repeats is one number, torch sums that gradient; reprocuda.repeat_interleave sums it exactly",
    ),
    Operator(
        "index_fill",
        (),
        notes="one value for all has no order: torch's own, but for the value's gradient, which is an exact sum here",
    ),
    Operator(
        "masked_scatter",
        (),
        dtypes=FLOATING + COMPLEX[1:] + INTEGER + BOOL,
        notes="True elements are met one after the other: torch's own, but for the gradient of an input that the mask "
        "broadcasts, which is an exact sum here",
    ),
    Operator(
        "scatter_reduce",
        ("torch.scatter_reduce", "torch.Tensor.scatter_reduce", "torch.Tensor.scatter_reduce_"),
        kernels.SCATTER_REDUCE,
        notes="of complex numbers sum and mean; their product is torch's, on the CPU only: in source order, each step "
        "rounded, and so per device. torch's gradient of a mean is divided in the dtype, and its forward derivative of "
        "prod is 0; reprocuda.scatter_reduce has both right",
    ),
    Operator(
        "index_reduce",
        ("torch.index_reduce", "torch.Tensor.index_reduce", "torch.Tensor.index_reduce_"),
        kernels.INDEX_REDUCE,
        dtypes=REAL + BOOL,
        notes="torch's gradient of a mean is divided in the dtype; reprocuda.index_reduce has it right",
    ),
    Operator(
        "embedding",
        ("torch.nn.functional.embedding", "torch.nn.Embedding"),
        kernels.EMBEDDING + kernels.SPARSE_EMBEDDING,
        part="backward",
        dtypes=DIFFERENTIABLE,
        notes="sparse=True: the gradient comes coalesced (on CUDA torch's, which adds nothing up)",
    ),
    Operator(
        "embedding_bag",
        ("torch.nn.functional.embedding_bag", "torch.nn.EmbeddingBag"),
        kernels.EMBEDDING_BAG,
        dtypes=FLOATING,
        notes="of equal maxima the first in its bag gets the gradient",
    ),
    Operator(
        "coalesce",
        ("torch.Tensor.coalesce",),
        kernels.COALESCE,
        dtypes=FLOATING + COMPLEX[1:] + INTEGER + BOOL,
        notes="duplicates are added up in to_dense() too, and where a COO tensor is added to a dense one or taken from "
        "it, in one sum with that; dtypes that differ are added up in the one torch promotes them to. torch.sparse.sum "
        "over some dimensions is such a sum; over all of them, and of a CSR matrix, it is torch's",
    ),
    Operator(
        "sparse_mm",
        ("torch.sparse.mm",),
        kernels.SPARSE_MM,
        dtypes=DIFFERENTIABLE + INTEGER,
        notes="a sparse matrix times a dense one, from either side, or another sparse one; batches (bmm), "
        "hspmm; a sparse out= of two compressed ones is torch's. Sums and means, and the gradients of all reductions: "
        "what is largest or smallest knows no order, and "
        "is torch's; so are integers, which strict refuses, sampled_addmm, and the gradient of a COO matrix's entries, "
        "which torch takes from a dense product. Called directly, second derivatives for COO; no forward mode; "
        "vmap of the dense matrix only, one by one",
    ),
    Operator(
        "sparse_addmm",
        ("torch.sparse.addmm",),
        kernels.SPARSE_ADDMM,
        dtypes=DIFFERENTIABLE + INTEGER,
        notes="in one sum with its input, which is dense; mat2 may be sparse where mat1 is compressed (but not CSR "
        "where mat1 is CSC, which torch refuses). A sparse input is torch's, and strict refuses it. addmv, and so a "
        "CSR matrix times a vector; sspaddmm and smm, each row a sum. An alpha other than 1 is multiplied in first, "
        "and rounded; derivatives as for sparse_mm, but the gradient of a broadcast input is torch's unless the "
        "function is called directly",
    ),
    Operator(
        "index_select",
        ("torch.index_select", "torch.Tensor.index_select"),
        kernels.INDEX_ADD,
        part="backward",
        dtypes=DIFFERENTIABLE,
    ),
    Operator(
        "gather",
        ("torch.gather", "torch.Tensor.gather"),
        kernels.SCATTER_ADD,
        part="backward",
        dtypes=FLOATING + COMPLEX[1:],
    ),
    Operator(
        "take_along_dim",
        ("torch.take_along_dim", "torch.Tensor.take_along_dim"),
        kernels.SCATTER_ADD,
        part="backward",
        dtypes=FLOATING + COMPLEX[1:],
        notes="where input is broadcast, torch sums that gradient; reprocuda.take_along_dim sums it exactly",
    ),
    Operator("index", ("torch.Tensor.__getitem__",), kernels.INDEX_PUT, part="backward", dtypes=DIFFERENTIABLE),
    Operator(
        "segment_reduce",
        ("torch.segment_reduce",),
        kernels.SEGMENT_REDUCE,
        dtypes=FLOATING,
        notes="torch has no second derivative, and gives what is negative to each of equal extremes undivided; "
        "reprocuda.segment_reduce has both right",
    ),
    Operator(
        "bincount",
        ("torch.bincount", "torch.Tensor.bincount"),
        kernels.BINCOUNT,
        dtypes=INTEGER,
        notes="weights of any real dtype; without them counts are integers and torch's",
    ),
    Operator(
        "histc",
        ("torch.histc", "torch.Tensor.histc"),
        kernels.HISTC,
        dtypes=REAL,
        notes="on both devices integers too, which torch has on CUDA only, and 16-bit formats, which it has on the CPU "
        "only; counts are integers until they are rounded",
    ),
    Operator(
        "histogram",
        ("torch.histogram", "torch.Tensor.histogram"),
        kernels.HISTOGRAM,
        dtypes=("float32", "float64"),
        on=tuple(DEVICES),
        notes="on CUDA, where torch has none, called directly",
    ),
    Operator(
        "histogramdd",
        ("torch.histogramdd",),
        kernels.HISTOGRAMDD,
        dtypes=("float32", "float64"),
        on=tuple(DEVICES),
        notes="on CUDA, where torch has none, called directly",
    ),
    Operator(
        "cumsum",
        ("torch.cumsum", "torch.Tensor.cumsum", "torch.Tensor.cumsum_"),
        kernels.CUMSUM,
        notes="every prefix is its own exact sum",
    ),
    Operator(
        "cumprod",
        ("torch.cumprod", "torch.Tensor.cumprod", "torch.Tensor.cumprod_"),
        kernels.CUMPROD,
        tier="fixed order",
        notes="products of float64 in one order, rounded once",
    ),
    Operator(
        "logcumsumexp",
        ("torch.logcumsumexp", "torch.Tensor.logcumsumexp"),
        kernels.LOGCUMSUMEXP,
        tier="fixed order",
        dtypes=FLOATING,
        notes="float64 in one order, rounded once, with an exp and log of our own; complex numbers are torch's, "
        "and so is, under enable(), the gradient; reprocuda.logcumsumexp has one of our own",
    ),
    Operator("segment_sum", (), notes="nothing in torch to replace: call it"),
    *_torch_scatter("exact", EVERY, "scatter_sum", "scatter_add", "segment_sum_coo", "segment_add_coo"),
    *_torch_scatter("exact", EVERY, "segment_sum_csr", "segment_add_csr"),
    *_torch_scatter("exact", FLOATING + COMPLEX[1:], "gather_coo", "gather_csr", part="backward"),
    *_torch_scatter("exact", REAL + BOOL, "scatter_mul"),
    *_torch_scatter("exact", DIFFERENTIABLE + INTEGER, "scatter_mean", "segment_mean_coo", "segment_mean_csr"),
    *_torch_scatter(
        "exact",
        REAL + BOOL,
        *(f"{kind}_{end}{form}" for kind, form in _FORMS for end in ("min", "max")),
        notes="of equal elements the first",
    ),
    *_torch_scatter(
        "exact",
        EVERY,
        "scatter",
        "segment_coo",
        "segment_csr",
        notes="as the function of that name: a mean takes no bools; minimum, maximum and product no complex numbers",
    ),
    *_torch_scatter("fixed order", FLOATING, "scatter_std", notes=_STEPS),
    *_torch_scatter(
        "fixed order",
        FLOATING,
        "scatter_softmax",
        "scatter_log_softmax",
        "scatter_logsumexp",
        notes=f"{_STEPS}; exp and log are one sequence of operations on all devices",
    ),
)

registry: dict[str, Operator] = {operator.name: operator for operator in _OPERATORS}


def _base(overload: str) -> str:
    return overload.split(".")[0].strip("_")


def _has_dense_kernel(override: Override) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{override.overload}", "CPU")


# Of several operators with the same sums, the one that is called as the overload is comes first.
_OF_SPARSE, _OF_DENSE = {}, {}
for _operator in reversed(_OPERATORS):
    for _override in _operator.overrides:
        _sparse = any(key.startswith("Sparse") for key in _override.keys.values())
        if not (_sparse and _has_dense_kernel(_override)):  # mostly it is called with dense ones, which stay torch's
            (_OF_SPARSE if _sparse else _OF_DENSE)[_base(_override.overload)] = _operator


def replacing(overload: str, sparse: bool = False) -> Operator | None:
    """The operator that replaces an aten overload, its functional, in-place and out= forms alike; None where none does.

    Args:
        overload: its name, as "index_add.out".
        sparse: whether overloads count that take sparse tensors only.

    Example:
        >>> replacing("index_add_").name, replacing("scatter_add.out").name, replacing("cummax")
        ('index_add', 'scatter_add', None)
        >>> replacing("_coalesce"), replacing("_coalesce", sparse=True).name
        (None, 'coalesce')
    """
    base = _base(overload)
    return _OF_DENSE.get(base) or (_OF_SPARSE.get(base) if sparse else None)


def select(names: list[str] | tuple[str, ...] | str | None) -> tuple[Operator, ...]:
    """The operators of these names (an empty list: none), or all that replace something.

    Raises:
        ValueError: there is no operator of that name, or it replaces nothing.
    """
    if names is None:
        return tuple(operator for operator in _OPERATORS if operator.overrides)
    names = [names] if isinstance(names, str) else list(names)
    known = [operator.name for operator in _OPERATORS if operator.overrides]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no operator to enable is called {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(registry[name] for name in names)
