"""How far two results lie apart: Vermv and Vc, the measures of the papers on floating-point non-associativity (FPNA,
arXiv 2408.05148), and the largest distance in units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

from ..functional import index_add_

_CHUNK = 1 << 18  # elements compared at a time: the temporaries stay in the cache, and their memory is bounded
_TOP = -(1 << 63)
_PACKED = {getattr(torch, name) for name in ("float4_e2m1fn_x2", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2")}


@dataclass(frozen=True)
class Variability:
    """How far B lies from A. `vermv`, `vc` and `max_ulp` are each 0 if and only if all bits are equal.

    Attributes:
        vermv: the mean of |A - B| / |A| over the elements. Where the formula has no value (A is 0, or A or B is not
            finite) the term is 0 if the bits are equal and 1 if they are not. Never beyond the largest float64.
        vc: the fraction of elements whose bits differ.
        max_ulp: the largest number of steps from a number of the dtype to its neighbour that lead from A to B. -0 and
            +0 are one step apart; infinities and NaNs follow the largest number. For integers, |A - B|.
        elements: how many there are; a complex number counts as two.
        different: how many of them differ.
    """

    vermv: float
    vc: float
    max_ulp: int
    elements: int
    different: int

    @property
    def identical(self) -> bool:
        return self.different == 0

    def __str__(self) -> str:
        if self.identical:
            return f"identical: {self.elements} elements"
        return (
            f"{self.different} of {self.elements} elements differ: Vermv {self.vermv:.3g}, Vc {self.vc:.3g}, "
            f"at most {self.max_ulp} ulp"
        )


@dataclass(frozen=True)
class StateVariability:
    """How far two states lie apart, tensor by tensor.

    Attributes:
        tensors: the `Variability` of each tensor that both have with one shape and dtype; nested names are joined by
            dots.
        total: that of all their elements together.
        unmatched: what cannot be compared element by element, and why: a name that one side lacks, another shape or
            dtype, a value that is no number and differs.
    """

    tensors: dict[str, Variability]
    total: Variability
    unmatched: dict[str, str]

    @property
    def identical(self) -> bool:
        return self.total.identical and not self.unmatched


def variability(a: Any, b: Any) -> Any:
    """Compares two tensors, or two state_dicts, bit by bit and value by value.

    Args:
        a: the reference: a tensor of any shape and dtype but quantised and packed ones, or a mapping, possibly nested
            (a state_dict of a model or an optimizer).
        b: a tensor of the same shape and dtype, on any device, or a mapping.

    Returns:
        `Variability` for tensors, `StateVariability` for mappings. The mean is an exact sum, rounded: it does not
        depend on threads or devices. 0 elements are identical.

    Raises:
        TypeError: a and b are not both tensors or both mappings; tensors of two dtypes, or of one without numbers.
        ValueError: tensors of two shapes.

    Cost: about ten passes over the elements; memory for 2^18 of them at a time, which are copied to a's device if b
    lies on another.

    Example:
        >>> import torch
        >>> found = variability(torch.tensor([1.0, 2.0, 4.0, 0.0]), torch.tensor([1.0, 3.0, 4.0, 0.0]))
        >>> found.vermv, found.vc, found.max_ulp
        (0.125, 0.25, 4194304)
        >>> variability({"w": torch.zeros(2)}, {"w": torch.zeros(2)}).identical
        True
    """
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _total([_compare(a, b)])
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return _compare_states(a, b)
    raise TypeError(
        f"reprocuda.reports.variability: a and b must be two tensors or two mappings, got {_kind(a)} and {_kind(b)}"
    )


def relative_differences(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """|a - b| / |a| in the 2-norm over each row, in float64: one number for a whole weight, at many steps at once.

    Args:
        a: the reference, [rows, elements] of any dtype.
        b: a tensor of the same shape and dtype.

    Returns:
        [rows] float64; 0 if and only if the row's bits are equal. Where the formula has no value, or would be 0 for
        other bits (a is all zeros, something is not finite, only signs of zeros differ): 1.

    Raises:
        ValueError: not two dimensions, or two shapes or dtypes.

    Example:
        >>> import torch
        >>> relative_differences(torch.tensor([[3.0, 4.0], [1.0, 2.0]]), torch.tensor([[3.0, 4.5], [1.0, 2.0]]))
        tensor([0.1000, 0.0000], dtype=torch.float64)
    """
    if a.dim() != 2 or a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(
            f"relative_differences: a and b must be [rows, elements] of one shape and dtype, got {_kind(a)} and "
            f"{_kind(b)}"
        )
    rows = len(a)
    flat_a, flat_b = _components(a), _components(b).to(a.device)
    differs = (_bits(flat_a) != _bits(flat_b)).view(rows, -1).any(1) if a.numel() else torch.zeros(rows) > 0
    result = torch.zeros(rows, dtype=torch.float64)
    chosen = differs.nonzero().flatten()
    if len(chosen):
        x, y = (_as_float(flat).view(rows, -1)[chosen] for flat in (flat_a, flat_b))
        result[chosen.cpu()] = _relative_norms(x, y).cpu()
    return result


def _relative_norms(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """[rows]; x and y: [rows, elements] float64, each row with a difference."""
    largest = torch.maximum(x.abs().amax(1), y.abs().amax(1))
    # Over a power of two, so that no square overflows and no other bit changes.
    scale = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
    scale = torch.where((largest > 0) & largest.isfinite(), scale, 1.0)[:, None]
    x, y = x / scale, y / scale
    row = torch.arange(len(x), device=x.device)[:, None].expand_as(x).flatten()
    distance, size = (
        index_add_(torch.zeros_like(largest), 0, row, square.flatten()).sqrt() for square in ((x - y) ** 2, x**2)
    )
    ratio = distance / size
    return torch.where(largest.isfinite() & ratio.isfinite() & (ratio > 0), ratio, 1.0)


@dataclass(frozen=True)
class _Sums:
    """What is known of some elements; the relative differences' sum as the exact rational it is."""

    relative: Fraction
    different: int
    max_ulp: int
    elements: int


