"""torch's operators that are nondeterministic on CUDA: which they are, and the status of each.

Nothing is listed twice: what reprocuda covers comes from its registry, what torch makes deterministic and what raises
from torch's own documentation of the running version.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ..dispatch.registry import registry
from ..dispatch.status import torch_lists
from .finding import Finding
from .source import Source, constant, has_unpacked, keyword

COVERED = "covered by reprocuda.enable()"
NATIVE = "made deterministic by torch under the flag"
RAISES = "raises under the flag"
UNKNOWN = "unknown"

_FLAG = "torch.use_deterministic_algorithms(True), which reprocuda.reproducible() sets"
_CURES = {
    COVERED: "reprocuda.enable(), or reprocuda.reproducible(seed)",
    NATIVE: _FLAG,
    RAISES: "another operator, or this one on the CPU; what differs is told by `python -m reprocuda audit`",
    UNKNOWN: "`python -m reprocuda audit` tells whether it differs",
}
# Operators on which torch's documentation is silent: kernels of other projects, and attention, whose backward depends
# on the kernel that is chosen.
_UNKNOWN = re.compile(
    r"^(torch\.nn\.functional\.scaled_dot_product_attention"
    r"|(torch_scatter|torch_sparse|torch_cluster|flash_attn|xformers)\..*)$"
)
# Conditions that no source shows.
_UNSEEN = re.compile(r"quantized|sparse")
_DEFAULTS = {"accumulate": "False", "mode": "mean"}
# Method names that belong to tensors alone. Others (median, cumsum, put) are also those of arrays and of own classes.
_TENSOR_METHODS = {
    "index_add", "index_add_", "scatter_add", "scatter_add_", "index_put", "index_put_", "index_select", "index_copy",
    "index_copy_", "scatter_reduce", "scatter_reduce_", "scatter", "scatter_", "put_", "histc", "bincount", "bmm",
    "repeat_interleave", "gather", "take_along_dim",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One operator with one status, where its documentation's condition holds."""

    status: str
    text: str
    conditions: tuple[tuple[str, str], ...] = ()  # (argument, its value), all of which have to hold


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _aliases(name: str) -> list[str]:
    """The other names of an operator of torch: a module's function, a method's function, the form in place."""
    owner, _, last = name.rpartition(".")
    names = [name]
    if owner == "torch.nn" and last[0].isupper():
        names.append(f"torch.nn.functional.{_snake(last)}")
    elif owner in ("torch", "torch.Tensor"):
        bare = last.rstrip("_") if not last.startswith("__") else last
        names += [f"torch.{bare}", f"torch.Tensor.{bare}", f"torch.Tensor.{bare}_"]
    return list(dict.fromkeys(names))


@cache
def table() -> dict[str, tuple[Entry, ...]]:
    """Every name of every such operator, with what is known of it."""
    found: dict[str, dict[Entry, None]] = {}

    def add(name: str, entry: Entry) -> None:
        for alias in _aliases(name):
            found.setdefault(alias, {})[entry] = None

    for operator in registry.values():
        summed = "its gradient depends" if operator.part == "backward" else "its result depends"
        on_cuda = any("cuda" in override.keys for override in operator.overrides)
        for name in operator.replaces if on_cuda else ():
            add(name, Entry(COVERED, f"on CUDA {summed} on the order in which threads write"))
    for status, items in zip((NATIVE, RAISES), torch_lists(), strict=True):
        for item in items:
            name = re.match(r"torch[\w.]+", item)
            if name and not ("CPU" in item and "CUDA" not in item) and not _UNSEEN.search(item):
                # "reduce='sum' or reduce='mean'": either will do, so each is an entry of its own
                conditions = [(value,) for value in re.findall(r"(\w+)=['\"]?([\w.]+)", item)] or [()]
                for condition in conditions:
                    add(name[0], Entry(status, f"torch says: {item.rstrip(':')}", condition))
    return {name: tuple(entries) for name, entries in found.items()}


def _holds(call: ast.Call, name: str, entry: Entry) -> bool:
    """Whether the condition may hold for this call: a value that cannot be seen may."""
    for argument, wanted in entry.conditions:
        given = keyword(call, argument, _positions(name).get(argument))
        if given is None and has_unpacked(call):
            continue
        value = _DEFAULTS.get(argument) if given is None else constant(given, default=wanted)
        if str(value) != wanted:
            return False
    if name.endswith(".bincount") and not has_unpacked(call):  # without weights it counts integers
        return keyword(call, "weights", 0 if name.startswith("torch.Tensor.") else 1) is not None
    return _special(call, name.rpartition(".")[2], entry)


