"""Where an operator was called: the innermost frame of the user's own code, found in well under a microsecond."""

from __future__ import annotations

import os
from types import CodeType, FrameType

from ..frames import ENGINE, INSTALLED, SAMPLER, USER, classify


class Sites:
    """Call sites by number; 0 is "nowhere". A site is (file, line, function)."""

    def __init__(self):
        self.table: list[tuple[str, int, str]] = [("", 0, "")]
        self._kinds: dict[int, tuple[int, CodeType]] = {}  # by id of the code object, which is kept alive beside it
        self._by_position: dict[tuple[int, int], int] = {}
        self._by_site: dict[tuple[str, int, str], int] = {self.table[0]: 0}

    def find(self, frame: FrameType | None, stop_at_engine: bool = False) -> int:
        """The number of the site that `frame` runs for, walking outwards; 0 if there is none.

        With stop_at_engine, 0 as soon as the walk leaves what the autograd engine called: what is further out called
        `backward()`, not the operator.
        """
        kinds = self._kinds
        stand_in = None
        while frame is not None:
            code = frame.f_code
            known = kinds.get(id(code))
            if known is None:
                known = kinds[id(code)] = (classify(frame), code)
            kind = known[0]
            if kind == USER:
                return self._number(frame)
            if kind == ENGINE and stop_at_engine:
                return 0
            if kind == INSTALLED and stand_in is None:
                stand_in = frame
            frame = frame.f_back
        return 0 if stand_in is None or stop_at_engine else self._number(stand_in)

    def within_sampler(self, frame: FrameType | None) -> bool:
        """Is one of torch's samplers between `frame` and the user's code?"""
        while frame is not None:
            kind = self._kinds.get(id(frame.f_code), (None,))[0]
            if kind in (SAMPLER, USER):
                return kind == SAMPLER
            frame = frame.f_back
        return False

    def _number(self, frame: FrameType) -> int:
        position = (id(frame.f_code), frame.f_lasti)
        number = self._by_position.get(position)
        if number is None:
            name = frame.f_code.co_filename
            file = name if name.startswith("<") else os.path.abspath(name)
            number = self._by_position[position] = self._add((file, frame.f_lineno, frame.f_code.co_name))
        return number

    def of_operator(self, number: int, operator: str) -> int:
        """A site with the operator's name in the place of the function's."""
        return self._add((*self.table[number][:2], operator))

    def _add(self, site: tuple[str, int, str]) -> int:
        number = self._by_site.setdefault(site, len(self.table))
        if number == len(self.table):
            self.table.append(site)
        return number
