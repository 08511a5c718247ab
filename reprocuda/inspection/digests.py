"""SHA-256 over values: of their bits, types and shapes, never of pickles, addresses or the order of a dict."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

_CHUNK = 1 << 20
_LISTED_FILES = 1000


def tensor_digest(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's dtype, shape and bits in row-major order, on whatever device and with whatever strides.

    A distributed tensor is hashed by this rank's part of it.

    Raises:
        TypeError: a tensor without bits of its own: quantised, nested or on the meta device.
    """
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_quantized or tensor.is_nested or tensor.is_meta:
        kind = "quantised" if tensor.is_quantized else "nested" if tensor.is_nested else "meta"
        raise TypeError(f"tensor_digest: tensor is {kind}, of {tensor.dtype}; expected one with bits of its own")
    if tensor._is_zerotensor():
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    found = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} {tensor.layout}".encode())
    for part in parts_of(tensor.coalesce() if tensor.layout == torch.sparse_coo else tensor):
        dense = part.resolve_conj().resolve_neg().cpu().contiguous()
        flat = dense.as_strided((dense.numel(),), (1,))  # one element alone may have kept another stride
        found.update(memoryview(flat.view(torch.uint8).numpy()))
    return found.hexdigest()


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The plain tensors that hold the bits of a tensor of any layout; none where there are no bits.

    A meta tensor has none, nor has one of autograd's zero tensors. A sparse COO tensor's are given as they are, in
    whatever order and with duplicates.
    """
    if tensor.is_meta or tensor._is_zerotensor():
        return []
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if tensor.is_mkldnn:
        return [tensor.to_dense()]
    if tensor.is_quantized:
        return [tensor.int_repr()]
    return [tensor]


def digest(value: Any) -> str:
    """SHA-256 of a nest of plain values, tensors and arrays.

    Args:
        value: None, bool, int, float, complex, str, bytes, path, dtype, device, tensor, array, or a dict, list, tuple,
            set or deque of these. Dicts and sets are taken in the sorted order of their keys.

    Raises:
        TypeError: anything else, whose text or pickle need not be the same in another process.
    """
    found = hashlib.sha256()
    for piece in _pieces(value):
        found.update(len(piece).to_bytes(8, "little"))
        found.update(piece)
    return found.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, torch.Tensor):
        yield b"tensor"
        yield tensor_digest(value).encode()
    elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        array = np.asarray(value)
        yield f"array {array.dtype.newbyteorder('<').str} {array.shape}".encode()
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        yield np.ascontiguousarray(little).tobytes()
    elif isinstance(value, Mapping):
        yield b"mapping %d" % len(value)
        for key in sorted(value, key=lambda key: (type(key).__name__, repr(key))):
            yield from _pieces(key)
            yield from _pieces(value[key])
    elif isinstance(value, (set, frozenset)):
        yield b"set %d" % len(value)
        yield from (digest(element).encode() for element in sorted(value, key=digest))
    elif isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        yield b"sequence %d" % len(value)
        for element in value:
            yield from _pieces(element)
    elif isinstance(value, (bytes, bytearray)):
        yield b"bytes"
        yield bytes(value)
    elif value is None or isinstance(value, (bool, int, float, complex, str, torch.dtype, torch.device)):
        yield type(value).__name__.encode()
        yield repr(value).encode()
    elif isinstance(value, os.PathLike):
        yield b"path"
        yield os.fsencode(value)
    else:
        raise TypeError(f"digest: value is of type {type(value).__name__}; expected plain values, tensors and arrays")


def state_digest(state: Mapping[str, Any]) -> dict[str, Any]:
    """The digest of a state_dict: one for each entry and one of all, whatever the order of the entries.

    Returns:
        {"sha256", "elements": how many numbers the tensors hold, "entries": {key: SHA-256}}.
    """
    entries = {str(key): digest(state[key]) for key in sorted(state, key=str)}
    elements = sum(value.numel() for value in state.values() if isinstance(value, torch.Tensor))
    return {"sha256": digest(entries), "elements": elements, "entries": entries}


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def path_digest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The digest of a file, or of a folder: its files' names and contents, in sorted order, whatever the file system's.

    Returns:
        {"sha256", "bytes"}, for a folder also "count", and "files": {name: SHA-256} for up to a thousand.

    Raises:
        FileNotFoundError: there is nothing at path.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"reprocuda.manifest: data is {os.fspath(path)!r}; there is no such file or folder")
    if path.is_file():
        return {"sha256": file_digest(path), "bytes": path.stat().st_size}
    files = sorted(
        (file for file in path.rglob("*") if file.is_file()), key=lambda file: file.relative_to(path).as_posix()
    )
    digests = {file.relative_to(path).as_posix(): file_digest(file) for file in files}
    size = sum(file.stat().st_size for file in files)
    found = {"sha256": digest(digests), "bytes": size, "count": len(files)}
    return {**found, "files": digests} if len(files) <= _LISTED_FILES else found
