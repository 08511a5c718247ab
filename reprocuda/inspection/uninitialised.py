"""Memory that is read before anything was written to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .finding import Finding
from .source import Source, constant

_EMPTY = {
    "torch.empty", "torch.empty_like", "torch.empty_strided", "torch.empty_permuted", "numpy.empty",
    "numpy.empty_like",
}  # fmt: skip
_EMPTY_METHODS = {"new_empty", "new_empty_strided"}
# What reads the elements. Anything unknown is taken to write them: a tensor is often made to be filled by a call.
_READING_METHODS = {
    "sum", "mean", "item", "tolist", "numpy", "clone", "add", "add_", "mul", "mul_", "sub", "sub_", "div", "div_",
    "matmul", "mm", "dot", "max", "min", "argmax", "argmin", "exp", "abs", "norm", "softmax", "relu", "std", "var",
    "prod", "cumsum", "index_add", "index_add_", "scatter_add", "scatter_add_", "index_select", "gather", "addmm_",
    "backward", "sigmoid",
}  # fmt: skip
_READING_FUNCTIONS = {
    "add", "mul", "sub", "div", "matmul", "mm", "bmm", "dot", "sum", "mean", "exp", "abs", "norm", "softmax",
    "relu", "cat", "stack", "where", "einsum", "allclose", "equal", "max", "min", "argmax", "save", "linear",
    "index_add", "scatter_add",
}  # fmt: skip
_NEUTRAL_ATTRIBUTES = {
    "shape", "dtype", "device", "ndim", "size", "dim", "numel", "stride", "data_ptr", "is_cuda", "nbytes",
    "is_contiguous", "element_size", "requires_grad", "layout", "nelement", "untyped_storage", "itemsize",
    "is_floating_point", "__class__",
}  # fmt: skip
_VIEWS = {"view", "reshape", "T", "t", "transpose", "permute", "flatten", "unsqueeze", "squeeze", "to", "cuda", "float"}


def check_uninitialised(source: Source) -> Iterator[tuple[ast.AST, Finding]]:
    """code uninitialised: the result of an empty(...) is read first."""
    for call in source.calls:
        name = source.called(call)
        method = source.method(call)
        if (name not in _EMPTY and method not in _EMPTY_METHODS) or _has_no_elements(call):
            continue
        if _is_read(source, call):
            subject = name or f".{method}"
            text = "its elements are whatever the memory held, and they are read before anything is written"
            yield call, Finding("problem", "uninitialised", subject, text, "zeros(...), or fill it first")


def _has_no_elements(call: ast.Call) -> bool:
    sizes = [element for a in call.args for element in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
    return any(constant(size) == 0 and not isinstance(constant(size), bool) for size in sizes)


def _is_read(source: Source, node: ast.AST, depth: int = 0) -> bool | None:
    """True where the first thing done with the elements is to read them; None where it is not known yet."""
    parent = source.parents[node]
    if depth > 10:
        return None
    if isinstance(parent, (ast.BinOp, ast.UnaryOp)) or (isinstance(parent, ast.AugAssign) and node is parent.value):
        return True
    if isinstance(parent, ast.AugAssign):
        return True
    if isinstance(parent, ast.Attribute):
        if parent.attr in _NEUTRAL_ATTRIBUTES:
            return None
        if parent.attr in _VIEWS:
            outer = source.parents[parent]
            return _is_read(source, outer if isinstance(outer, ast.Call) else parent, depth + 1)
        return parent.attr in _READING_METHODS
    if isinstance(parent, ast.Call) and node in parent.args:
        owner, _, last = source.called(parent).rpartition(".")
        if last in ("isinstance", "len", "id", "type"):
            return None
        torch_function = owner in ("torch", "numpy", "torch.nn.functional")
        return torch_function and last in _READING_FUNCTIONS and not any(k.arg == "out" for k in parent.keywords)
    if isinstance(parent, ast.Subscript):
        stored = isinstance(parent.ctx, (ast.Store, ast.Del)) or node is parent.slice
        return False if stored else _is_read(source, parent, depth + 1)
    if isinstance(parent, (ast.Assign, ast.AnnAssign)) and node is parent.value:
        target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
        return _first_use_reads(source, target, depth) if isinstance(target, ast.Name) else False
    return False


def _first_use_reads(source: Source, target: ast.Name, depth: int) -> bool | None:
    for use in source.names(target, target.id):
        if use is target or (use.lineno, use.col_offset) <= (target.lineno, target.col_offset):
            continue
        if isinstance(use.ctx, ast.Store):
            return isinstance(source.parents[use], ast.AugAssign) and source.parents[use].target is use
        if source.function(use) is not source.function(target):
            return False  # read when that function is called: later, and elsewhere
        read = _is_read(source, use, depth + 1)
        if read is not None:
            return read
    return None
