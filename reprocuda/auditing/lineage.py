"""What is known of the content of a storage.

A storage that was allocated and written by recorded operators only needs no hash when it is read: its content follows
from theirs. Everything that is known hangs on the storage object itself, which torch keeps as long as the memory lives,
so an address that is used again can never be taken for the storage that was there before.
"""

from __future__ import annotations

import hashlib

import torch

# Where the content of an input comes from. OVERWRITTEN is no input: what was there before, and is not read.
KNOWN, EXTERNAL, LOADER, LOADED, UNWRITTEN, OWN_STATE, OVERWRITTEN = range(7)

# Unwritten memory gets another pattern in each run, small enough for an index and for arithmetic.
_FLOATS = (1.015625, -3.03125, 2.53125, -5.0625)
_INTEGERS = (0, 1, 0, 1)
_INTEGER_TYPES = {
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}


class State:
    """The content of a storage after its last write; `content` is filled in when the digests reach the host."""

    __slots__ = ("base", "content", "geometry", "loader", "origin", "site", "views", "writes", "written")

    def __init__(self, origin: int = KNOWN, site: int = 0):
        self.origin = origin
        self.site = site
        self.content: bytes | None = None
        self.written: State | None = None  # of a write to a part, or in another layout: what was written,
        self.geometry = b""  # where,
        self.base: State | None = None  # and on top of what
        self.loader = False
        self.views: dict | None = None  # of memory that others write too: what was hashed, by geometry
        self.writes = 0

    def combine(self) -> None:
        """Works out the content of a write to a part."""
        base = self.base.content if self.base is not None else b""
        self.content = mix(self.written.content, self.geometry, base)
        self.written = self.base = None


BLANK = State()  # an input whose content does not matter (a view of it is taken)
BLANK.content = bytes(16)


def mix(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def poison(tensor: torch.Tensor, run: int) -> None:
    """Fills uninitialised memory with a pattern, another one in every run."""
    if tensor.numel() == 0 or tensor.is_meta or tensor.layout != torch.strided:
        return
    dtype = tensor.dtype
    if dtype == torch.bool:
        tensor.fill_(bool(_INTEGERS[run % 4]))
    elif dtype.is_floating_point or dtype.is_complex:
        tensor.fill_(_FLOATS[run % 4])
    elif dtype in _INTEGER_TYPES:  # quantised and packed types have no fill
        tensor.fill_(_INTEGERS[run % 4])
