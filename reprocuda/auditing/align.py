"""Two traces side by side: where they differ, and where the difference starts.

Equal blocks are compared as bytes. From the first unequal block on, records are compared one by one; where the
operators themselves differ, the nearest place at which both traces agree again is looked for. What a loader does inside
is set aside: it counts only if what comes out of it differs, and then explains it.
"""

from __future__ import annotations

import enum
import os
from collections import deque
from dataclasses import dataclass, field

from .lineage import EXTERNAL, KNOWN, LOADED, LOADER, OVERWRITTEN, OWN_STATE, UNWRITTEN
from .trace import BATCH, EVENT, FROM_SAMPLER, IN_LOADER, IN_PLACE, PARTIAL, SEEDED, STARTING, Input, Reader, Record

_WINDOW = 4096  # records looked ahead for the place where two traces agree again
_ANCHOR = 4  # so many operators in a row have to agree there
_MAX_DIFFERENCES = 16
_MAX_GAPS = 64  # stretches of different operators stepped over
_MAX_AFTER = 50_000  # records compared after the first difference


class Reason(enum.Enum):
    """Why two records differ; `diagnose` has a verdict on each."""

    STRUCTURE = "structure"  # other operators
    OUTPUT = "output"  # of the same inputs
    EXTERNAL_INPUT = "external input"  # a tensor that no recorded operator wrote
    ARGUMENT = "argument"
    SELECTION = "selection"  # another tensor of the same run
    UNWRITTEN_INPUT = "unwritten input"
    DATA = "data"  # a loader's batch
    SETTING = "setting"  # a seed, a number of threads

    @property
    def is_own_cause(self) -> bool:
        """The operator itself made the difference: nothing that it was given differed."""
        return self in (Reason.OUTPUT, Reason.UNWRITTEN_INPUT)


@dataclass
class Difference:
    """One difference: its reason, the records of both runs (None where one had ended), and the input that showed it."""

    reason: Reason
    first: Record | None
    second: Record | None
    index: int
    origin: int = KNOWN
    origin_site: tuple[str, int, str] = ("", 0, "")
    inside_loader: list[tuple[Record, Record]] = field(default_factory=list)
    loader: Record | None = None
    seed: Difference | None = None  # what was drawn comes from another seed, set here

    @property
    def record(self) -> Record:
        return self.first if self.first is not None else self.second


@dataclass
class Comparison:
    """What `compare_traces` found."""

    differences: list[Difference]
    records: int  # that agreed before the first difference
    headers: tuple[dict, dict]
    footers: tuple[dict, dict]
    complete: bool
    sites: list[tuple[str, int, str]]
    following: list[Record] = field(default_factory=list)  # some records after the first difference


class _Cursor:
    """The records of one trace that are compared, each with what a loader did before it."""

    def __init__(self, reader: Reader):
        self.reader = reader
        self.blocks = reader.blocks()
        self.ready: deque[tuple[list[Record], Record, int]] = deque()
        self.inside: list[Record] = []
        self.position = 0  # of the next record to be read
        self.ended = False

    def next_block(self) -> tuple[int, bytes, bytes] | None:
        block = next(self.blocks, None)
        self.ended = block is None
        return block

    def accept(self, block: tuple[int, bytes, bytes]) -> None:
        for position, record in enumerate(self.reader.decode(block[2]), self.position):
            if record.flags & IN_LOADER:
                self.inside.append(record)
            else:
                self.ready.append((self.inside, record, position))
                self.inside = []
        self.position += block[0]

    def fill(self, count: int) -> None:
        while len(self.ready) < count and not self.ended:
            block = self.next_block()
            if block is not None:
                self.accept(block)


def compare_traces(first: str | os.PathLike, second: str | os.PathLike) -> Comparison:
    """Compares two traces, in memory that does not depend on their length.

    Raises:
        ValueError: one of them is no trace.
    """
    with Reader(first, "reprocuda.compare: first") as a, Reader(second, "reprocuda.compare: second") as b:
        found = _Walk(_Cursor(a), _Cursor(b))
        found.run()
        for cursor in (found.a, found.b):
            if not cursor.ended:
                for _ in cursor.blocks:  # the footer comes last
                    pass
        return Comparison(
            found.differences,
            found.differences[0].index if found.differences else found.a.position,
            (a.header, b.header),
            (a.footer, b.footer),
            a.complete and b.complete,
            a.sites(),
            found.following,
        )


