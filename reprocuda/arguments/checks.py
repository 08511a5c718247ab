"""The opt-in check of indices before a kernel sees them.

On the CPU every index is checked anyway. On CUDA an index out of range is found by the kernel, as in torch: a device
assert, after which the process can use the GPU no more. Checking first costs a synchronisation and leaves the context
alive.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..plan import has_data
from .transforms import records, transforms_active


class _Checks:
    on = False


checks = _Checks()


class check_indices:
    """Sets whether indices on CUDA are checked before the kernel runs, for the whole process; off at first.

    A bad index then raises IndexError (torch's class for a tensor with several dimensions may differ) instead of ending
    the process. Each call of a covered operator on CUDA then waits for the device; nothing changes on the CPU.

    Args:
        enabled: whether to check from now on. As a context manager the setting before is restored at the end.

    Example:
        >>> import reprocuda
        >>> with reprocuda.check_indices(True):
        ...     pass  # covered operators on CUDA tensors raise IndexError here
    """

    def __init__(self, enabled: bool = True):
        self._before = checks.on
        checks.on = bool(enabled)

    def __enter__(self) -> check_indices:
        return self

    def __exit__(self, *_) -> None:
        checks.on = self._before


def check_on_device(op: str, index: Tensor, lower: int, upper: int) -> None:
    """Raises IndexError if some entry of a CUDA index lies outside [lower, upper)."""
    if not index.is_cuda:
        return
    raise_if_out_of_range(op, index, lower, upper)


def check_before_writing(
    op: str, index: Tensor, lower: int, upper: int, error: type[Exception] = IndexError, target: str = "size {}"
) -> None:
    """The same on the CPU too, for an operator of torch's that writes before it reports."""
    if not has_data(index) or records() or transforms_active() or index.numel() == 0:
        return
    if index.is_cpu or checks.on:
        lowest, highest = torch.aminmax(index)
        if int(lowest) < lower or int(highest) >= upper:
            raise_if_out_of_range(op, index, lower, upper, error, target)


def raise_if_out_of_range(
    op: str, index: Tensor, lower: int, upper: int, error: type[Exception] = IndexError, target: str = "size {}"
) -> None:
    """
    Args:
        op: the operator, for the message.
        error: the class that torch raises for this operator.
        target: what is indexed, for the message, with {} where `upper` is to stand.
    """
    bad = ((index < lower) | (index >= upper)).flatten()
    if bad.any():
        position = int(bad.to(torch.uint8).argmax())
        value = int(index.flatten()[position])
        raise error(f"{op}(): index {value} is out of bounds for {target.format(upper)}, at position {position}")
