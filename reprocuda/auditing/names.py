"""Numbers for what a trace says once and then refers to."""

from __future__ import annotations

import torch

from .sites import Sites
from .trace import GEOMETRIES, SITES, TABLES, Geometry, Writer

_NAMES = 1 << 16  # distinct values of a kind that are remembered before their numbers start afresh


class Names:
    """Gives numbers to what a trace names once and then refers to: operators, modules, arguments, geometries, sites."""

    def __init__(self, writer: Writer, sites: Sites):
        self.sites = sites
        self.geometries: dict[int, bytes] = {}
        self._writer = writer
        self._numbers: dict[str, dict] = {name: {} for name in TABLES if name != SITES}
        self._next = dict.fromkeys(self._numbers, 0)
        self._defined_sites = 0
        self.define_sites()
        self.number(GEOMETRIES, ())  # 0: no matter

    def number(self, table: str, value: object) -> int:
        numbers = self._numbers[table]
        number = numbers.get(value)
        if number is None:
            if len(numbers) > _NAMES:
                numbers.clear()
                if table == GEOMETRIES:
                    self.geometries.clear()
            number = self._next[table]
            self._next[table] = number + 1
            numbers[value] = number
            text = _geometry(value) if table == GEOMETRIES else value if isinstance(value, str) else repr(value)
            self._writer.define(table, number, text)
            if table == GEOMETRIES:
                self.geometries[number] = text.encode()
        return number

    def geometry(self, tensor: torch.Tensor) -> int:
        return self.number(GEOMETRIES, (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype))

    def define_sites(self) -> None:
        for number in range(self._defined_sites, len(self.sites.table)):
            self._writer.define(SITES, number, self.sites.table[number])
        self._defined_sites = len(self.sites.table)


def _geometry(value: tuple) -> str:
    """In plain types, so that a trace can be read without torch."""
    if len(value) != len(Geometry._fields):  # of no tensor, or a layout without strides
        return repr(value)
    offset, shape, strides, dtype = value
    return str(Geometry(offset, tuple(shape), strides, str(dtype).removeprefix("torch.")))
