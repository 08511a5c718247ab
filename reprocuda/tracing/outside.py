"""What compiled code leaves its graph for. Imported only where Dynamo is, which takes seconds to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


@torch.compiler.disable
def call(function: Callable, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