def _total(parts: list[_Sums]) -> Variability:
    elements = sum(part.elements for part in parts)
    different = sum(part.different for part in parts)
    if elements == 0:
        return Variability(0.0, 0.0, 0, 0, 0)
    vermv = float(sum((part.relative for part in parts), Fraction(0)) / elements)
    return Variability(vermv, different / elements, max(part.max_ulp for part in parts), elements, different)


def _compare(a: torch.Tensor, b: torch.Tensor) -> _Sums:
    if a.dtype != b.dtype:
        raise TypeError(f"reprocuda.reports.variability: a and b must have one dtype, got {a.dtype} and {b.dtype}")
    if a.shape != b.shape:
        raise ValueError(
            f"reprocuda.reports.variability: a and b must have one shape, got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    flat_a, flat_b = _components(a), _components(b)
    relative, different, max_ulp = Fraction(0), 0, 0
    for start in range(0, len(flat_a), _CHUNK):
        x = flat_a[start : start + _CHUNK]
        y = flat_b[start : start + _CHUNK].to(x.device)
        differs = _bits(x) != _bits(y)
        count = int(differs.sum())
        if count:
            x, y = x[differs], y[differs]
            different += count
            max_ulp = max(max_ulp, _largest_distance(x, y))
            relative += _exact_sum(_relative_differences(x, y))
    return _Sums(relative, different, max_ulp, len(flat_a))


def _components(tensor: torch.Tensor) -> torch.Tensor:
    """[elements] real numbers in row-major order; a complex one is two."""
    if tensor.is_quantized or tensor.layout != torch.strided or tensor.dtype in _PACKED:
        raise TypeError(
            f"reprocuda.reports.variability: a and b must be strided tensors of numbers, got {_kind(tensor)}"
        )
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype == torch.bool:
        tensor = tensor.view(torch.uint8)
    return tensor.reshape(-1)


def _bits(flat: torch.Tensor) -> torch.Tensor:
    """The bits as signed integers of the same width."""
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return flat.contiguous().view(integers[flat.element_size()])


def _positions(flat: torch.Tensor) -> torch.Tensor:
    """int64 numbers such that neighbours in the dtype differ by one."""
    bits = _bits(flat).long()
    if flat.dtype.is_floating_point and flat.dtype != torch.float8_e8m0fnu:
        # Sign and magnitude to two's complement: -0 comes just below +0.
        return torch.where(bits < 0, -1 - (bits & ((1 << (8 * flat.element_size() - 1)) - 1)), bits)
    if flat.dtype == torch.uint64:
        return bits ^ _TOP
    return flat.long() if not flat.dtype.is_floating_point else flat.view(torch.uint8).long()


def _largest_distance(x: torch.Tensor, y: torch.Tensor) -> int:
    # Signed comparison of numbers meant as unsigned, once the top bit is turned over.
    return int((_magnitude(_positions(x), _positions(y)) ^ _TOP).max()) - _TOP


def _unsigned_to_float(bits: torch.Tensor) -> torch.Tensor:
    """int64 tensors read as unsigned numbers, which torch converts on few devices."""
    return (bits >> 1 & ~_TOP).double() * 2 + (bits & 1).double()


def _magnitude(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """|p - q| modulo 2^64, which is |p - q| when read as unsigned."""
    return torch.where(p > q, p - q, q - p)


def _as_float(flat: torch.Tensor) -> torch.Tensor:
    return _unsigned_to_float(flat.view(torch.int64)) if flat.dtype == torch.uint64 else flat.double()


def _relative_differences(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """|x - y| / |x| in float64 of elements that differ; 1 where that has no value."""
    if x.dtype.is_floating_point:
        a, b = x.double(), y.double()
        half = torch.where((a.abs() > 1) | (b.abs() > 1), 0.5, 1.0)  # the difference of two finite numbers may overflow
        size = (a * half).abs()
        distance = (a * half - b * half).abs()
        defined = (a != 0) & a.isfinite() & b.isfinite()
    else:
        # Float64 does not tell neighbouring 64-bit integers apart, so the difference is taken before.
        p, q = _positions(x), _positions(y)
        size = _as_float(x).abs()
        distance = _unsigned_to_float(_magnitude(p, q))
        defined = size != 0
    ratio = distance / torch.where(defined, size, 1.0)
    return torch.where(defined, ratio, 1.0).clamp(max=torch.finfo(torch.float64).max)


def _exact_sum(terms: torch.Tensor) -> Fraction:
    """Of at most 2^18 float64 terms: exact and rounded once, so that neither threads nor devices show in it."""
    nothing = torch.zeros(1, dtype=torch.float64, device=terms.device)
    everything = torch.zeros(len(terms), dtype=torch.int64, device=terms.device)
    total = index_add_(nothing, 0, everything, terms).item()
    return Fraction(total if math.isfinite(total) else torch.finfo(torch.float64).max)


def _compare_states(a: Mapping, b: Mapping) -> StateVariability:
    left, right = dict(_leaves(a)), dict(_leaves(b))
    parts: dict[str, _Sums] = {}
    unmatched = {}
    for name in [*left, *(name for name in right if name not in left)]:
        if name not in left or name not in right:
            unmatched[name] = "only in A" if name in left else "only in B"
            continue
        x, y = left[name], right[name]
        if not (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)):
            if type(x) is not type(y) or x != y:
                unmatched[name] = f"{_kind(x)} in A, {_kind(y)} in B"
        elif x.shape != y.shape or x.dtype != y.dtype:
            unmatched[name] = f"{_kind(x)} in A, {_kind(y)} in B"
        else:
            parts[name] = _compare(x, y)
    return StateVariability(
        {name: _total([part]) for name, part in parts.items()}, _total(list(parts.values())), unmatched
    )


def _leaves(state: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(state, Mapping):
        children = state.items()
    elif isinstance(state, (list, tuple)):
        children = enumerate(state)
    else:
        if isinstance(state, (bool, int, float, complex)) and (not isinstance(state, int) or abs(state) < 1 << 63):
            state = torch.tensor(state, dtype=torch.float64 if isinstance(state, float) else None)
        yield name, state
        return
    for key, child in children:
        yield from _leaves(child, f"{name}.{key}" if name else str(key))


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {value.dtype} {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
