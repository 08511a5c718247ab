"""What the user's source says about a line: the branch that leads to it, sets iterated over, random draws."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from ..inspection.randomness import draws_outside_torch
from ..inspection.scan import scan
from ..inspection.source import Source, innermost_statement, spans

_HASH_CODES = {"set-order", "hash-order"}
_BRANCHES = (ast.If, ast.While, ast.For, ast.IfExp, ast.Try, ast.Match)


@functools.lru_cache(maxsize=64)
def parse(file: str) -> Source | None:
    """The source of a file; None where there is none, or it is no Python."""
    try:
        return Source(Path(file))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _bodies(node: ast.AST) -> list[list[ast.AST]]:
    if isinstance(node, ast.IfExp):
        return [[node.body], [node.orelse]]
    if isinstance(node, ast.Match):
        return [case.body for case in node.cases]
    handlers = [handler.body for handler in getattr(node, "handlers", [])]
    return [node.body, getattr(node, "orelse", []), *handlers]


def branch(first: tuple[str, int, str], second: tuple[str, int, str]) -> tuple[int, int] | None:
    """The innermost branch that one of two sites is in and the other is not.

    Args:
        first: (file, line, function) where one run went on.
        second: where the other did.

    Returns:
        Its line, and which of the two is in it (0 or 1); None where the source shows none.
    """
    for which, (inner, outer) in enumerate(((first, second), (second, first))):
        (file, line, function), (other_file, other_line, _) = inner, outer
        for where, inside in ((file, None), (other_file, function)):
            found = None
            text = parse(where)
            for node in text.nodes if text is not None else ():
                if not isinstance(node, _BRANCHES):
                    continue
                for body in _bodies(node):
                    if inside is None:
                        here = any(spans(part, line) for part in body)
                        there = where == other_file and any(spans(part, other_line) for part in body)
                    else:  # a function that is called in the branch
                        here = any(_calls(part, inside) for part in body)
                        there = any(spans(part, other_line) for part in body)
                    if here and not there and (found is None or node.lineno >= found):
                        found = node.lineno
            if found is not None:
                return found, which
    return None


def _calls(node: ast.AST, function: str) -> bool:
    return any(isinstance(part, ast.Call) and last(part.func) == function for part in ast.walk(node))


def last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def called_functions(text: Source, node: ast.AST, depth: int = 3) -> list[ast.FunctionDef]:
    """The functions and methods of the same file that are called in `node`, and those that they call."""
    defined = {function.name: function for function in text.nodes if isinstance(function, ast.FunctionDef)}
    found: list[ast.FunctionDef] = []
    level = [node]
    for _ in range(depth):
        calls = [part for outer in level for part in ast.walk(outer) if isinstance(part, ast.Call)]
        named = [defined[last(call.func)] for call in calls if last(call.func) in defined]
        level = [function for function in dict.fromkeys(named) if function not in found and function is not node]
        found += level
    return found


def expressions(text: Source, line: int) -> Iterator[ast.AST]:
    """The innermost statement at a line; of a compound one, its head only."""
    innermost = innermost_statement(text.tree, line)
    if hasattr(innermost, "body"):
        for name in ("test", "iter", "subject"):
            if hasattr(innermost, name):
                yield getattr(innermost, name)
    elif innermost is not None:
        yield innermost


@functools.lru_cache(maxsize=64)
def hash_order(file: str) -> tuple[int, ...]:
    """The lines of a file whose result depends on the hashes of strings: sets read in their order, and hash()."""
    try:
        return tuple(sorted({finding.line for finding in scan(file) if finding.code in _HASH_CODES}))
    except (OSError, ValueError):
        return ()


def nearest_hash_order(file: str, line: int) -> int | None:
    """The line of `hash_order` that most likely led to `line`: the nearest at or before it, else the first."""
    lines = hash_order(file)
    before = [candidate for candidate in lines if candidate <= line]
    return before[-1] if before else lines[0] if lines else None


def random_draw(file: str, function_line: int) -> int | None:
    """The first line that draws from NumPy or random in the function, or else the outermost class, around a line."""
    text = parse(file)
    if text is None:
        return None
    around = [node for node in text.nodes if spans(node, function_line)]
    function = next((node for node in reversed(around) if isinstance(node, ast.FunctionDef)), None)
    outer = next((node for node in around if isinstance(node, ast.ClassDef)), None)
    called = called_functions(text, function) if function is not None else ()
    for scope in (function, *called, outer):
        inside = ast.walk(scope) if scope is not None else ()
        lines = [node.lineno for node in inside if isinstance(node, ast.Call) and draws_outside_torch(text, node)]
        if lines:
            return min(lines)
    return None
