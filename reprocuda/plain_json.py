"""JSON as its standard has it: any reader takes it, which Python's own NaN and Infinity would stop."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(document: Any) -> str:
    """`document` as indented JSON; a float that JSON lacks is the string "nan", "inf" or "-inf".

    Example:
        >>> print(dumps({"loss": float("nan")}))
        {
          "loss": "nan"
        }
    """
    return json.dumps(finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """A nest of dicts and lists, with these strings in the place of the floats that JSON lacks."""
    if isinstance(value, Mapping):
        return {key: finite(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(element) for element in value]
    return str(float(value)) if isinstance(value, float) and not math.isfinite(value) else value
