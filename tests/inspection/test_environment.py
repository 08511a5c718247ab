"""doctor on the environment: each switch and variable has the severity that it deserves."""

import json
import subprocess
import sys

import pytest
import torch

import reprocuda
from reprocuda.inspection import environment
from reprocuda.inspection.doctor import doctor

pytestmark = [
    pytest.mark.filterwarnings("ignore::reprocuda.ReproducibilityWarning"),
    pytest.mark.filterwarnings("ignore::reprocuda.CompileWarning"),
]


def found(subject):
    """Severity and message of what doctor says of a setting; None where it says nothing."""
    return next(((f.severity, f.message) for f in doctor().findings if f.subject == subject), None)


@pytest.fixture
def a_torch_with_cuda(monkeypatch):
    """Only the version: enough for what is judged by settings and variables."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


def test_the_facts_are_those_of_this_process():
    facts = doctor().environment
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["torch"]["version"] == torch.__version__
    assert facts["threads"]["intra_op"] == torch.get_num_threads()
    assert facts["cpu"]["isa"] == torch.backends.cpu.get_cpu_capability()
    assert facts["reprocuda"] == reprocuda.build_info()
    assert json.loads(json.dumps(facts)) == facts


def test_the_flag():
    assert found("torch.use_deterministic_algorithms")[0] == "note"
    with reprocuda.reproducible(1, mode="debug"):
        assert found("torch.use_deterministic_algorithms")[0] == "ok"
        assert found("torch.utils.deterministic.fill_uninitialized_memory") is None
        torch.utils.deterministic.fill_uninitialized_memory = False
        assert found("torch.utils.deterministic.fill_uninitialized_memory")[0] == "note"
    with reprocuda.reproducible(1, mode="train"):
        assert found("torch.use_deterministic_algorithms") == (
            "note",
            "on, warning only: what has no deterministic form runs all the same",
        )


def test_the_operators():
    assert found("operators")[0] == "note" and found("torch.compile") is None
    with reprocuda.enabled("index_add", devices="cpu"):
        severity, message = found("operators")
        assert severity == "ok" and "index_add" in message
        assert found("torch.compile")[0] == "note"
    with reprocuda.enabled("index_add", devices="cpu", strict=True):
        assert found("torch.compile") is None


def test_the_libraries(a_torch_with_cuda):
    severity, message = found("libraries")
    assert severity == "problem" and reprocuda.build_info()["why_cuda_not_loaded"] in message


def test_cublas(a_torch_with_cuda, monkeypatch):
    assert found("CUBLAS_WORKSPACE_CONFIG")[0] == "note"
    torch._C._set_deterministic_algorithms(True, warn_only=False)
    try:
        assert found("CUBLAS_WORKSPACE_CONFIG")[0] == "problem"
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
        assert found("CUBLAS_WORKSPACE_CONFIG")[0] == "problem"
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
        assert found("CUBLAS_WORKSPACE_CONFIG")[0] == "ok"
    finally:
        torch._C._set_deterministic_algorithms(False, warn_only=False)


def test_nothing_is_said_of_cublas_without_cuda():
    assert torch.version.cuda is not None or found("CUBLAS_WORKSPACE_CONFIG") is None


def test_benchmark_is_a_warning(monkeypatch):
    assert found("torch.backends.cudnn.benchmark") is None
    assert doctor().exit_code == 0
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    assert found("torch.backends.cudnn.benchmark")[0] == "warning"
    assert doctor().exit_code == 1


def test_gpus_of_several_models_and_nccl(a_torch_with_cuda, monkeypatch):
    def cards(*names):
        card = {"capability": "9.0", "driver": "580.1"}
        monkeypatch.setattr(environment, "gpus", lambda: [{"name": name, **card} for name in names])

    monkeypatch.delenv("NCCL_ALGO", raising=False)
    cards("A")
    assert found("GPUs") is None and found("NCCL_ALGO") is None
    cards("A", "A")
    assert found("GPUs") is None and found("NCCL_ALGO")[0] == "note"
    cards("A", "B")
    assert found("GPUs")[0] == "warning"
    assert doctor().environment["driver"] == "580.1"
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    assert found("NCCL_ALGO") is None


def test_gpus_are_read_without_cuda_in_this_process(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H100, 9.0, 580.95'\necho 'NVIDIA A100, 8.0, 580.95'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert environment.gpus() == [
        {"name": "NVIDIA H100", "capability": "9.0", "driver": "580.95"},
        {"name": "NVIDIA A100", "capability": "8.0", "driver": "580.95"},
    ]
    assert not torch.cuda.is_initialized()
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert environment.gpus() == []


def test_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert found("OMP_NUM_THREADS")[0] == "note" and found("OMP_DYNAMIC") is None
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("OMP_DYNAMIC", "TRUE")
    assert found("OMP_NUM_THREADS")[0] == "ok" and found("OMP_DYNAMIC")[0] == "warning"


@pytest.mark.parametrize(
    ("outside", "inside", "severity"), [("7", None, "ok"), ("random", None, "note"), ("random", "7", "warning")]
)
def test_hashes(outside, inside, severity, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", outside)
    code = f"""
import os
if {inside!r}: os.environ["PYTHONHASHSEED"] = {inside!r}
import reprocuda
print(*[f.severity for f in reprocuda.doctor().findings if f.subject == "PYTHONHASHSEED"])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ran.stdout == f"{severity}\n", ran.stderr


def test_every_finding_that_is_not_ok_has_a_cure():
    assert all(f.cure for f in doctor().findings if f.severity != "ok")


def test_packages_are_those_installed_and_imported():
    versions = environment.packages()
    assert versions["torch"].startswith(torch.__version__.partition("+")[0])
    assert versions["pytest"] == pytest.__version__
    assert list(versions) == sorted(versions, key=str.lower)
