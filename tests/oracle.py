"""The contract, as mathematics: exact sums in Python integers, rounded once.

Nothing here shares code or method with the library. Values come as NumPy arrays: floats, or integers that hold the bits
of `dtype` (the only way to say bfloat16). Results are bit patterns, as unsigned integers, so that -0 and NaN can be
compared.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Format(NamedTuple):
    fraction_bits: int
    exponent_bits: int
    bits: type

    @property
    def unit_exponent(self) -> int:
        """Every finite number is an integer times two to this power."""
        return 2 - (1 << (self.exponent_bits - 1)) - self.fraction_bits

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def sign(self) -> int:
        return 1 << (self.fraction_bits + self.exponent_bits)

    @property
    def nan(self) -> int:
        return self.infinity | (1 << (self.fraction_bits - 1))


FORMATS = {
    "float16": Format(10, 5, np.uint16),
    "bfloat16": Format(7, 8, np.uint16),
    "float32": Format(23, 8, np.uint32),
    "float64": Format(52, 11, np.uint64),
}


def _round_ratio(numerator: int, denominator: int, exponent: int, form: Format) -> int:
    """The bits of numerator / denominator * 2**exponent, to nearest, ties to even; the numerator is not 0."""
    sign = form.sign if numerator < 0 else 0
    numerator = abs(numerator)
    top = numerator.bit_length() - denominator.bit_length()
    if numerator << max(0, -top) < denominator << max(0, top):
        top -= 1
    unit = max(top + exponent - form.fraction_bits, form.unit_exponent)
    shift = exponent - unit
    divisor = denominator << max(0, -shift)
    quotient, rest = divmod(numerator << max(0, shift), divisor)
    quotient += 2 * rest > divisor or (2 * rest == divisor and quotient & 1)
    return min(((unit - form.unit_exponent) << form.fraction_bits) + quotient, form.infinity) | sign


def round_fraction(value: Fraction | int, dtype: str) -> int:
    """The bits of a number rounded once. Zero is +0; a nonzero number that rounds to zero keeps its sign."""
    value = Fraction(value)
    return _round_ratio(value.numerator, value.denominator, 0, FORMATS[dtype]) if value else 0


def to_bits(values, dtype: str | None = None) -> np.ndarray:
    """A float array as its bits; an integer array is taken to hold bits already."""
    values = np.asarray(values)
    return values.view(FORMATS[dtype or str(values.dtype)].bits if values.dtype.kind == "f" else f"u{values.itemsize}")


def to_double(values, dtype: str | None = None) -> np.ndarray:
    """Widens exactly: float arrays as they are, integer arrays as the bits of `dtype`."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    bits = values.view(f"u{values.itemsize}")
    if dtype == "bfloat16":
        bits, dtype = bits.astype(np.uint32) << 16, "float32"
    with np.errstate(invalid="ignore"):  # a signalling NaN is as good as any
        return bits.view(dtype).astype(np.float64)


def fraction_of(bits: int, dtype: str) -> Fraction:
    """The finite number that a bit pattern stands for."""
    form = FORMATS[dtype]
    field, fraction = divmod(int(bits) & (form.sign - 1), 1 << form.fraction_bits)
    significand = fraction if field == 0 else fraction + (1 << form.fraction_bits)
    scale = max(field, 1) - 1 + form.unit_exponent
    size = Fraction(significand << max(scale, 0), 1 << max(-scale, 0))
    return -size if int(bits) & form.sign else size


class _Terms(NamedTuple):
    """Contributions, each an exact integer significand * 2**exponent, or one of the special cases."""

    significand: list[int]
    exponent: np.ndarray
    nan: np.ndarray
    infinite: np.ndarray
    negative: np.ndarray
    negative_zero: np.ndarray


