"""Whose code a frame runs: the user's, an installed package's, or torch's, Python's and ours.

A frame is the user's if its file belongs neither to torch nor to an installed package, neither to Python nor to us.
Code that runs from an installed package alone (`python -m package.train`) has no such frame; there the innermost frame
of an installed package stands in.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType

import torch

FOREIGN, INSTALLED, USER, ENGINE, SAMPLER = range(5)  # torch's autograd engine and its samplers by themselves

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_PATHS = sysconfig.get_paths()
_INSTALLED_ROOTS = tuple(_PATHS[name] + os.sep for name in ("purelib", "platlib"))
_PYTHON_ROOTS = tuple({_PATHS[name] + os.sep for name in ("stdlib", "platstdlib")})


def classify(frame: FrameType) -> int:
    """One of FOREIGN, INSTALLED, USER, ENGINE and SAMPLER."""
    code = frame.f_code
    name = code.co_filename
    if name.startswith(_TORCH):
        if code.co_name == "_engine_run_backward":
            return ENGINE
        return SAMPLER if os.path.basename(name) == "sampler.py" else FOREIGN
    if name.startswith("<"):  # a prompt, a cell or `python -c` is the user's; generated code is not
        return USER if frame.f_globals.get("__name__") == "__main__" else FOREIGN
    if name.startswith(_OWN):
        return FOREIGN
    return _classify_path(os.path.abspath(name))


def caller_level() -> int:
    """`stacklevel` for a warning of the function that calls this: that of the innermost frame that is not ours, torch's
    or Python's. Compiled code cannot look.
    """
    if torch.compiler.is_compiling():
        return 1
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and classify(frame) == FOREIGN:
        level, frame = level + 1, frame.f_back
    return level


def is_users_file(name: str) -> bool:
    """Is this file the user's own: not torch's, not ours, not Python's, nor of an installed package?"""
    return not name.startswith(("<", _TORCH)) and _classify_path(os.path.abspath(name)) == USER


def _classify_path(absolute: str) -> int:
    if absolute.startswith(_INSTALLED_ROOTS) or f"{os.sep}site-packages{os.sep}" in absolute:
        return INSTALLED
    return FOREIGN if absolute.startswith((*_PYTHON_ROOTS, _OWN)) else USER
