"""Callbacks for the libraries in which people train. Nothing of those libraries is imported before it is asked for:

- `reprocuda.integrations.lightning.ReproducibilityCallback`
- `reprocuda.integrations.transformers.ReproducibilityCallback`
"""

import importlib

_MODULES = ("lightning", "transformers")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
