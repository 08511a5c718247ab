"""`import torch_scatter` served by reprocuda, each time in a process of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_imports_that_code_in_the_wild_has():
    out = run(
        "import reprocuda\n"
        "shim = reprocuda.scatter.install_shim()\n"
        "assert reprocuda.scatter.install_shim() is shim\n"
        "import importlib.util, torch, torch_scatter\n"
        "from torch_scatter import scatter, scatter_max, segment_csr\n"
        "from torch_scatter.composite import scatter_softmax, scatter_std\n"
        "import torch_scatter.scatter\n"
        "from torch_scatter.utils import broadcast\n"
        "assert broadcast(torch.tensor([0, 2]), torch.ones(2, 3), 0).tolist() == [[0, 0, 0], [2, 2, 2]]\n"
        "assert broadcast(torch.tensor([0, 2, 1]), torch.ones(2, 3), -1).tolist() == [[0, 2, 1], [0, 2, 1]]\n"
        "assert torch_scatter is shim and callable(torch_scatter.scatter)\n"
        "assert importlib.util.find_spec('torch_scatter') is not None\n"
        "assert scatter_max is reprocuda.scatter.scatter_max\n"
        "functions = importlib.import_module('reprocuda.scatter').FUNCTIONS\n"
        "assert set(dir(torch_scatter)) >= {function.__name__ for function in functions}\n"
        "print(scatter(torch.tensor([1., 2., 4.]), torch.tensor([0, 0, 1]), reduce='mean'))\n"
        "print(torch_scatter.__version__)\n"
    )
    assert out == "tensor([1.5000, 4.0000])\n2.1.2\n"


def test_not_once_the_real_one_is_there(tmp_path):
    out = run(
        "import sys, types, reprocuda\n"
        "real = sys.modules['torch_scatter'] = types.ModuleType('torch_scatter')\n"
        "try:\n"
        "    reprocuda.scatter.install_shim()\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
        "assert sys.modules['torch_scatter'] is real\n"
    )
    assert "the real torch_scatter has been imported already" in out


def test_the_example_runs():
    out = run(
        "import doctest, reprocuda\n"
        "import importlib; shim = importlib.import_module('reprocuda.scatter.shim')\n"
        "print(doctest.testmod(shim))\n"
    )
    assert out == "TestResults(failed=0, attempted=4)\n"
