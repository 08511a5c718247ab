"""Traces: a file of records, written in blocks while the script runs and read in blocks again.

    magic, header (JSON)
    block*: step, counts, the names first used in it (JSON), records
    footer (JSON): how it ended, and findings that are no differences

Two runs that do the same write the same bytes, so whole blocks compare at the speed of memory. Memory is bounded on
both sides: a block of records when writing, a window of them when comparing. A record takes 30 bytes, 17 more an input
and 16 an output.
"""

from __future__ import annotations

import ast
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MAGIC = b"reprocuda trace 2\n"
RECORD = struct.Struct("<IIIIIHHH")
INPUT = struct.Struct("<8sIBI")
BLOCK = struct.Struct("<cIIII")
LENGTH = struct.Struct("<I")

# What a trace says once and then refers to by number, each kind in a table of its own.
TABLES = OPERATORS, SITES, MODULES, ARGUMENTS, GEOMETRIES = "o", "s", "m", "a", "g"

# What a record is, besides an operator.
IN_LOADER, FROM_SAMPLER, EVENT, SEEDED, BACKWARD, IN_PLACE, PARTIAL, STARTING = (1 << bit for bit in range(8))
STATISTICS = 1 << 8  # a batch norm in train mode that runs without gradients, and changes its statistics all the same

BATCH = "loader::next"
ORDER = "loader::index"


class Geometry(NamedTuple):
    """How a tensor looks at its storage; in a trace, `str` of it, which `parse` reads."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str  # torch's name

    def __str__(self) -> str:
        return repr(tuple(self))

    @classmethod
    def parse(cls, text: str) -> Geometry | None:
        """None for what has no geometry: no tensor, or one of a layout without strides, which is named instead.

        Raises:
            ValueError: the text is neither.

        Example:
            >>> Geometry.parse("(0, (2, 3), (3, 1), 'float32')").shape
            (2, 3)
        """
        try:
            parts = ast.literal_eval(text)
            return cls(*parts) if len(parts) > 1 else None
        except (SyntaxError, TypeError, ValueError) as error:
            raise ValueError(f"{text!r} is not a geometry of a trace") from error


@dataclass(frozen=True)
class Input:
    """What an operator read: the content of its storage and how it looked at it."""

    content: bytes
    geometry: str
    origin: int
    site: tuple[str, int, str]

    @property
    def value(self) -> tuple[bytes, str]:
        return self.content, self.geometry


@dataclass(frozen=True)
class Record:
    """One operator, or one event such as a batch from a loader."""

    operator: str
    site: tuple[str, int, str]
    module: str
    arguments: str
    step: int
    flags: int
    inputs: tuple[Input, ...]
    outputs: tuple[bytes, ...]
    raw: bytes = b""

    @property
    def key(self) -> tuple:
        return self.operator, self.site, self.module


class Writer:
    """Writes a trace; `define` names things, `block` adds records."""

    def __init__(self, path: str | os.PathLike, header: dict):
        self.path = Path(path)
        self._file = self.path.open("wb", buffering=0)
        self._process = os.getpid()
        data = json.dumps(header).encode()
        self._write(MAGIC + LENGTH.pack(len(data)) + data)
        self._new: list[tuple[str, int, object]] = []

    def define(self, table: str, number: int, value: object) -> None:
        self._new.append((table, number, value))

    def block(self, step: int, count: int, records: bytes) -> None:
        names = json.dumps(self._new).encode()
        self._new.clear()
        self._write(BLOCK.pack(b"B", step, count, len(names), len(records)) + names + records)

    def close(self, footer: dict) -> None:
        if self._file.closed:
            return
        data = json.dumps(footer).encode()
        self._write(b"F" + LENGTH.pack(len(data)) + data)
        self._file.close()

    def _write(self, data: bytes) -> None:
        if os.getpid() != self._process:  # a forked child has our file, and nothing to say in it
            return
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]


class Reader:
    """Reads a trace.

    Args:
        path: the file.
        named: the function and the argument that gave it, for the message where it is no trace.

    Raises:
        ValueError: the file is no trace.
    """

    def __init__(self, path: str | os.PathLike, named: str = "reprocuda.auditing.trace.Reader: path"):
        self.path = Path(path)
        self.header: dict = {}
        self.footer: dict = {}
        self.complete = False
        self._tables: dict[str, dict[int, object]] = {name: {} for name in TABLES}
        self._file = self.path.open("rb")
        try:
            if self._file.read(len(MAGIC)) != MAGIC:
                raise ValueError("another kind of file")
            self.header = json.loads(self._file.read(LENGTH.unpack(self._file.read(LENGTH.size))[0]))
        except (struct.error, ValueError) as error:
            self._file.close()
            raise ValueError(f"{named} must be a trace that reprocuda wrote, got {self.path}") from error

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exception) -> None:
        self._file.close()

    def sites(self) -> list[tuple[str, int, str]]:
        """The sites of all records read so far, (file, line, function)."""
        return list(self._tables[SITES].values())

    def blocks(self) -> Iterator[tuple[int, bytes, bytes]]:
        """(number of records, names, records) of each block; an unfinished one at the end is left out."""
        while True:
            kind = self._file.read(1)
            if kind == b"F":
                self.footer = json.loads(self._file.read(LENGTH.unpack(self._file.read(LENGTH.size))[0]))
                self.complete = True
            if kind != b"B":
                return
            head = kind + self._file.read(BLOCK.size - 1)
            if len(head) < BLOCK.size:
                return
            _, _, count, names_size, records_size = BLOCK.unpack(head)
            names, records = self._file.read(names_size), self._file.read(records_size)
            if len(records) < records_size:
                return
            self.learn(names)
            yield count, names, records

    def learn(self, names: bytes) -> None:
        for table, number, value in json.loads(names):
            self._tables[table][number] = tuple(value) if isinstance(value, list) else value

    def decode(self, records: bytes) -> list[Record]:
        tables = self._tables
        operators, sites, modules, arguments, geometries = (tables[name] for name in TABLES)
        decoded, at = [], 0
        while at < len(records):
            start = at
            operator, site, module, argument, step, flags, n_inputs, n_outputs = RECORD.unpack_from(records, at)
            at += RECORD.size
            inputs = []
            for _ in range(n_inputs):
                content, geometry, origin, origin_site = INPUT.unpack_from(records, at)
                at += INPUT.size
                inputs.append(Input(content, geometries[geometry], origin, sites[origin_site]))
            end = at + 16 * n_outputs
            outputs = tuple(records[i : i + 16] for i in range(at, end, 16))
            at = end
            decoded.append(
                Record(
                    operators[operator],
                    sites[site],
                    modules[module],
                    arguments[argument],
                    step,
                    flags,
                    tuple(inputs),
                    outputs,
                    records[start:at],
                )
            )
        return decoded

    def records(self) -> Iterator[Record]:
        """All records, in order."""
        for _, _, records in self.blocks():
            yield from self.decode(records)
