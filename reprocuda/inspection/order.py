"""Orders that differ from run to run: of sets, of folders, of hashes and addresses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .finding import Finding
from .source import Source, constant

# Their result does not depend on the order of what they are given.
_ORDER_FREE = {
    "sorted", "len", "set", "frozenset", "any", "all", "min", "max", "bool", "isinstance", "type", "id",
    "collections.Counter", "natsort.natsorted", "numpy.sort", "numpy.unique", "torch.unique",
}  # fmt: skip
# Their result has the order of what they are given.
_ORDER_KEEPING = {
    "list", "tuple", "enumerate", "zip", "map", "filter", "iter", "reversed", "itertools.chain", "itertools.islice",
    "itertools.chain.from_iterable", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm", "copy.copy", "copy.deepcopy",
}  # fmt: skip
# What puts a set into an order, besides a loop.
_MATERIALISING = _ORDER_KEEPING | {"next", "sum", "dict.fromkeys", "str.join", "math.prod", "functools.reduce"}
_ORDER_FREE_METHODS = {
    "update", "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint",
    "difference_update", "intersection_update", "sort", "count",
}  # fmt: skip
_SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
_SET_ANNOTATION = re.compile(r"^(typing\.)?(Abstract|Mutable|frozen|Frozen)?[sS]et\b")
_LISTINGS = {"os.listdir", "os.scandir", "os.walk", "os.fwalk", "glob.glob", "glob.iglob"}
_PATH_LISTINGS = {"iterdir", "rglob", "glob"}
_REPORTING = {"print", "warnings.warn"}
_REPORTING_METHODS = {
    "debug", "info", "warning", "warn", "error", "exception", "critical", "log", "warning_once", "info_once",
    "warning_advice",
}  # fmt: skip
_TELLER = re.compile(r"(^|_)(warn|warning|log|print|info|debug|deprecation)(_once)?$")
_LOGGER = re.compile(r"log|warn|console|writer", re.IGNORECASE)


def is_reporting(source: Source, call: ast.Call) -> bool:
    """Whether a call only tells people something."""
    function = call.func
    if source.called(call) in _REPORTING or (isinstance(function, ast.Name) and _TELLER.search(function.id)):
        return True
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _REPORTING_METHODS
        and bool(_LOGGER.search(ast.unparse(function.value)))
    )


def is_set(source: Source, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression is a set, and one whose order may differ: not of numbers alone."""
    if depth > 8:
        return False
    if isinstance(node, ast.Set):
        return not all(isinstance(constant(e), (int, float)) for e in node.elts)
    if isinstance(node, ast.SetComp):
        return not _is_range(source, node.generators[0].iter) or not isinstance(node.elt, ast.Name)
    if isinstance(node, ast.Call):
        if source.called(node) in ("set", "frozenset"):
            return not (node.args and _is_range(source, node.args[0]))
        if source.method(node) in (*_SET_METHODS, "copy"):
            return is_set(source, node.func.value, depth + 1)
        return isinstance(node.func, ast.Name) and _returns_set(source, node.func.id, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)):
        sides = (node.left, node.right)
        return any(is_set(source, side, depth + 1) or _is_keys(side) for side in sides)
    if isinstance(node, ast.IfExp):
        return is_set(source, node.body, depth + 1) or is_set(source, node.orelse, depth + 1)
    if isinstance(node, ast.Name):
        given = source.definition(node)
        if given is not None:
            return is_set(source, given, depth + 1)
        return bool(_SET_ANNOTATION.match(_annotation(source, node)))
    if isinstance(node, ast.Attribute):
        return _is_set_attribute(source, node, depth)
    return False


def _returns_set(source: Source, name: str, depth: int) -> bool:
    """Whether every return of the file's function of that name gives a set."""
    function = next((s for s in source.tree.body if isinstance(s, ast.FunctionDef) and s.name == name), None)
    if function is None:
        return False
    if function.returns is not None:
        return bool(_SET_ANNOTATION.match(ast.unparse(function.returns)))
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and source.function(n) is function]
    return bool(returned) and all(value is not None and is_set(source, value, depth + 1) for value in returned)


