"""What differs between two manifests, by how likely it changes bits."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..reports.environments import differences

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
    """The leaves that differ, the likeliest to change bits first, and in the documents' order among equals."""
    a, b = ({name: value for name, value in side.items() if name not in _NOT_COMPARED} for side in (a, b))
    found = [Difference(_likelihood(name), name, left, right) for name, left, right in differences(a, b)]
    return tuple(sorted(found, key=lambda difference: LIKELIHOODS.index(difference.likelihood)))


def _likelihood(name: str) -> str:
    return next(likelihood for likelihood, pattern in _RULES if pattern.match(name))
