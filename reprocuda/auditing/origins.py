"""What decides a value: a clock, or a draw without a seed? Read from the source, backwards from where it is used.

Within one file; functions are not told apart: a name means the same everywhere.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ..inspection.randomness import Reach, draws_unseeded, reads_clock
from ..inspection.source import Source, spans
from .source import called_functions, expressions, last, parse

_ROUNDS = 6  # assignments followed one after another
_CONDITIONS = (ast.If, ast.While)


class Origin(NamedTuple):
    """A call that decides what happens at a line."""

    call: int  # its line
    decides: int  # of the branch that it decides, or else the line asked about


@functools.lru_cache(maxsize=64)
def clock_behind(file: str, line: int) -> Origin | None:
    """The clock behind what the statement at `line` uses, or behind the branch that chose it; None: none is found."""
    text = parse(file)
    return None if text is None else _behind(_Program(text, functools.partial(reads_clock, text)), line)


@functools.lru_cache(maxsize=64)
def draw_behind(file: str, line: int) -> Origin | None:
    """So with a draw from Python's or NumPy's global generator that no call in the file seeds, or a generator of theirs
    that is made without a seed.
    """
    text = parse(file)
    if text is None:
        return None
    reach = Reach()
    reach.add(text)
    return _behind(_Program(text, functools.partial(draws_unseeded, text, reach=reach)), line)


def _behind(program: _Program, line: int) -> Origin | None:
    here = list(expressions(program.text, line))
    for part in here:
        if call := program.found_in(part):
            return Origin(call, line)
    reached: dict[str, int | None] = {}  # names, each with the branch by which it was reached
    level: dict[str, int | None] = {name: None for part in here for name in _read(part)}
    for _ in range(_ROUNDS):
        reached |= level
        after: dict[str, int | None] = {}
        for name, branch in level.items():
            for source in program.sources.get(name, ()):
                if source.value is not None and (call := program.found_in(source.value)):
                    return Origin(call, branch or source.branch_of(program) or _choice(program, source) or line)
                for condition in source.conditions:
                    if call := program.found_in(condition.test):
                        return Origin(call, branch or condition.lineno)
                    for other in _read(condition.test):
                        after.setdefault(other, branch or condition.lineno)
                for other in _read(source.value) if source.value is not None else ():
                    after.setdefault(other, branch)
        level = {name: branch for name, branch in after.items() if name not in reached}
    return None


def _choice(program: _Program, source: _Source) -> int | None:
    """The line of `a if clock else b`."""
    chosen = [part for part in ast.walk(source.value) if isinstance(part, ast.IfExp)]
    return next((part.lineno for part in chosen if program.found_in(part.test)), None)


def _read(node: ast.AST) -> Iterator[str]:
    """The names that an expression reads; `self.x` counts as one."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            yield f"self.{part.attr}"
        elif isinstance(part, ast.Name) and part.id != "self" and isinstance(part.ctx, ast.Load):
            yield part.id


@dataclass
class _Source:
    """Where a name gets a value, and under which conditions."""

    value: ast.AST | None
    conditions: list[ast.If | ast.While] = field(default_factory=list)

    def branch_of(self, program: _Program) -> int | None:
        return next((c.lineno for c in reversed(self.conditions) if program.found_in(c.test)), None)


class _Program:
    """The assignments of one file, by name, and the calls that are looked for."""

    def __init__(self, text: Source, matches: Callable[[ast.Call], bool]):
        self.text = text
        self.sources: dict[str, list[_Source]] = {}
        self._matches = matches
        self._found: dict[ast.AST, int | None] = {}
        self._functions = {f.name: f for f in text.nodes if isinstance(f, ast.FunctionDef)}
        self._loops = [node for node in text.nodes if isinstance(node, ast.For)]
        self._visit(text.tree.body, [])

    def found_in(self, node: ast.AST) -> int | None:
        """The line of a call that matches, in a node or in a function of this file that it calls."""
        if node not in self._found:
            nodes = (node, *called_functions(self.text, node))
            calls = (part for outer in nodes for part in ast.walk(outer) if isinstance(part, ast.Call))
            self._found[node] = next((call.lineno for call in calls if self._matches(call)), None)
        return self._found[node]

    def _visit(self, body: list[ast.stmt], conditions: list) -> None:
        for statement in body:
            within = [*conditions, statement] if isinstance(statement, _CONDITIONS) else conditions
            self._note(statement, conditions)
            for name in ("body", "orelse", "finalbody"):
                self._visit(getattr(statement, name, []), within)
            for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                self._visit(handler.body, within)

    def _note(self, statement: ast.stmt, conditions: list) -> None:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
            targets, value = [statement.target], statement.value
        elif isinstance(statement, ast.For):
            targets, value = [statement.target], statement.iter
        else:
            targets, value = [], None
        for target in targets:
            for name in self._written(target):
                self.sources.setdefault(name, []).append(_Source(value, conditions))
        compound = hasattr(statement, "body") or hasattr(statement, "cases")
        for call in () if compound else ast.walk(statement):
            if not isinstance(call, ast.Call):
                continue
            if last(call.func) in self._functions:
                self._pass(call, self._functions[last(call.func)], conditions)
            elif last(call.func) == "shuffle" and call.args:  # in place, of whatever generator
                for name in self._written(call.args[0]):
                    self.sources.setdefault(name, []).append(_Source(call, conditions))

    def _pass(self, call: ast.Call, function: ast.FunctionDef, conditions: list) -> None:
        """Parameters get their values where the function is called."""
        names = [argument.arg for argument in function.args.args]
        names = names[1:] if names[:1] == ["self"] else names
        given = dict(zip(names, call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
        for name, value in given.items():
            self.sources.setdefault(name, []).append(_Source(value, conditions))

    def _written(self, target: ast.AST) -> Iterator[str]:
        """The names whose value an assignment changes: of `group["lr"] = ...` also what the groups belong to."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                yield from self._written(element)
            return
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id
            return
        for part in ast.walk(target):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                yield f"self.{part.attr}"
            elif isinstance(part, ast.Name) and part.id != "self":
                yield part.id
                for loop in self._loops:
                    bound = {name.id for name in ast.walk(loop.target) if isinstance(name, ast.Name)}
                    if part.id in bound and spans(loop, target.lineno):
                        yield from _read(loop.iter)
