"""torch's error for an operator without a deterministic form, restated with call site, arguments and a fix."""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import sys
import textwrap
import traceback
from types import FrameType, TracebackType
from typing import Any

import torch

from ..dispatch.registry import registry, replacing
from ..frames import INSTALLED, USER, classify
from ..inspection.source import innermost_statement

_REFUSAL = re.compile(r"(\S+)(.*?) does not have a deterministic implementation")
_FILL = re.compile(r'"fill_empty_deterministic_" not implemented for \'(\w+)\'')
_CUBLAS = "not deterministic because it uses CuBLAS"
_SHOWN = 12


class NondeterministicError(RuntimeError):
    """An operator without a deterministic form ran in debug mode.

    Attributes:
        operator: the operator, as torch's message names it.
        file, line: the innermost line of the user's own code, as the audit names it.
        cure: what to do.
    """

    def __init__(self, message: str, operator: str, file: str, line: int, cure: str):
        super().__init__(message)
        self.operator, self.file, self.line, self.cure = operator, file, line, cure


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)} on {value.device}"
    return textwrap.shorten(repr(value), 60, placeholder="...")


def _statement(frame: FrameType, line: int) -> str:
    """The source of the innermost statement around a line; of a compound one, its head."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:  # of an interactive session, the source may be gone or be another
        tree = ast.Module([], [])
    inner = innermost_statement(tree, line)
    if inner is None:
        return linecache.getline(frame.f_code.co_filename, line).strip()
    body = getattr(inner, "body", None)
    last = inner.end_lineno if not body else max(inner.lineno, body[0].lineno - 1)
    return textwrap.dedent("".join(lines[inner.lineno - 1 : last])).strip()


def _arguments(frame: FrameType, line: int) -> list[str]:
    """What the failing call was given: a torch function's parameters, or the names in the caller's statement."""
    code, values = frame.f_code, frame.f_locals
    if classify(frame) not in (USER, INSTALLED):
        names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    else:
        names = re.findall(r"[^\W\d]\w*(?:\.\w+)*", _statement(frame, line))
    found = {}
    for name in names:
        parts = name.split(".")
        value = values.get(parts[0], frame.f_globals.get(parts[0]))
        for depth, part in enumerate([*parts[1:], ""], start=1):
            if isinstance(value, (torch.Tensor, bool, int, float, str)):
                found[".".join(parts[:depth])] = _describe(value)
                break
            with contextlib.suppress(Exception):  # a property may raise anything
                value = getattr(value, part, None)
    return [f"{name}: {text}" for name, text in found.items()][:_SHOWN]


def cure_of(operator: str) -> str:
    """What to do about an operator that torch's message names."""
    base = re.sub(r"_(cuda|cpu)\w*|_kernel|_out|_$", "", operator)
    ours = replacing(base) or registry.get(base)
    if ours is not None and ("cuda" in ours.replaces_on(base) or "cuda" not in operator):
        return f"reprocuda.enable({ours.name!r}) covers it: it is exact, and raises nothing"
    return (
        "torch has no deterministic form of it and reprocuda none either. Write it with other operators, run that call "
        "on the CPU, or accept it: `with reprocuda.deterministic(warn_only=True):` around the call, or mode='train', "
        "warn instead of raising"
    )


def _what(error: BaseException) -> tuple[str, str] | None:
    """(operator, cure), if this is torch's refusal under its deterministic flag."""
    text = str(error)
    if found := _REFUSAL.search(text):
        return (found[1] + found[2]).strip(), cure_of(found[1])
    if _CUBLAS in text:
        cure = (
            "set CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment before the process starts; "
            "`python -m reprocuda run SCRIPT` does"
        )
        return "cuBLAS", cure
    if found := _FILL.search(text):
        return f"empty ({found[1]})", (
            "torch cannot fill this dtype with a pattern: reprocuda.reproducible(fill_uninitialized=False), or "
            "torch.utils.deterministic.fill_uninitialized_memory = False"
        )
    return None


def explained(error: BaseException, tb: TracebackType | None = None) -> NondeterministicError | None:
    """torch's refusal with operator, arguments, call site and cure; None if the error is anything else."""
    if isinstance(error, NondeterministicError) or not isinstance(error, RuntimeError):
        return None
    what = _what(error)
    frames = list(traceback.walk_tb(tb or error.__traceback__))
    if what is None or not frames:
        return None
    operator, cure = what
    inner, inner_line = frames[-1]
    kinds = [classify(frame) for frame, _ in frames]
    shown = next((kind for kind in (USER, INSTALLED) if kind in kinds), kinds[-1])
    frame, line = [place for place, kind in zip(frames, kinds, strict=True) if kind == shown][-1]
    lines = [
        f"{operator} is not deterministic",
        f"  called at {frame.f_code.co_filename}:{line}, in "
        f"{frame.f_code.co_name}: {textwrap.shorten(_statement(frame, line), 200, placeholder='...')}",
    ]
    lines += [f"  with {argument}" for argument in _arguments(inner, inner_line)]
    functions = {f.f_code.co_name for (f, _), kind in zip(frames, kinds, strict=True) if kind not in (USER, INSTALLED)}
    if functions & {"backward", "grad"}:
        lines.append("  in the backward pass: `python -m reprocuda audit` names the line of its forward call")
    lines.append(f"  cure: {cure}")
    return NondeterministicError("\n".join(lines), operator, frame.f_code.co_filename, line, cure)


class ExceptHook:
    """While installed, sys.excepthook adds the explanation to an uncaught error."""

    def __init__(self):
        self._previous = sys.excepthook
        sys.excepthook = self

    def __call__(self, kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        self._previous(kind, error, tb)
        found = explained(error, tb)
        if found is not None:
            print(f"\n{type(found).__module__}.{type(found).__name__}: {found}", file=sys.stderr)

    def remove(self) -> None:
        if sys.excepthook is self:  # a hook installed since keeps calling ours
            sys.excepthook = self._previous