def _positions(name: str) -> dict[str, int]:
    """Where a condition's argument stands when it is given by position; one less for a method."""
    last = name.rpartition(".")[2].rstrip("_")
    shift = 1 if name.startswith("torch.Tensor.") else 0
    places = {"index_put": {"accumulate": 3}, "put": {"accumulate": 3}, "scatter_reduce": {"reduce": 4}}
    return {argument: place - shift for argument, place in places.get(last, {}).items()}


def _special(call: ast.Call, last: str, entry: Entry) -> bool:
    """Conditions that torch's documentation says in words."""
    if last == "interpolate":
        mode = constant(keyword(call, "mode", 3), default=None if keyword(call, "mode", 3) is not None else "nearest")
        return mode not in ("nearest", "nearest-exact")
    if "``weights`` tensor is given" in entry.text:
        return keyword(call, "weights") is not None or len(call.args) > 1
    if "with indices output" in entry.text:
        return keyword(call, "dim") is not None or len(call.args) > 1
    if last in ("scatter", "scatter_") or "`src` type is Tensor" in entry.text:
        return keyword(call, "value") is None and not (call.args and isinstance(call.args[-1], ast.Constant))
    return True


def _caveat(call: ast.Call, name: str) -> str:
    """Where torch's documentation says more than its kernels do, or depends on what is not seen: no warning, then."""
    last = name.rpartition(".")[2]
    if last in ("NLLLoss", "nll_loss"):
        return "only for inputs with more than two dimensions"
    if last == "cumsum":
        return "not for integers"
    if last == "interpolate" and constant(keyword(call, "mode", 3)) in ("bilinear", "trilinear"):
        return "under the flag torch decomposes this mode into operators that repeat, which is slower"
    return ""


def named(source: Source, call: ast.Call) -> str | None:
    """The operator's name in torch: a function or module, or "torch.Tensor.name" for a method only tensors have."""
    name = source.called(call)
    if name:
        parts = name.split(".")
        if name.startswith("torch.nn.modules."):
            name = f"torch.nn.{parts[-1]}"
        if name == "torch.nn.functional.pad" and constant(keyword(call, "mode", 2)) in ("reflect", "replicate"):
            pads = keyword(call, "pad", 1)
            sides = len(pads.elts) // 2 if isinstance(pads, (ast.Tuple, ast.List)) else 2
            kind = "Reflection" if constant(keyword(call, "mode", 2)) == "reflect" else "Replication"
            return f"torch.nn.{kind}Pad{min(max(sides, 1), 3)}d"
        if name == "torch.nn.functional.cross_entropy":
            return None  # its target are classes of a matrix, or probabilities: not the kernel that raises
        return name
    method = source.method(call)
    if method not in _TENSOR_METHODS:
        return None
    if method in ("gather", "scatter", "take_along_dim", "bincount") and not _has_dimension(call, method):
        return None
    return f"torch.Tensor.{method}"


def _has_dimension(call: ast.Call, method: str) -> bool:
    """Distinguishes tensor.gather(1, index) from communicator.gather(tensor)."""
    if method == "bincount":
        return True
    first = keyword(call, "dim", 0)
    is_number = isinstance(constant(first), int) or (
        isinstance(first, ast.UnaryOp) and isinstance(constant(first.operand), int)
    )
    named_dim = any(k.arg == "dim" for k in call.keywords)
    return (is_number or named_dim) and len(call.args) + len(call.keywords) >= 2


def check_operators(source: Source) -> Iterator[tuple[ast.AST, Finding]]:
    """code operator: what is nondeterministic on CUDA, and its status."""
    for call in source.calls:
        name = named(source, call)
        if name is None:
            continue
        if _UNKNOWN.match(name):
            text = f"{UNKNOWN}: torch does not say whether its CUDA kernels repeat"
            yield call, Finding("note", "operator", name, text, _CURES[UNKNOWN])
            continue
        entries = [entry for entry in table().get(name, ()) if _holds(call, name, entry)]
        if not entries:
            continue
        best = min(entries, key=lambda entry: (COVERED, NATIVE, RAISES).index(entry.status))
        caveat = _caveat(call, name)
        severity = "warning" if best.status == RAISES and not caveat else "note"
        message = f"{best.status}; {best.text}" + (f" ({caveat})" if caveat else "")
        yield call, Finding(severity, "operator", name, message, _CURES[best.status])