def _is_range(source: Source, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and source.called(node) == "range"


def _is_keys(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def _annotation(source: Source, name: ast.Name) -> str:
    function = source.function(name)
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg == name.id and argument.annotation is not None:
                return ast.unparse(argument.annotation).strip("'\"")
    return ""


def _is_set_attribute(source: Source, node: ast.Attribute, depth: int) -> bool:
    """self.name, where every assignment to it in the class is a set."""
    if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        return False
    owner = next((a for a in source.ancestors(node) if isinstance(a, ast.ClassDef)), None)
    values = []
    for other in ast.walk(owner) if owner is not None else ():
        if isinstance(other, (ast.Assign, ast.AnnAssign)) and other.value is not None:
            targets = other.targets if isinstance(other, ast.Assign) else [other.target]
            if any(isinstance(t, ast.Attribute) and ast.unparse(t) == f"self.{node.attr}" for t in targets):
                values.append(other.value)
    return bool(values) and all(is_set(source, value, depth + 1) for value in values)


def order_matters(source: Source, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether the order of the elements of `node`, a sequence or iterator, reaches anything."""
    if node in seen or len(seen) > 40:
        return False
    seen = seen | {node}
    parent = source.parents[node]
    if isinstance(parent, ast.keyword):
        parent = source.parents[parent]
    if isinstance(parent, ast.Call):
        if node is parent.func:
            return True
        name = source.called(parent)
        if name in _ORDER_FREE or is_reporting(source, parent):
            return False
        if name in _ORDER_KEEPING:
            return order_matters(source, parent, seen)
        if isinstance(parent.func, ast.Attribute) and parent.func.attr in _ORDER_FREE_METHODS:
            return parent.func.attr == "update" and not is_set(source, parent.func.value)
        return not _only_reported(source, parent)
    if isinstance(parent, ast.Attribute):
        return parent.attr != "sort" and parent.attr not in _ORDER_FREE_METHODS
    if isinstance(parent, ast.Compare):
        return node is parent.left and not isinstance(parent.ops[0], (ast.In, ast.NotIn))
    if isinstance(parent, ast.comprehension):
        return node is parent.iter and _comprehension_matters(source, source.parents[parent], seen)
    if isinstance(parent, (ast.For, ast.AsyncFor)):
        return not all(_is_order_free(source, statement) for statement in parent.body)
    if isinstance(parent, (ast.If, ast.While, ast.Assert, ast.UnaryOp, ast.Expr, ast.Raise, ast.Set)):
        return False
    if isinstance(parent, ast.IfExp):
        return node is not parent.test and order_matters(source, parent, seen)
    if isinstance(parent, (ast.BinOp, ast.Starred, ast.BoolOp, ast.NamedExpr, ast.FormattedValue, ast.JoinedStr)):
        return order_matters(source, parent, seen)
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        return _assignment_matters(source, parent, seen)
    return True


def _comprehension_matters(source: Source, comprehension: ast.AST, seen: frozenset[ast.AST]) -> bool:
    if isinstance(comprehension, ast.SetComp):
        return False
    return isinstance(comprehension, ast.DictComp) or order_matters(source, comprehension, seen)


def _assignment_matters(source: Source, statement: ast.Assign | ast.AnnAssign, seen: frozenset[ast.AST]) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    target = targets[0]
    if isinstance(target, ast.Attribute):
        text = re.escape(ast.unparse(target))
        whole = source.path.read_text(encoding="utf-8", errors="replace")
        return not re.search(rf"{text}\.sort\(|sorted\({text}\b", whole)
    if len(targets) > 1 or not isinstance(target, ast.Name):
        return True
    uses = source.uses(target)
    if not uses and source.is_global(target):
        return True  # another module may import it
    for use in uses:
        attribute = source.parents[use]
        if isinstance(attribute, ast.Attribute) and attribute.attr == "sort":
            return False
    return any(order_matters(source, use, seen) for use in uses)


def _only_reported(source: Source, node: ast.AST) -> bool:
    """Whether an expression ends in a message to people or in an exception."""
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, ast.Raise) or (isinstance(ancestor, ast.Call) and is_reporting(source, ancestor)):
            return True
        if isinstance(ancestor, ast.stmt):
            return False
    return False


def _is_order_free(source: Source, statement: ast.stmt) -> bool:
    """Whether a loop's statement does the same whatever the order of the iterations."""
    if isinstance(statement, (ast.Pass, ast.Continue, ast.Assert, ast.Raise, ast.Delete)):
        return True
    if isinstance(statement, (ast.If, ast.For, ast.With)):
        return all(_is_order_free(source, s) for s in (*statement.body, *getattr(statement, "orelse", ())))
    if isinstance(statement, ast.Return):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method == "update":
            return is_set(source, call.func.value)
        name = source.called(call)
        return is_reporting(source, call) or method in ("add", "discard", "remove") or name in ("setattr", "delattr")
    if isinstance(statement, ast.AugAssign):  # counting; sums of floats have an order
        return isinstance(statement.op, (ast.Add, ast.Sub)) and isinstance(constant(statement.value), int)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def check_sets(source: Source) -> Iterator[tuple[ast.AST, Finding]]:
    """code set-order: the elements of a set in the order of its iteration."""
    for node in source.nodes:
        if not isinstance(node, (ast.Set, ast.SetComp, ast.Call, ast.BinOp, ast.Name, ast.Attribute)):
            continue
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) or not _is_put_in_order(source, node):
            continue
        if is_set(source, node):
            yield (
                node,
                Finding(
                    "warning",
                    "set-order",
                    ast.unparse(node)[:60],
                    "a set's order follows hash(), which differs from run to run for str and for objects",
                    "sorted(...), or dict.fromkeys(...) in place of set(...); PYTHONHASHSEED fixes hashes of str only",
                ),
            )


def _is_put_in_order(source: Source, node: ast.AST) -> bool:
    """Whether a set, standing here, is iterated and its order reaches something."""
    parent = source.parents.get(node)
    if isinstance(parent, (ast.For, ast.AsyncFor)):
        return node is parent.iter and order_matters(source, node)
    if isinstance(parent, ast.comprehension):
        return node is parent.iter and order_matters(source, node)
    if isinstance(parent, ast.Starred):
        return order_matters(source, parent)
    if isinstance(parent, ast.Attribute) and parent.attr == "pop":
        call = source.parents[parent]
        return isinstance(call, ast.Call) and not call.args and not isinstance(source.parents[call], ast.Expr)
    if isinstance(parent, ast.Call) and node in parent.args:
        joins = isinstance(parent.func, ast.Attribute) and parent.func.attr in ("join", "extend", "fromkeys")
        if joins or source.called(parent) in _MATERIALISING:
            return not _only_reported(source, parent) and order_matters(source, parent)
        return source.called(parent) in ("numpy.array", "torch.tensor", "random.sample", "random.choice")
    return False


def check_listings(source: Source) -> Iterator[tuple[ast.AST, Finding]]:
    """code listing-order: the entries of a folder in the order of the file system."""
    for call in source.calls:
        method = source.method(call)
        if source.called(call) not in _LISTINGS and not (method in _PATH_LISTINGS and _is_path(source, call)):
            continue
        if source.called(call) in ("os.walk", "os.fwalk") and "sort" in ast.unparse(source.statement(call)):
            continue
        if order_matters(source, call):
            yield (
                call,
                Finding(
                    "warning",
                    "listing-order",
                    ast.unparse(call.func),
                    "the order of a folder's entries is the file system's, and differs between machines and copies",
                    "sorted(...) around it",
                ),
            )


def _is_path(source: Source, call: ast.Call) -> bool:
    """iterdir and rglob are a path's alone; glob has one argument, a pattern."""
    return call.func.attr != "glob" or (len(call.args) == 1 and not call.keywords)


def check_hashes(source: Source) -> Iterator[tuple[ast.AST, Finding]]:
    """code hash-order: hash() or id() in an index, a remainder, a seed or an order."""
    for call in source.calls:
        name = source.called(call)
        if name in ("hash", "id") and call.args and not isinstance(constant(call.args[0]), (int, float)):
            function = source.function(call)
            if getattr(function, "name", "") not in ("__hash__", "__eq__") and _is_index(source, call, name):
                yield call, _hash_finding(ast.unparse(call)[:60], name)
        for given in call.keywords:
            if given.arg == "key" and source.resolve(given.value) in ("hash", "id"):
                yield given.value, _hash_finding(f"key={ast.unparse(given.value)}", source.resolve(given.value))


def _hash_finding(subject: str, name: str) -> Finding:
    if name == "id":
        text = "id() is an address in memory, another one in each run"
        return Finding("warning", "hash-order", subject, text, "a number of your own: a counter, or the position")
    text = "hash() of a str, or of what holds one, is another number in each run unless PYTHONHASHSEED is set"
    cure = "zlib.crc32(text.encode()) or hashlib; or start with `python -m reprocuda run`"
    return Finding("warning", "hash-order", subject, text, cure)


def _is_index(source: Source, node: ast.AST, name: str, depth: int = 0) -> bool:
    parent = source.parents[node]
    if depth > 6:
        return False
    if isinstance(parent, ast.BinOp):
        if isinstance(parent.op, (ast.Mod, ast.BitAnd, ast.RShift, ast.FloorDiv)) and node is parent.left:
            return True
        return _is_index(source, parent, name, depth + 1)
    if isinstance(parent, ast.Subscript) and node is parent.slice:
        return name == "hash"  # tables by address are looked up, not walked
    if isinstance(parent, ast.UnaryOp):
        return _is_index(source, parent, name, depth + 1)
    if isinstance(parent, ast.Call) and node in parent.args:
        called = source.called(parent) or (parent.func.attr if isinstance(parent.func, ast.Attribute) else "")
        if called in ("abs", "int", "round"):
            return _is_index(source, parent, name, depth + 1)
        return "seed" in called.lower() or called in ("random.Random", "numpy.random.default_rng", "divmod")
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        return any(_is_index(source, use, name, depth + 1) for use in source.uses(parent.targets[0]))
    return False
