"""A module `torch_scatter` made of these functions, for code that imports that package."""

from __future__ import annotations

import importlib.machinery
import sys
import types

# The version whose functions and arguments these are: packages compare it.
VERSION = "2.1.2"

_MARK = "__reprocuda_shim__"


def install_shim() -> types.ModuleType:
    """Lets `import torch_scatter` be served by reprocuda from now on, in this process.

    Do it before anything that asks for torch_scatter is imported: torch_geometric looks for it once, when it is
    imported.

    Returns:
        The module, whose `__version__` is that of the torch_scatter with these functions and arguments.

    Raises:
        RuntimeError: the real torch_scatter has been imported; who holds its functions would not notice.

    Example:
        >>> import torch, reprocuda
        >>> reprocuda.scatter.install_shim().__name__
        'torch_scatter'
        >>> from torch_scatter import scatter_max
        >>> scatter_max(torch.tensor([1., 3., 2.]), torch.tensor([0, 1, 1]))
        (tensor([1., 3.]), tensor([0, 1]))
    """
    from . import FUNCTIONS, composites, coo, csr, reductions, support

    present = sys.modules.get("torch_scatter")
    if present is not None:
        if hasattr(present, _MARK):
            return present
        raise RuntimeError(
            "install_shim(): the real torch_scatter has been imported already; call install_shim() before anything "
            "imports it"
        )
    functions = {function.__name__: function for function in FUNCTIONS}
    shim = _module("torch_scatter", __version__=VERSION, **functions, **{_MARK: True, "__path__": []})
    shim.__all__ = [*functions, "__version__"]
    parts = {
        "scatter": reductions,
        "segment_coo": coo,
        "segment_csr": csr,
        "composite": composites,
    }
    sys.modules["torch_scatter"] = shim
    for name, source in parts.items():
        contents = {key: function for key, function in functions.items() if hasattr(source, key)}
        # As in the real package, whose functions hide its modules of the same name.
        sys.modules[f"torch_scatter.{name}"] = _module(f"torch_scatter.{name}", **contents)
    shim.utils = sys.modules["torch_scatter.utils"] = _module("torch_scatter.utils", broadcast=support.broadcast_index)
    shim.composite = sys.modules["torch_scatter.composite"]
    return shim


def _module(name: str, **contents: object) -> types.ModuleType:
    module = types.ModuleType(name, "Served by reprocuda.scatter.")
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package="__path__" in contents)
    vars(module).update(contents)
    return module