def _decode(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bits = values.view(np.uint64)
    field = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64)
    fraction = (bits & np.uint64((1 << 52) - 1)).astype(np.int64)
    significand = np.where(field > 0, fraction | (1 << 52), fraction)
    # Trailing zeros go into the exponent, to keep the integers of the sums short.
    lowest = np.maximum(significand & -significand, 1)
    trailing = np.frexp(lowest.astype(np.float64))[1] - 1
    finite = field < 0x7FF
    signed = np.where(np.signbit(values), -1, 1) * np.where(finite, significand >> trailing, 0)
    return signed, np.where(finite & (significand != 0), np.maximum(field, 1) - 1075 + trailing, 0)


def _terms(values: np.ndarray, weights: np.ndarray | None) -> _Terms:
    significand, exponent = _decode(values)
    negative = np.signbit(values)
    if weights is None:
        zero = values == 0
        return _Terms(significand.tolist(), exponent, np.isnan(values), np.isinf(values), negative, zero & negative)
    factor, factor_exponent = _decode(weights)
    negative = negative != np.signbit(weights)
    nan = np.isnan(values) | np.isnan(weights)
    nan |= (np.isinf(values) & (weights == 0)) | (np.isinf(weights) & (values == 0))
    infinite = (np.isinf(values) | np.isinf(weights)) & ~nan
    zero = ((values == 0) | (weights == 0)) & ~nan & ~infinite
    product = [a * b for a, b in zip(significand.tolist(), factor.tolist(), strict=True)]
    exponent = np.where(zero | nan | infinite, 0, exponent + factor_exponent)
    return _Terms(product, exponent, nan, infinite, negative, zero & negative)


def exact_segment_sums(
    values,
    index,
    num_targets: int,
    dtype: str | None = None,
    *,
    weights=None,
    initial=None,
    mean: bool = False,
    divisor=None,
) -> np.ndarray:
    """Sums weights[i] * values[i] over all i with index[i] == target, exactly, rounded once to `dtype`.

    Args:
        values: [n] floats, or bits of `dtype`.
        index: [n] targets.
        num_targets: number of outputs.
        dtype: the dtype of the output (and of values that are bits); by default that of `values`.
        weights: [n] or a scalar, exact factors; None multiplies nothing.
        initial: [num_targets], one more contribution (with weight one) to each output; an output without any other
            contribution keeps its bits. None: such an output is +0.
        mean: divide by the number of contributions before rounding.
        divisor: divide by this integer, or these [num_targets] integers, before rounding.

    Returns:
        [num_targets] unsigned integers, the bits of the results.
    """
    dtype = dtype or str(np.asarray(values).dtype)
    form = FORMATS[dtype]
    doubles = np.ascontiguousarray(to_double(values, dtype))
    target = np.asarray(index, dtype=np.int64)
    if weights is not None:
        weights = np.ascontiguousarray(np.broadcast_to(np.asarray(weights, dtype=np.float64), doubles.shape))
    count = np.bincount(target, minlength=num_targets)
    results = np.zeros(num_targets, dtype=form.bits)
    if initial is not None:
        results = to_bits(initial, dtype).astype(form.bits)
        doubles = np.concatenate([doubles, to_double(initial, dtype)])
        target = np.concatenate([target, np.arange(num_targets)])
        if weights is not None:
            weights = np.concatenate([weights, np.ones(num_targets)])
    terms = _terms(doubles, weights)

    def touched(mask: np.ndarray) -> np.ndarray:
        return np.bincount(target[mask], minlength=num_targets) > 0

    positive_infinity = touched(terms.infinite & ~terms.negative)
    negative_infinity = touched(terms.infinite & terms.negative)
    nan = touched(terms.nan) | (positive_infinity & negative_infinity)
    all_negative_zero = ~touched(~terms.negative_zero)

    lowest = np.zeros(num_targets, dtype=np.int64)
    np.minimum.at(lowest, target, terms.exponent)
    totals = [0] * num_targets
    shifts = (terms.exponent - lowest[target]).tolist()
    for output, significand, shift in zip(target.tolist(), terms.significand, shifts, strict=True):
        totals[output] += significand << shift

    divisors = count if mean else np.broadcast_to(np.asarray(1 if divisor is None else divisor), num_targets)
    for output in np.flatnonzero(count).tolist():
        if nan[output]:
            results[output] = form.nan
        elif positive_infinity[output] or negative_infinity[output]:
            results[output] = form.infinity | (form.sign if negative_infinity[output] else 0)
        elif totals[output]:
            results[output] = _round_ratio(totals[output], int(divisors[output]), int(lowest[output]), form)
        else:
            results[output] = form.sign if all_negative_zero[output] else 0
    return results


