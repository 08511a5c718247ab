"""torch's rules for `alpha`, and the form in which it crosses the operator schemas."""

from __future__ import annotations

from numbers import Number

import torch

Alpha = bool | int | float | complex

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def python_number(alpha: Alpha | torch.Tensor) -> Alpha:
    """What torch takes for a number: a Python or NumPy number, or a tensor of one element that needs no gradient."""
    if type(alpha) in (int, float, bool, complex):
        return alpha
    if isinstance(alpha, torch.Tensor):
        if alpha.dim() or alpha.requires_grad:
            raise ValueError("alpha must be a number")
        return alpha.item()
    if isinstance(alpha, Number):
        return alpha.item() if hasattr(alpha, "item") else alpha
    raise ValueError("alpha must be a number")


def split_alpha(alpha: Alpha, dtype: torch.dtype) -> tuple[float, float, int]:
    """alpha as (real, imaginary, integer), the compiled operators' last three arguments.

    An integer alpha travels as itself too, so that a float32 result rounds it once and not by way of a double.

    Raises:
        ValueError: torch has to say what this alpha means for this dtype.
    """
    if dtype.is_floating_point:  # the common cases first
        kind = type(alpha)
        if kind is float:
            return alpha, 0.0, 1
        if kind is int and _LOWEST <= alpha <= _HIGHEST:
            return float(alpha), 0.0, alpha
    if alpha == 1:
        return 1.0, 0.0, 1
    if isinstance(alpha, complex) and not dtype.is_complex:
        raise ValueError("alpha is complex, the result is not")
    if dtype.is_floating_point or dtype.is_complex:
        if isinstance(alpha, complex):
            return alpha.real, alpha.imag, 0
        return float(alpha), 0.0, int(alpha) if isinstance(alpha, int) and _LOWEST <= alpha <= _HIGHEST else 0
    if dtype == torch.bool:
        return 1.0, 0.0, int(bool(alpha))
    if alpha != alpha or not -(2.0**63) <= alpha < 2.0**63:
        raise ValueError("alpha does not fit the integer result")
    return 1.0, 0.0, int(alpha)


def conjugate(alpha: Alpha) -> Alpha:
    """The factor of the gradient."""
    return alpha.conjugate() if isinstance(alpha, complex) else alpha
