"""One call a function of torch_scatter that is right for every dtype."""

import importlib

import torch

package = importlib.import_module("reprocuda.scatter")
INDEX, POINTERS = torch.tensor([0, 0, 2]), torch.tensor([0, 2, 2, 3])
NAMES = [function.__name__ for function in package.FUNCTIONS]


def call(name: str, src: torch.Tensor) -> torch.Tensor:
    result = getattr(package, name)(src, POINTERS if name.endswith("csr") else INDEX)
    return result[0] if isinstance(result, tuple) else result
