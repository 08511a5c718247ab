"""Does a value come from a clock? Read from the source, backwards from where it is used, within one file."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..inspection.randomness import reads_clock
from ..inspection.source import Source, spans
from .source import called_functions, expressions, last, parse

_ROUNDS = 6  # assignments followed one after another
_CONDITIONS = (ast.If, ast.While)


@functools.lru_cache(maxsize=64)
def clock_behind(file: str, line: int) -> int | None:
    """The line that a clock decides, of those that the statement at `line` depends on.

    Returns:
        The line of a branch that reads a clock, if one chooses what is used at `line`; `line` itself, if a value that
        is used there is computed from a clock; None if no clock is found behind it.
    """
    text = parse(file)
    if text is None:
        return None
    program = _Program(text)
    here = list(expressions(text, line))
    if any(program.reads_clock(part) for part in here):
        return line
    reached: dict[str, int | None] = {}  # names, each with the branch by which it was reached
    level: dict[str, int | None] = {name: None for part in here for name in _read(part)}
    for _ in range(_ROUNDS):
        reached |= level
        after: dict[str, int | None] = {}
        for name, branch in level.items():
            for source in program.sources.get(name, ()):
                if source.value is not None and program.reads_clock(source.value):
                    return branch or source.branch_of(program) or _choice(program, source) or line
                for condition in source.conditions:
                    if program.reads_clock(condition.test):
                        return branch or condition.lineno
                    for other in _read(condition.test):
                        after.setdefault(other, branch or condition.lineno)
                for other in _read(source.value) if source.value is not None else ():
                    after.setdefault(other, branch)
        level = {name: branch for name, branch in after.items() if name not in reached}
    return None


def _choice(program: _Program, source: _Source) -> int | None:
    """The line of `a if clock else b`."""
    chosen = [part for part in ast.walk(source.value) if isinstance(part, ast.IfExp)]
    return next((part.lineno for part in chosen if program.reads_clock(part.test)), None)


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
        return next((c.lineno for c in reversed(self.conditions) if program.reads_clock(c.test)), None)


class _Program:
    """The assignments of one file, by name. Functions are not told apart: a name means the same everywhere."""

    def __init__(self, text: Source):
        self.text = text
        self.sources: dict[str, list[_Source]] = {}
        self._reads: dict[ast.AST, bool] = {}
        self._functions = {f.name: f for f in text.nodes if isinstance(f, ast.FunctionDef)}
        self._loops = [node for node in text.nodes if isinstance(node, ast.For)]
        self._visit(text.tree.body, [])

    def reads_clock(self, node: ast.AST) -> bool:
        """Does it call a clock, or a function of this file that does?"""
        if node not in self._reads:
            nodes = (node, *called_functions(self.text, node))
            calls = (part for outer in nodes for part in ast.walk(outer) if isinstance(part, ast.Call))
            self._reads[node] = any(reads_clock(self.text, call) for call in calls)
        return self._reads[node]

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
            if isinstance(call, ast.Call) and last(call.func) in self._functions:
                self._pass(call, self._functions[last(call.func)], conditions)

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
