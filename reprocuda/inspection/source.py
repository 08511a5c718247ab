"""A parsed source file: which names stand for what, where a value goes, and which lines ask to be left alone."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_IGNORE = re.compile(r"#\s*reprocuda:\s*ignore(?:\[([\w\s,-]*)\])?")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass
class _Scope:
    """A module, class or function: its own names, and the imports made in it."""

    node: ast.AST
    parent: _Scope | None
    imports: dict[str, str] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    names: dict[str, list[ast.Name]] = field(default_factory=dict)


class Source:
    """One file's syntax tree, with parents, scopes and resolved names.

    Raises:
        SyntaxError: the file is no Python.
    """

    def __init__(self, path: Path, label: str | None = None):
        self.path = path
        self.label = label or str(path)
        text = path.read_bytes()
        self.tree = ast.parse(text, filename=str(path))
        self.parents: dict[ast.AST, ast.AST] = {}
        self._scopes: dict[ast.AST, _Scope] = {}
        self.ignored = _ignore_comments(text)
        self._build(self.tree, _Scope(self.tree, None))
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]

    def _build(self, root: ast.AST, module: _Scope) -> None:
        self.nodes: list[ast.AST] = []
        stack = [(root, module)]
        while stack:
            node, scope = stack.pop()
            self.nodes.append(node)
            self._scopes[node] = scope
            self._bind(node, scope)
            inner = scope
            if isinstance(node, (*_SCOPES, ast.ClassDef)):
                inner = _Scope(node, scope)
                if not isinstance(node, ast.ClassDef):
                    arguments = node.args
                    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                    every += [a for a in (arguments.vararg, arguments.kwarg) if a]
                    inner.bound.update(a.arg for a in every)
            outside = set(getattr(node, "decorator_list", ())) | {getattr(node, "returns", None)}
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                stack.append((child, scope if child in outside else inner))
        self.nodes.sort(key=_position)
        for scope in {id(scope): scope for scope in self._scopes.values()}.values():
            for mentions in scope.names.values():
                mentions.sort(key=_position)

    def _bind(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                scope.imports[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                scope.imports[alias.asname or alias.name] = f"{module}.{alias.name}" if module else alias.name
        elif isinstance(node, ast.Name):
            scope.names.setdefault(node.id, []).append(node)
            if isinstance(node.ctx, ast.Store):
                scope.bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope.bound.add(node.name)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def function(self, node: ast.AST) -> ast.AST | None:
        """The innermost function around the node; None at a module's or class's level."""
        return next((a for a in self.ancestors(node) if isinstance(a, _SCOPES)), None)

    def is_global(self, node: ast.AST) -> bool:
        return self._scopes[node].node is self.tree

    def resolve(self, node: ast.AST) -> str | None:
        """The dotted name an expression stands for, through imports and `alias = module.name`: "torch.nn.Linear".

        A builtin is its bare name. None for what is bound to anything else.
        """
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            return f"{owner}.{node.attr}" if owner else None
        if not isinstance(node, ast.Name):
            return None
        scope: _Scope | None = self._scopes[node]
        innermost = True
        while scope is not None:
            if innermost or not isinstance(scope.node, ast.ClassDef):
                if node.id in scope.imports:
                    return scope.imports[node.id]
                if node.id in scope.bound:
                    return self._alias(node.id, scope)
            innermost, scope = False, scope.parent
        return node.id if hasattr(builtins, node.id) else None

    def _alias(self, name: str, scope: _Scope) -> str | None:
        """What `name = np.random` makes of a name that is bound once, to a dotted name."""
        stores = [n for n in scope.names.get(name, ()) if isinstance(n.ctx, ast.Store)]
        parent = self.parents.get(stores[0]) if len(stores) == 1 else None
        if isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Attribute):
            root = parent.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id != name:
                found = self.resolve(parent.value)
                return found if found and "." in found else None
        return None

    def called(self, call: ast.Call) -> str:
        """The dotted name of what is called; "" where it is not known."""
        return self.resolve(call.func) or ""

    def method(self, call: ast.Call) -> str:
        """The name of a method called on a value (not of a function in a module); "" otherwise."""
        return call.func.attr if isinstance(call.func, ast.Attribute) and not self.called(call) else ""

    def names(self, node: ast.AST, name: str) -> list[ast.Name]:
        """Every mention of a name in the scope of node and in the functions inside it, in the file's order."""
        scope = self._scopes[node]
        return [
            n
            for n in self._mentions().get(name, ())
            if self._scopes[n] is scope or scope.node in self.ancestors(n) or scope.node is self.tree
        ]

    def _mentions(self) -> dict[str, list[ast.Name]]:
        if not hasattr(self, "_by_name"):
            self._by_name: dict[str, list[ast.Name]] = {}
            for node in self.nodes:
                if isinstance(node, ast.Name):
                    self._by_name.setdefault(node.id, []).append(node)
        return self._by_name

    def definition(self, use: ast.Name) -> ast.expr | None:
        """The expression last assigned to a name before this use, by the file's order."""
        found = None
        scope: _Scope | None = self._scopes[use]
        while scope is not None and found is None:
            for name in scope.names.get(use.id, ()):
                if isinstance(name.ctx, ast.Store) and (
                    scope is not self._scopes[use] or _position(name) < _position(use)
                ):
                    parent = self.parents[name]
                    if isinstance(parent, ast.AugAssign):
                        continue
                    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
                        found = parent.value if getattr(parent, "target", name) is name else None
                    else:
                        found = None
            if found is None and use.id in scope.bound:
                return None
            scope = scope.parent
        return found

    def uses(self, target: ast.Name) -> list[ast.Name]:
        """The reads that an assignment to a name reaches: those after it, until it is assigned for certain again.

        An assignment in a block does not end what one outside, or in another branch, has given.
        """
        reached = []
        for name in self.names(target, target.id):
            statement = self.statement(name)
            if _position(name) <= _position(target) or statement is self.statement(target):
                continue
            if isinstance(name.ctx, ast.Load):
                reached.append(name)
            elif self._is_certain(statement, name, target):
                reached += [n for n in ast.walk(statement.value) if isinstance(n, ast.Name) and n.id == name.id]
                break
        return reached

    def _is_certain(self, statement: ast.stmt, name: ast.Name, earlier: ast.Name) -> bool:
        """Whether an assignment to a name is made wherever the earlier one was."""
        same_scope = self._scopes[name] is self._scopes[earlier]
        in_reach = self._block(name) in self._blocks(self._block(earlier))
        return isinstance(statement, ast.Assign) and same_scope and in_reach

    def _block(self, node: ast.AST) -> tuple[ast.AST, str]:
        statement = self.statement(node)
        parent = self.parents[statement]
        fields = (name for name, value in ast.iter_fields(parent) if isinstance(value, list) and statement in value)
        return parent, next(fields, "")

    def _blocks(self, block: tuple[ast.AST, str]) -> Iterator[tuple[ast.AST, str]]:
        """A block and those around it."""
        yield block
        while block[0] in self.parents:
            block = self._block(block[0])
            yield block

    def is_ignored(self, node: ast.AST, code: str) -> bool:
        first = node.lineno
        last = first if isinstance(node, ast.stmt) else (node.end_lineno or first)
        lines = {*range(first, last + 1), self.statement(node).lineno}
        return any(code in self.ignored[line] or not self.ignored[line] for line in lines if line in self.ignored)

    def is_entry_point(self) -> bool:
        """Whether running this file does something: a `__main__` guard, or statements that call at the top level."""
        for statement in self.tree.body:
            if isinstance(statement, ast.If) and "__main__" in ast.dump(statement.test):
                return True
            if isinstance(statement, (ast.For, ast.While, ast.With)):
                return True
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                return True
        return False


