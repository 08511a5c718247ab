"""128-bit fingerprints of tensors: dtype, shape and every bit, the same on every device and for every layout.

The definition, and why different bits differ, is in csrc/numerics/fingerprint.h. Hashing reads memory and nothing
else: it records no gradient and is seen by no mode of torch's dispatch or function overrides.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from .. import ops

_ROWS_PER_BUFFER = 4096
_MEMORY_OF_ITS_OWN = Tensor.__torch_dispatch__  # what a class has that does not stand for other tensors, or for none


def fingerprint(x: Tensor) -> str:
    """The 128-bit hash of a tensor's dtype, shape and bits.

    Two tensors have the same fingerprint if they have the same dtype, the same shape and the same bits in row-major
    order: -0 differs from +0, and one NaN from another. Strides, storage offset, device and number of threads do not
    enter. Different tensors agree with probability 2^-128, unless they are constructed to.

    Args:
        x: any strided tensor on a CPU or CUDA device, of any dtype that is not quantised, of any shape. Conjugated and
            negated views count by their values.

    Returns:
        32 hexadecimal digits.

    Raises:
        TypeError: x is not a tensor.
        NotImplementedError: x has no memory to hash in that way: a meta or fake tensor, one of autograd's zero tensors,
            a subclass that stands for other tensors, sparse, nested, quantised, or on another device.

    Cost: one pass over x; waits for a CUDA device, where `Digests` does not.

    Example:
        >>> import torch
        >>> from reprocuda.auditing.fingerprint import fingerprint
        >>> x = torch.arange(6.0).reshape(2, 3)
        >>> fingerprint(x)
        'f3357e41cdf095cd942c2fef8b48abb2'
        >>> fingerprint(x) == fingerprint(x.t().contiguous().t())
        True
        >>> fingerprint(x) == fingerprint(x.flip(0))
        False
    """
    digests = Digests(rows_per_buffer=1)
    digests._append(x, "reprocuda.auditing.fingerprint")
    return digest_text(digests.take()[0])


def digest_text(digest: np.ndarray) -> str:
    """A row of `Digests.take()` as 32 hexadecimal digits."""
    return f"{digest[0]:016x}{digest[1]:016x}"


class Digests:
    """Fingerprints of many tensors, kept on the tensors' devices until they are asked for.

    Args:
        rows_per_buffer: how many fingerprints a buffer holds; a full one is followed by another.

    Example:
        >>> import torch
        >>> from reprocuda.auditing.fingerprint import Digests
        >>> digests = Digests()
        >>> digests.append(torch.zeros(3)), digests.append(-torch.zeros(3)), digests.append(torch.zeros(3))
        (0, 1, 2)
        >>> zeros, negative_zeros, zeros_again = digests.take()
        >>> bool((zeros == zeros_again).all()), bool((zeros == negative_zeros).any())
        (True, False)
    """

    def __init__(self, rows_per_buffer: int = _ROWS_PER_BUFFER) -> None:
        if rows_per_buffer < 1:
            raise ValueError(f"reprocuda.auditing.Digests: rows_per_buffer must be at least 1, got {rows_per_buffer}")
        self._rows_per_buffer = rows_per_buffer
        self._length = 0
        self._shelves: dict[torch.device, _Shelf] = {}

    def __len__(self) -> int:
        return self._length

    def append(self, x: Tensor) -> int:
        """Hashes `x` as it is now, without waiting for its device.

        Args:
            x: as for `fingerprint`.

        Returns:
            The row of `take()` that will hold its digest.

        Raises:
            TypeError, NotImplementedError: as `fingerprint`; nothing is appended then.
        """
        return self._append(x, "reprocuda.auditing.Digests.append")

    def _append(self, x: Tensor, function: str) -> int:
        """`append` in the name of a function."""
        if not isinstance(x, Tensor):
            raise TypeError(f"{function}: x must be a torch.Tensor, got {type(x).__name__}")
        if type(x).__torch_dispatch__ is not _MEMORY_OF_ITS_OWN or x.is_meta or x._is_zerotensor():
            raise NotImplementedError(f"{function}: {_refusal(x)}")
        with torch._C.DisableTorchFunction():
            if torch._C._len_torch_dispatch_stack():
                with torch._C._DisableTorchDispatch():
                    self._hash(x, function)
            else:
                self._hash(x, function)
        self._length += 1
        return self._length - 1

    def _hash(self, x: Tensor, function: str) -> None:
        device = x.device
        shelf = self._shelves.get(device)
        if shelf is None:
            shelf = self._shelves[device] = _Shelf(device, self._rows_per_buffer)
        try:
            shelf.hash(x)
        except NotImplementedError as error:  # from torch's dispatcher
            raise NotImplementedError(f"{function}: {_refusal(x)}") from error
        shelf.rows.append(self._length)

    def take(self) -> np.ndarray:
        """All digests since the last `take`, which are then forgotten. Waits for the devices.

        Returns:
            Array uint64 [rows, 2], a row for each `append`, in their order.
        """
        digests = np.empty((self._length, 2), np.uint64)
        with _unobserved():
            for shelf in self._shelves.values():
                rows, taken = shelf.take()
                digests[rows] = taken
        self._length = 0
        return digests


class _Shelf:
    """The digests of one device."""

    def __init__(self, device: torch.device, rows_per_buffer: int) -> None:
        self.rows: list[int] = []  # of Digests, in the order of the buffers
        self._device = device
        self._rows_per_buffer = rows_per_buffer
        self._buffers: list[Tensor] = []
        self._free = 0  # rows of the last buffer

    def hash(self, x: Tensor) -> None:
        if self._free == 0:
            self._buffers.append(torch.empty(self._rows_per_buffer, 2, dtype=torch.int64, device=self._device))
            self._free = self._rows_per_buffer
        ops.fingerprint_(self._buffers[-1], self._rows_per_buffer - self._free, x)
        self._free -= 1

    def take(self) -> tuple[list[int], np.ndarray]:
        rows, buffers = self.rows, self._buffers
        self.rows, self._buffers = [], buffers[-1:]
        self._free = self._rows_per_buffer if buffers else 0
        parts = [buffer.cpu().numpy().view(np.uint64) for buffer in buffers]
        return rows, np.concatenate(parts)[: len(rows)] if parts else np.empty((0, 2), np.uint64)


@contextmanager
def _unobserved():
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def _refusal(x: Tensor) -> str:
    if type(x).__torch_dispatch__ is not _MEMORY_OF_ITS_OWN:
        what = f"a {type(x).__name__}, which has no memory of its own"
    elif x.is_meta:
        what = "a meta tensor, which has no memory"
    elif x._is_zerotensor():
        what = "one of autograd's zero tensors, which has no memory"
    elif x.is_quantized:
        what = f"quantised ({x.dtype})"
    else:
        what = f"a tensor of layout {x.layout} on {x.device}"
    return f"x must be a strided tensor on a CPU or CUDA device, got {what}"