class _Walk:
    def __init__(self, a: _Cursor, b: _Cursor):
        self.a, self.b = a, b
        self.differences: list[Difference] = []
        self.index = 0  # of the record of the first trace that is looked at
        self.inside: tuple[list[Record], list[Record]] = ([], [])
        self.following: list[Record] = []
        self._gaps = 0
        self._seeds: dict[str, Difference] = {}  # seeds that differ, by whose they are: they count once something does
        self._drawn: dict[bytes, Difference] = {}  # random numbers that differ and were not used yet, by content

    def run(self) -> None:
        self._walk()
        for difference in self._drawn.values():
            self._add(difference)

    def _walk(self) -> None:
        a, b = self.a, self.b
        while True:
            if not a.ready and not b.ready and not self.differences and self._equal_blocks():
                continue
            a.fill(1)
            b.fill(1)
            self.index = a.ready[0][2] if a.ready else a.position
            if not a.ready or not b.ready:
                if a.ready or b.ready:
                    self._structure()
                return
            if a.ready[0][1].key != b.ready[0][1].key:
                if not self._structure():
                    return
                continue
            (inside_a, x, _), (inside_b, y, _) = a.ready.popleft(), b.ready.popleft()
            self.inside[0].extend(inside_a)
            self.inside[1].extend(inside_b)
            self._values(x, y)
            if self.differences:
                if len(self.following) < 2000:
                    self.following.append(x)
                if len(self.differences) >= _MAX_DIFFERENCES or self.index - self.differences[0].index > _MAX_AFTER:
                    return

    def _equal_blocks(self) -> bool:
        """Takes a block of each; True if they were equal and are done with."""
        x, y = self.a.next_block(), self.b.next_block()
        same = x is not None and y is not None and not self.a.inside and not self.b.inside and x[1:] == y[1:]
        if same:
            self.a.position += x[0]
            self.b.position += y[0]
            return True
        if x is not None:
            self.a.accept(x)
        if y is not None:
            self.b.accept(y)
        return False

    def _values(self, x: Record, y: Record) -> None:
        changed = [(p, q) for p, q in zip(_read_by(x), _read_by(y), strict=False) if p.value != q.value]
        same_arguments = x.arguments == y.arguments and len(_read_by(x)) == len(_read_by(y))
        if x.operator == BATCH:
            if changed or not same_arguments:
                self._add(
                    Difference(Reason.DATA, x, y, self.index, inside_loader=self._inside_pairs(), loader=self._loader())
                )
            self.inside = ([], [])
            return
        if len(self.inside[0]) > 100_000:
            self.inside = ([], [])
        if self._drawn and same_arguments and self._spends(x, changed):
            return
        if x.flags & EVENT and not x.operator.endswith("set_num_threads"):
            if same_arguments:
                self._seeds.pop(x.operator.split(".")[0], None)
            else:
                self._seeds[x.operator.split(".")[0]] = Difference(Reason.SETTING, x, y, self.index)
            return
        if not changed and same_arguments:
            if x.outputs != y.outputs:
                self._other_output(x, y)
            return
        worst = None
        if changed:
            candidates = [q if q.origin == OWN_STATE else p for p, q in changed]
            worst = next((candidate for candidate in candidates if candidate.origin != UNWRITTEN), candidates[0])
        if worst is not None and worst.origin == UNWRITTEN and same_arguments:
            if x.outputs != y.outputs:
                self._add(Difference(Reason.UNWRITTEN_INPUT, x, y, self.index, UNWRITTEN, worst.site))
            return
        if self.differences:
            return  # most likely what became of an earlier difference
        if x.flags & EVENT:
            self._add(Difference(Reason.SETTING, x, y, self.index))
        elif worst is not None and worst.origin in (EXTERNAL, LOADED, LOADER, OWN_STATE):
            self._add(Difference(Reason.EXTERNAL_INPUT, x, y, self.index, worst.origin, worst.site))
        elif not same_arguments:
            self._add(Difference(Reason.ARGUMENT, x, y, self.index))
        else:
            self._add(Difference(Reason.SELECTION, x, y, self.index))

    def _other_output(self, x: Record, y: Record) -> None:
        seed = self._seeds.get("torch") if x.flags & SEEDED and "Generator" not in x.arguments else None
        difference = Difference(Reason.OUTPUT, x, y, self.index, seed=seed)
        if x.flags & SEEDED and not x.flags & PARTIAL and not self.differences:
            for p, q in zip(x.outputs, y.outputs, strict=False):
                if p != q:
                    self._drawn[p[:8]] = difference
        else:
            self._add(difference)

    def _spends(self, x: Record, changed: list[tuple[Input, Input]]) -> bool:
        """Follows random numbers that differ until they are used, or are overwritten unused: weights that a checkpoint
        replaces do no harm. True if `x` is a matter of theirs.
        """
        for value in x.inputs:
            if value.origin == OVERWRITTEN:
                self._drawn.pop(value.content, None)
        used = [self._drawn[p.content] for p, _ in changed if p.content in self._drawn]
        if not used:
            return False
        if x.flags & IN_PLACE and not x.flags & PARTIAL and len(x.outputs) == len(changed) == 1:
            self._drawn[x.outputs[0][:8]] = self._drawn.pop(changed[0][0].content)
        elif x.outputs or x.operator.startswith("aten::_local_scalar_dense"):
            self._add(min(used, key=lambda difference: difference.index))
        return True

    def _add(self, difference: Difference) -> None:
        if not (self.differences or difference.reason.is_own_cause or difference.reason is Reason.SETTING):
            difference.seed = next(iter(self._seeds.values()), None)
        if difference.seed is not None and difference.seed.record.operator != "torch.seed":
            difference = difference.seed
        known = any(
            other.reason == difference.reason and other.record.key == difference.record.key
            for other in self.differences
        )
        if not known:
            self.differences.append(difference)

    def _loader(self) -> Record | None:
        return next((record for record in reversed(self.inside[0]) if record.operator == "loader::iter"), None)

    def _inside_pairs(self) -> list[tuple[Record, Record]]:
        """What differed inside the loader before what came out of it did.

        Draws for the order, what starts an epoch, and the rest each by themselves: workers answer when they can, so how
        these mix differs from run to run.
        """
        found = []
        for kind in (FROM_SAMPLER, STARTING, 0):
            first, second = ([r for r in inside if _part_of_loading(r) == kind] for inside in self.inside)
            found += [(x, y) for x, y in zip(first, second, strict=False) if _all_of(x) != _all_of(y)]
        return found

    def _structure(self) -> bool:
        """The operators differ: notes it, and goes on where both agree again. False if they do not."""
        a, b = self.a, self.b
        if not self.differences:
            x = a.ready[0][1] if a.ready else None
            y = b.ready[0][1] if b.ready else None
            self._add(Difference(Reason.STRUCTURE, x, y, self.index))
        self._gaps += 1
        if self._gaps > _MAX_GAPS:
            return False
        a.fill(_WINDOW)
        b.fill(_WINDOW)
        i, j = _agree_again([r.key for _, r, _ in a.ready], [r.key for _, r, _ in b.ready])
        if i is None:
            return False
        for cursor, count in ((a, i), (b, j)):
            for _ in range(count):
                cursor.ready.popleft()
        return True


def _read_by(record: Record) -> list[Input]:
    return [value for value in record.inputs if value.origin != OVERWRITTEN]


def _part_of_loading(record: Record) -> int:
    return record.flags & FROM_SAMPLER or record.flags & STARTING


def _all_of(record: Record) -> tuple:
    return record.key, record.arguments, tuple(value.value for value in record.inputs), record.outputs


def _agree_again(a: list, b: list) -> tuple[int | None, int | None]:
    """The smallest (i, j), by i + j, at which a[i:] and b[j:] start with the same few keys."""
    if not a or not b:
        return None, None
    length = min(_ANCHOR, len(a), len(b))
    places: dict[tuple, int] = {}
    for j in range(len(b) - length, -1, -1):
        places[tuple(b[j : j + length])] = j  # the first one stays
    best: tuple[int, int] | None = None
    for i in range(len(a) - length + 1):
        if best is not None and i >= sum(best):
            break
        j = places.get(tuple(a[i : i + length]))
        if j is not None and (best is None or i + j < sum(best)):
            best = i, j
    return best if best is not None else (None, None)