def innermost_statement(tree: ast.AST, line: int) -> ast.stmt | None:
    """The innermost statement of a tree that a line belongs to; of several in one line, the last."""
    around = (node for node in ast.walk(tree) if isinstance(node, ast.stmt) and spans(node, line))
    return max(around, key=_position, default=None)


def spans(node: ast.AST, line: int) -> bool:
    return hasattr(node, "lineno") and node.lineno <= line <= (node.end_lineno or node.lineno)


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _ignore_comments(text: bytes) -> dict[int, set[str]]:
    """Line numbers with an ignore comment, and the codes it names; an empty set ignores everything."""
    found: dict[int, set[str]] = {}
    for token in tokenize.tokenize(io.BytesIO(text).readline):
        match = _IGNORE.search(token.string) if token.type == tokenize.COMMENT else None
        if match:
            found[token.start[0]] = {code.strip() for code in (match[1] or "").split(",") if code.strip()}
    return found


def keyword(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The argument of a call by its name or position; None where it is not given."""
    for given in call.keywords:
        if given.arg == name:
            return given.value
    if position is not None and position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args):
        return call.args[position]
    return None


def has_unpacked(call: ast.Call) -> bool:
    """Whether the call passes *args or **kwargs, so that an argument may be given unseen."""
    return any(given.arg is None for given in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


def constant(node: ast.AST | None, default: object = None) -> object:
    return node.value if isinstance(node, ast.Constant) else default
