"""The table of operators says on which devices each runs. Shown without a GPU: by what a call on the CPU is made of."""

import re
from pathlib import Path

import pytest
import torch
import torchgen
from torch.utils._python_dispatch import TorchDispatchMode

import reprocuda
from tests.operators.calls import FORWARD, READ, outcome
from tests.scatter.calls import NAMES
from tests.scatter.calls import call as call_scatter

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
CSRC = Path(__file__).parents[2] / "csrc"


def implemented(backend: str) -> set[str]:
    """The compiled operators that a backend registers, each family by its header in csrc/ops."""
    families = {}
    for header in (CSRC / "ops").glob("*.h"):
        text = header.read_text()
        for family, body in re.findall(r"void register_(\w+)\([^)]*\) \{(.*?)\n\}", text, re.S):
            families[family] = set(re.findall(r'library\.impl\("(\w+)"', body))
    registered = re.findall(r"register_(\w+)<\w+>\(library\)", (CSRC / backend / "registration.cpp").read_text())
    return set().union(*(families[family] for family in registered))


CUDA = implemented("cuda")


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.compiled = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        namespace, name = function._schema.name.split("::")
        if namespace == "reprocuda":
            self.compiled.add(name)
        return function(*args, **(kwargs or {}))


def used(name: str) -> set[str]:
    """The compiled operators of the calls in tests/operators/calls.py and tests/scatter/calls.py."""
    with Recorder() as recorder:
        if name.startswith("scatter."):
            src = torch.tensor([1.0, 0.0, 1.0], requires_grad=True)
            result = call_scatter(name.removeprefix("scatter."), src)
            result.sum().backward()
        else:
            dtype = torch.int64 if name == "bincount" else torch.float32
            assert isinstance(outcome(FORWARD.get(name) or READ[name], reprocuda, dtype), torch.Tensor)
    return recorder.compiled


def test_the_sources_are_read():
    """As torch's dispatcher says of the CPU, whose library is loaded here whatever the machine."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    operators = {s.name for s in torch._C._jit_get_all_schemas() if s.name.startswith("reprocuda::")}
    loaded = {name.removeprefix("reprocuda::") for name in operators if has(name, "CPU")}
    assert implemented("cpu") == loaded
    assert "index_add" in CUDA


@pytest.mark.parametrize("name", [*FORWARD, *READ, *(f"scatter.{name}" for name in NAMES)])
def test_what_runs_on_cuda_is_made_of_kernels_for_it(name):
    compiled = used(name)
    assert compiled or name in ("index_fill", "masked_scatter")  # which know no order
    if "cuda" in reprocuda.registry[name].devices:
        assert compiled <= CUDA


def native_kernels(text: str) -> dict[str, set[str]]:
    """The dispatch keys that torch's own list of functions gives a kernel, by overload."""
    found = {}
    for overload, body in re.findall(r"^- func: ([\w.]+)\((.*?)(?=^- func: |\Z)", text, re.M | re.S):
        keys = re.findall(r"^    (Sparse\w+(?:, \w+)*): ", body, re.M)
        found[overload] = {key for line in keys for key in line.split(", ")}
    return found


def test_what_is_replaced_for_sparse_tensors_is_there_in_torch_on_both_devices():
    """The keys for CUDA as well, which torch without CUDA has no kernels for."""
    path = "packaged/ATen/native/native_functions.yaml"
    kernels = native_kernels((Path(torchgen.__file__).parent / path).read_text())
    asked = [(o.overload, key) for op in reprocuda.registry.values() for o in op.overrides for key in o.keys.values()]
    sparse = [(overload, key) for overload, key in asked if key.startswith("Sparse")]
    assert {key for _, key in sparse} == {"SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA"}
    for overload, key in sparse:
        assert key in kernels[overload], (overload, key)


@pytest.mark.parametrize("name", reprocuda.registry)
def test_what_is_replaced_on_cuda_has_a_kernel_there(name):
    for override in reprocuda.registry[name].overrides:
        if override.compiled is not None and "cuda" in override.keys:
            assert override.compiled._schema.name.removeprefix("reprocuda::") in CUDA, override.overload
