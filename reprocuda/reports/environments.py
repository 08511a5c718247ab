"""What two nested documents, such as two manifests, hold, and where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ABSENT = "(absent)"


def flatten(document: Any, name: str = "") -> dict[str, str]:
    """The leaves of a nested document by their dotted names, as text.

    Example:
        >>> flatten({"torch": {"version": "2.13"}, "gpus": ["A", "B"], "flags": {}})
        {'torch.version': '2.13', 'gpus.0': 'A', 'gpus.1': 'B', 'flags': '(none)'}
    """
    if isinstance(document, Mapping):
        children = list(document.items())
    elif isinstance(document, (list, tuple)):
        children = list(enumerate(document))
    else:
        return {name: "none" if document is None else str(document)}
    if not children:
        return {name: "(none)"} if name else {}
    leaves = {}
    for key, child in children:
        leaves |= flatten(child, f"{name}.{key}" if name else str(key))
    return leaves


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, a's value and b's value of every leaf that differs.

    Example:
        >>> differences({"seed": 1, "x": 2}, {"seed": 3})
        [('seed', '1', '3'), ('x', '2', '(absent)')]
    """
    left, right = flatten(a), flatten(b)
    names = [*left, *(name for name in right if name not in left)]
    pairs = [(name, left.get(name, _ABSENT), right.get(name, _ABSENT)) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]
