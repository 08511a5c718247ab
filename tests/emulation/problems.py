"""Canonical problems for the emulated CUDA backend, with what mathematics says about each.

Arrays hold bits: unsigned integers as wide as an element. An answer is such an array too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import reprocuda_emulation as emulation

from tests import oracle
from tests.numerics import generators

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64", "bool")
ALGORITHMS = ("auto", "rows", "fixed_point", "bins", "small")


def bits_type(dtype: str) -> np.dtype:
    return np.dtype(oracle.FORMATS[dtype].bits if dtype in oracle.FORMATS else f"u{np.dtype(dtype).itemsize}")


def bits_of_doubles(values: np.ndarray, dtype: str) -> np.ndarray:
    """The bits of doubles that are exactly numbers of the dtype."""
    if dtype == "bfloat16":
        with np.errstate(over="ignore"):
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(values.astype(dtype)).view(bits_type(dtype))


def random_bits(rng: np.random.Generator, dtype: str, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """[shape] elements of one kind (see tests/numerics/generators.py); hard sums run down the columns."""
    if dtype == "bool":
        return rng.integers(0, 2, shape, dtype=np.uint8)
    if dtype in INTEGERS:
        return rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8).view(bits_type(dtype))[..., 0]
    rows, columns = shape
    terms = max(rows, 4)  # some kinds need a few
    return bits_of_doubles(generators.KINDS[kind](rng, dtype, (columns, terms))[:, :rows].T, dtype)


UFUNCS = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
BOOL_UFUNCS = {"sum": np.bitwise_or, "prod": np.bitwise_and, "amax": np.bitwise_or, "amin": np.bitwise_and}


def integer_answer(dtype, src, keys, initial, num_outputs, reduce, include_self) -> np.ndarray:
    is_bool = dtype == "bool"
    values = (src != 0).astype(np.uint8) if is_bool else src.view(dtype)
    kept = np.zeros(num_outputs, values.dtype) if initial is None else initial.view(values.dtype)
    own = kept if initial is not None and include_self else None
    count = np.bincount(keys, minlength=num_outputs)
    answer = kept.copy() if own is None else (own != 0).astype(np.uint8) if is_bool else own.copy()
    order = np.argsort(keys, kind="stable")
    if own is None:  # the first of each takes the place of what was there
        first = order[np.unique(keys[order], return_index=True)[1]]
        answer[keys[first]] = values[first]
        rest = np.setdiff1d(order, first)
    else:
        rest = order
    (BOOL_UFUNCS if is_bool else UFUNCS)[reduce].at(answer, keys[rest], values[rest])
    if reduce == "mean":
        members = np.maximum(count + (own is not None), 1)
        answer = np.array([int(a) // int(n) for a, n in zip(answer, members, strict=True)], object).astype(values.dtype)
    answer[count == 0] = kept[count == 0]
    return answer.view(src.dtype)


def exact_answer(
    dtype: str,
    src: np.ndarray,  # [n] bits
    keys: np.ndarray,  # [n] output positions; negative: not a contribution
    initial: np.ndarray | None,  # [num_outputs]
    num_outputs: int,
    *,
    alpha: tuple[float, float, int] | None = None,
    pairs: bool = False,
    reduce: str = "sum",
    include_self: bool = True,
) -> np.ndarray:
    live = keys >= 0
    src, keys = src[live], keys[live]
    if dtype in INTEGERS:
        factor = np.array(1 if alpha is None else alpha[2]).astype(np.int64).astype(src.dtype)
        with np.errstate(over="ignore"):
            return integer_answer(dtype, src * factor, keys, initial, num_outputs, reduce, include_self)
    if alpha is None:
        return oracle.exact_segment_reductions(
            src, keys, num_outputs, dtype, reduce, initial=initial, include_self=include_self
        )
    if not pairs:
        return oracle.exact_segment_sums(src, keys, num_outputs, dtype, weights=alpha[0], initial=initial)
    real, imag, _ = alpha
    odd = keys % 2 == 1  # an imaginary part
    crossed = np.where(odd, keys - 1, keys + 1)
    weights = np.concatenate([np.full(src.size, real), np.where(odd, -imag, imag)])
    src, keys = np.concatenate([src, src]), np.concatenate([keys, crossed])
    return oracle.exact_segment_sums(src, keys, num_outputs, dtype, weights=weights, initial=initial)


@dataclass(frozen=True)
class RowProblem:
    dtype: str
    src: np.ndarray  # [outer, num_rows, inner] bits
    index: np.ndarray  # [num_rows]
    num_targets: int
    initial: np.ndarray | None = None  # `self` [outer, num_targets, inner]
    in_place: bool = False
    alpha: tuple[float, float, int] | None = None  # real, imaginary, integer
    pairs: bool = False
    reduce: str = "sum"
    include_self: bool = True
    ignored_target: int = -1
    planned: str = ""  # "permutation" or "sorted": given a plan instead of an index

    @classmethod
    def random(
        cls, dtype: str, kind: str = "normal", *, rows: int, targets: int, inner: int = 1, outer: int = 1,
        with_initial: bool = True, seed: int = 0, index: np.ndarray | None = None, index_type: type = np.int64,
        **more: Any,
    ) -> RowProblem:  # fmt: skip
        rng = np.random.default_rng([seed, rows, targets, inner, outer, *dtype.encode(), *kind.encode()])
        width = outer * inner
        src = random_bits(rng, dtype, kind, (rows, width)).reshape(rows, outer, inner).swapaxes(0, 1)
        initial = random_bits(rng, dtype, kind, (targets, width)).reshape(targets, outer, inner).swapaxes(0, 1)
        if more.get("alpha") is not None and dtype != "float64":
            real, imag, integer = more["alpha"]
            more["alpha"] = (float(np.float32(real)), float(np.float32(imag)), integer)
        if index is None:
            index = rng.integers(0, targets, rows) if targets else np.zeros(rows)
        return cls(
            dtype, np.ascontiguousarray(src), np.asarray(index, index_type), targets,
            np.ascontiguousarray(initial) if with_initial else None, **more,
        )  # fmt: skip

    def answer(self) -> np.ndarray:
        outer, rows, inner = self.src.shape
        target = np.where(self.index == self.ignored_target, np.iinfo(np.int64).min // 2, self.index.astype(np.int64))
        slab = np.arange(outer)[:, None, None] * self.num_targets
        keys = np.where(target[None, :, None] < 0, -1, (slab + target[None, :, None]) * inner + np.arange(inner))
        keys = np.broadcast_to(keys, (outer, rows, inner)).reshape(-1)
        initial = None if self.initial is None else self.initial.reshape(-1)
        return exact_answer(
            self.dtype, self.src.reshape(-1), keys, initial, outer * self.num_targets * inner,
            alpha=self.alpha, pairs=self.pairs, reduce=self.reduce, include_self=self.include_self,
        )  # fmt: skip

    def run(self, **options: Any) -> np.ndarray:
        outer, rows, inner = self.src.shape
        description = {
            "dtype": self.dtype, "src": self.src, "outer": outer, "num_rows": rows, "inner": inner,
            "num_targets": self.num_targets, "self": self.initial, "in_place": self.in_place, "alpha": self.alpha,
            "complex_pairs": self.pairs, "reduce": self.reduce, "include_self": self.include_self,
            "ignored_target": self.ignored_target, **options,
        }  # fmt: skip
        if self.planned:
            order = np.argsort(self.index, kind="stable")
            counts = np.bincount(self.index, minlength=self.num_targets)
            description["offsets"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            if self.planned == "permutation":
                description["permutation"] = order.astype(np.int64)
            else:
                description["src"] = np.ascontiguousarray(self.src[:, order])
        else:
            description["index"] = self.index
        output, _ = emulation.accumulate_rows(description)
        return output.view(bits_type(self.dtype))


@dataclass(frozen=True)
class ElementProblem:
    """scatter_add along `dim`: src and out may be larger than index in every other dimension."""

    dtype: str
    src: np.ndarray  # bits, any strides
    index: np.ndarray  # fits into src
    out_shape: tuple[int, ...]
    dim: int
    initial: np.ndarray | None = None
    in_place: bool = False
    pairs: bool = False  # the last axis of src and initial, of size 2, is not part of the shape
    reduce: str = "sum"
    include_self: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def random(
        cls, dtype: str, kind: str = "normal", *, shape: tuple[int, ...], out_shape: tuple[int, ...], dim: int,
        with_initial: bool = True, pairs: bool = False, seed: int = 0, index_type: type = np.int64, **more: Any,
    ) -> ElementProblem:  # fmt: skip
        rng = np.random.default_rng([seed, *shape, *out_shape, dim, *dtype.encode(), *kind.encode()])
        parts = (2,) if pairs else ()
        count, out_count = int(np.prod(shape + parts)), int(np.prod(out_shape + parts))
        src = random_bits(rng, dtype, kind, (count, 1)).reshape(shape + parts)
        initial = random_bits(rng, dtype, kind, (out_count, 1)).reshape(out_shape + parts)
        index = rng.integers(0, max(out_shape[dim], 1), shape).astype(index_type)
        return cls(dtype, src, index, out_shape, dim, initial if with_initial else None, pairs=pairs, **more)

    def _out_strides(self) -> list[int]:
        return [int(np.prod(self.out_shape[d + 1 :])) for d in range(len(self.out_shape))]

    def answer(self) -> np.ndarray:
        position = [np.broadcast_to(axis, self.index.shape) for axis in np.ogrid[tuple(map(slice, self.index.shape))]]
        position[self.dim] = self.index.astype(np.int64)
        keys = sum(p * stride for p, stride in zip(position, self._out_strides(), strict=True))
        live = self.src[tuple(map(slice, self.index.shape))]
        if self.pairs:
            keys = np.stack([2 * keys, 2 * keys + 1], axis=-1)
        initial = None if self.initial is None else self.initial.reshape(-1)
        num_outputs = int(np.prod(self.out_shape)) * (2 if self.pairs else 1)
        return exact_answer(
            self.dtype, live.reshape(-1), keys.reshape(-1), initial, num_outputs,
            reduce=self.reduce, include_self=self.include_self,
        )  # fmt: skip

    def run(self, **options: Any) -> np.ndarray:
        item = self.src.itemsize * (2 if self.pairs else 1)
        index = np.ascontiguousarray(self.index)
        output, _ = emulation.accumulate_elements({
            "dtype": self.dtype, "complex_pairs": self.pairs, "ndim": index.ndim, "dim": self.dim,
            "sizes": list(index.shape), "src": np.ascontiguousarray(self.src), "index": index,
            "src_strides": [s // item for s in np.ascontiguousarray(self.src).strides[: index.ndim]],
            "index_strides": [s // index.itemsize for s in index.strides], "out_strides": self._out_strides(),
            "dim_size": self.out_shape[self.dim], "num_out": int(np.prod(self.out_shape)),
            "self": self.initial, "in_place": self.in_place, "reduce": self.reduce, "include_self": self.include_self,
            **self.options, **options,
        })  # fmt: skip
        return output.view(bits_type(self.dtype))


Problem = RowProblem | ElementProblem


def without_initial(problem: Problem) -> Problem:
    return replace(problem, initial=None, in_place=False)


def served_by(problem: Problem, algorithm: str, **options: Any) -> bool:
    """Whether the launcher accepts to solve the problem by this algorithm."""
    try:
        problem.run(algorithm=algorithm, **options)
    except emulation.KernelError:
        raise
    except RuntimeError as refusal:
        assert "cannot serve" in str(refusal)
        return False
    return True


def describe(problem: Problem) -> str:
    shape = "x".join(map(str, problem.src.shape))
    return f"{type(problem).__name__}-{problem.dtype}-{shape}"