def exact_reduction(values: list[float], reduce: str, dtype: str) -> int:
    """The bits of the reduction of some numbers, of which there is at least one: sum, mean, prod, amax or amin.

    What fractions do not hold goes by the contract's rules.
    """
    form = FORMATS[dtype]
    if any(map(math.isnan, values)):
        return form.nan
    if reduce in ("amax", "amin"):
        chosen = (max if reduce == "amax" else min)(values, key=lambda value: (value, math.copysign(1, value)))
        sign = form.sign if math.copysign(1, chosen) < 0 else 0
        if math.isinf(chosen):
            return form.infinity | sign
        return round_fraction(Fraction(chosen), dtype) if chosen else sign
    infinite = [value for value in values if math.isinf(value)]
    if reduce == "prod":
        sign = form.sign if sum(math.copysign(1, value) < 0 for value in values) % 2 else 0
        if 0 in values:
            return form.nan if infinite else sign
        return form.infinity | sign if infinite else round_fraction(_product(list(map(Fraction, values))), dtype)
    if infinite:
        return form.nan if len(set(infinite)) == 2 else form.infinity | (form.sign if infinite[0] < 0 else 0)
    total = sum(map(Fraction, values))
    if total == 0:
        return form.sign if all(math.copysign(1, value) < 0 for value in values) else 0
    return round_fraction(total / (len(values) if reduce == "mean" else 1), dtype)


def _product(factors: list[Fraction]) -> Fraction:
    """By halves: products of numbers of like sizes are fast."""
    while len(factors) > 1:
        factors = [math.prod(factors[i : i + 2]) for i in range(0, len(factors), 2)]
    return factors[0]


def exact_segment_reductions(
    values, index, num_targets: int, dtype: str, reduce: str, *, initial=None, include_self: bool = True
) -> np.ndarray:
    """Any reduction by index; arguments and result as in `exact_segment_sums`.

    Without `include_self`, `initial` is only what an output without contributions keeps.
    """
    own = initial if include_self else None
    target = np.asarray(index, dtype=np.int64)
    count = np.bincount(target, minlength=num_targets)
    if reduce in ("sum", "mean"):
        divisor = np.maximum(count + (own is not None), 1) if reduce == "mean" else None
        results = exact_segment_sums(values, target, num_targets, dtype, initial=own, divisor=divisor)
    else:
        groups: list[list[float]] = [[] for _ in range(num_targets)]
        for output, value in zip(target.tolist(), to_double(values, dtype).tolist(), strict=True):
            groups[output].append(value)
        if own is not None:
            for group, value in zip(groups, to_double(own, dtype).tolist(), strict=True):
                group.append(value)
        results = np.zeros(num_targets, FORMATS[dtype].bits)
        for output in np.flatnonzero(count).tolist():
            results[output] = exact_reduction(groups[output], reduce, dtype)
    if initial is not None:
        results[count == 0] = to_bits(initial, dtype)[count == 0]
    return results


def exact_sum(values, weights=None, count=None, dtype: str | None = None) -> int | np.ndarray:
    """The exact sum of weights * values over the last axis, over `count` if given, rounded once to `dtype`.

    Returns:
        One bit pattern for a vector of values, an array of them for a matrix [outputs, terms].
    """
    values = np.asarray(values)
    dtype = dtype or str(values.dtype)
    rows = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
    outputs, terms = rows.shape
    if weights is not None:
        weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), rows.shape).reshape(-1)
    index = np.repeat(np.arange(outputs), terms)
    sums = exact_segment_sums(rows.reshape(-1), index, outputs, dtype, weights=weights, divisor=count)
    return int(sums[0]) if values.ndim == 1 else sums.reshape(values.shape[:-1])
