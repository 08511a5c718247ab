"""What differs between two manifests, by how likely it changes bits."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LIKELIHOODS = ("certain", "likely", "possible", "unlikely")

# By the beginning of a leaf's dotted name; the first that fits holds.
_RULES = tuple(
    (likelihood, re.compile(pattern))
    for likelihood, pattern in (
        ("certain", r"weights|optimizer\.sha256|data|seeds"),
        (
            "likely",
            r"script|arguments|git|optimizer|extra|operators|flags\.switches|environment\.(torch|gpus|threads)\b",
        ),
        ("likely", r"environment\.cpu\.isa|flags\.environment|packages\.(torch|reprocuda)$"),
        ("possible", r"environment\.(numpy|python|cpu\.model|cpu\.machine|reprocuda|variables)\b"),
        ("possible", r"packages\.(numpy|triton|nvidia-|transformers|accelerate|lightning|flash|xformers|torch)"),
        ("unlikely", r""),
    )
)
_NOT_COMPARED = ("created", "format", "version")
_ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One leaf that differs. `likelihood`, that it changes bits: "certain", "likely", "possible" or "unlikely"."""

    likelihood: str
    name: str
    a: str
    b: str

    def as_dict(self) -> dict[str, str]:
        return dataclasses.asdict(self)


def compare_documents(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    """The leaves that differ, the likeliest to change bits first, and in the documents' order among equals.

    Example:
        >>> found = compare_documents({"created": "now", "packages": {"rich": "14"}}, {"created": "then", "seeds": 3})
        >>> [(difference.likelihood, difference.name, difference.a, difference.b) for difference in found]
        [('certain', 'seeds', '(absent)', '3'), ('unlikely', 'packages.rich', '14', '(absent)')]
    """
    a, b = ({name: value for name, value in side.items() if name not in _NOT_COMPARED} for side in (a, b))
    found = [Difference(_likelihood(name), name, left, right) for name, left, right in different_leaves(a, b)]
    return tuple(sorted(found, key=lambda difference: LIKELIHOODS.index(difference.likelihood)))


def _likelihood(name: str) -> str:
    return next(likelihood for likelihood, pattern in _RULES if pattern.match(name))


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


def different_leaves(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, a's value and b's value of every leaf that differs."""
    left, right = flatten(a), flatten(b)
    names = [*left, *(name for name in right if name not in left)]
    pairs = [(name, left.get(name, _ABSENT), right.get(name, _ABSENT)) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]
