"""Packages that put functions of their own in torch's place as they are imported, for every test of the process."""

from types import ModuleType


class Replaced:
    """Undoes at its end what an import has replaced in a module.

    Attributes:
        values: what was put there, by name.
    """

    def __init__(self, module: ModuleType):
        self._module = module
        self.values: dict[str, object] = {}

    def __enter__(self) -> None:
        self._before = dict(vars(self._module))

    def __exit__(self, *_) -> None:
        for name, value in self._before.items():
            found = getattr(self._module, name)
            if found is not value and callable(value) and not name.startswith("_"):
                self.values[name] = found
                setattr(self._module, name, value)
