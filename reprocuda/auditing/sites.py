"""Where an operator was called: the innermost frame of the user's own code, found in well under a microsecond.

A frame is the user's if its file belongs neither to torch nor to an installed package, neither to Python nor to us.
Code that runs from an installed package alone (`python -m package.train`) has no such frame; there the innermost frame
of an installed package stands in.
"""

from __future__ import annotations

import os
import sysconfig
from types import CodeType, FrameType

import torch

_FOREIGN, _INSTALLED, _USER, _ENGINE, _SAMPLER = range(5)

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_PATHS = sysconfig.get_paths()
_INSTALLED_ROOTS = tuple(_PATHS[name] + os.sep for name in ("purelib", "platlib"))
_PYTHON_ROOTS = tuple({_PATHS[name] + os.sep for name in ("stdlib", "platstdlib")})


def is_users_file(name: str) -> bool:
    """Is this file the user's own: not torch's, not ours, not Python's, nor of an installed package?"""
    return not name.startswith(("<", _TORCH)) and _classify_path(os.path.abspath(name)) == _USER


def _classify_path(absolute: str) -> int:
    if absolute.startswith(_INSTALLED_ROOTS) or f"{os.sep}site-packages{os.sep}" in absolute:
        return _INSTALLED
    return _FOREIGN if absolute.startswith((*_PYTHON_ROOTS, _OWN)) else _USER


def _classify(frame: FrameType) -> int:
    code = frame.f_code
    name = code.co_filename
    if name.startswith(_TORCH):
        if code.co_name == "_engine_run_backward":
            return _ENGINE
        return _SAMPLER if os.path.basename(name) == "sampler.py" else _FOREIGN
    if name.startswith("<"):  # a prompt, a cell or `python -c` is the user's; other code made on the fly is nobody's
        return _USER if frame.f_globals.get("__name__") == "__main__" else _FOREIGN
    if name.startswith(_OWN):
        return _FOREIGN
    return _classify_path(os.path.abspath(name))


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
                known = kinds[id(code)] = (_classify(frame), code)
            kind = known[0]
            if kind == _USER:
                return self._number(frame)
            if kind == _ENGINE and stop_at_engine:
                return 0
            if kind == _INSTALLED and stand_in is None:
                stand_in = frame
            frame = frame.f_back
        return 0 if stand_in is None or stop_at_engine else self._number(stand_in)

    def within_sampler(self, frame: FrameType | None) -> bool:
        """Is one of torch's samplers between `frame` and the user's code?"""
        while frame is not None:
            kind = self._kinds.get(id(frame.f_code), (None,))[0]
            if kind in (_SAMPLER, _USER):
                return kind == _SAMPLER
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
