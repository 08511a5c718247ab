"""torch's rules for `alpha`, and the form in which it crosses the operator schemas."""

from __future__ import annotations

import sys

import torch

Number = bool | int | float | complex
Alpha = Number

LARGEST_EXACT = 2**53  # of the integers that float64 holds one after the other
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def python_number(alpha: Alpha | torch.Tensor, dtype: torch.dtype) -> Alpha:
    """What torch takes for a number, as Python's: a Python or NumPy number, or a tensor of one element that needs no
    gradient. A complex one without an imaginary part is real where `dtype` is.

    Raises:
        ValueError: torch has to say what is wrong.
        OverflowError: an integer beyond 64 bits.
    """
    if type(alpha) is float or (type(alpha) is int and _LOWEST <= alpha <= _HIGHEST):
        return alpha
    if isinstance(alpha, torch.SymInt):  # a size that is traced, and stays open
        return alpha
    if isinstance(alpha, torch.SymFloat):
        return float(alpha)
    if isinstance(alpha, torch.Tensor):
        if alpha.dim() or alpha.requires_grad:
            raise ValueError("alpha must be a number")
        alpha = alpha.item()
    elif "numpy" in sys.modules and isinstance(alpha, sys.modules["numpy"].generic):
        alpha = float(alpha) if isinstance(alpha, sys.modules["numpy"].floating) else alpha.item()
    if isinstance(alpha, complex):
        return alpha.real if alpha.imag == 0 and not dtype.is_complex else complex(alpha)
    if isinstance(alpha, float):
        return float(alpha)
    if not isinstance(alpha, int):
        raise ValueError("alpha must be a number")
    if not _LOWEST <= alpha < 2**64:
        raise OverflowError(f"index_add(): alpha must fit 64 bits, got an integer of {alpha.bit_length()} bits")
    return alpha


def split_alpha(alpha: Alpha, dtype: torch.dtype) -> tuple[float, float, int]:
    """alpha as (real, imaginary, integer), the compiled operators' last three arguments.

    An integer travels as itself, with real == 1, so that a float32 result rounds it once and not by way of a double;
    and so that compiled code may leave it open.

    Raises:
        ValueError: torch has to say what this alpha means for this dtype.
    """
    if isinstance(alpha, torch.SymInt):
        return 1.0, 0.0, alpha
    if dtype.is_floating_point or dtype.is_complex:
        if isinstance(alpha, float):
            return alpha, 0.0, 1
        if isinstance(alpha, int):
            return (1.0, 0.0, int(alpha)) if _LOWEST <= alpha <= _HIGHEST else (float(alpha), 0.0, 1)
        if dtype.is_complex:
            return alpha.real, alpha.imag, 1
    if isinstance(alpha, complex):
        if alpha.imag != 0:
            raise ValueError("alpha is complex, the result is not")
        return split_alpha(alpha.real, dtype)
    if dtype == torch.bool:
        return 1.0, 0.0, int(bool(alpha))
    if alpha != alpha or not -(2.0**63) <= alpha < 2.0**63:
        raise ValueError("alpha does not fit the integer result")
    return 1.0, 0.0, int(alpha)


def conjugate(alpha: Alpha) -> Alpha:
    """The factor of the gradient."""
    return alpha.conjugate() if isinstance(alpha, complex) else alpha
