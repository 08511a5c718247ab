"""The command: exit codes, what the script sees, what is written, what is refused."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import reprocuda
from reprocuda.cli import main

ROOT = Path(__file__).parents[2]


def audit(tmp_path, source, *options, arguments=()):
    script = tmp_path / "train.py"
    script.write_text(source)
    target = tmp_path / "verdict.json"
    code = main(["audit", *options, "--json", str(target), str(script), *arguments])
    return code, json.loads(target.read_text()) if target.exists() else None


def test_the_script_sees_itself_as_main(tmp_path, capfd):
    (tmp_path / "helper.py").write_text("def double(x):\n    return x * 2\n")
    source = """
import os, pickle, sys
import torch
from helper import double

class Thing:
    pass

if __name__ == "__main__":
    assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
    print("saw", sys.argv[1:], __file__ == sys.argv[0], os.getcwd() == os.environ["EXPECTED"])
    double(torch.ones(2))
    sys.exit(0)
"""
    os.environ["EXPECTED"] = os.getcwd()
    try:
        code, found = audit(tmp_path, source, arguments=("--json", "-m", "x"))
    finally:
        del os.environ["EXPECTED"]
    assert code == 0 and found["identical"]
    assert capfd.readouterr().out.count("saw ['--json', '-m', 'x'] True True") == 2


def test_the_documented_example_says_what_the_document_says(tmp_path, monkeypatch, capfd):
    text = (ROOT / "docs" / "audit.md").read_text()
    blocks = dict(re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL)[:2])
    (tmp_path / "train.py").write_text(blocks["python"])
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "train.py"]) == 1
    said = capfd.readouterr().out
    mask = functools.partial(re.sub, r"after \d+ equal", "after N equal")  # the count follows torch's version
    assert mask(said[said.index("different") :]) == mask(blocks["text"])
    # and the cure helps
    (tmp_path / "train.py").write_text(
        blocks["python"].replace("np.random.default_rng().normal()", "np.random.normal()")
    )
    assert main(["audit", "train.py"]) == 0


def test_a_module_runs_as_by_python_m(tmp_path, monkeypatch, capfd):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("value = 3.0\n")
    (package / "__main__.py").write_text(
        "import torch\nfrom .part import value\nprint(__package__, __spec__.name)\ntorch.full((2,), value)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "-m", "package"]) == 0
    assert capfd.readouterr().out.count("package package.__main__") == 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise KeyError('lost')", "KeyError: 'lost'"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9"),
        ("x = (", "SyntaxError: '(' was never closed"),
    ],
)
def test_a_script_that_fails_is_exit_code_2(tmp_path, capfd, source, said):
    code, found = audit(tmp_path, source)
    assert (code, found) == (2, None)
    errors = capfd.readouterr().err
    assert said in errors and "run 1 of the script" in errors
    assert "reprocuda/auditing/child.py" not in errors


DESCRIBE = """
import json, os, sys
main = sys.modules["__main__"]
with open(os.environ["SAID"], "w") as file:
    json.dump({
        "argv": sys.argv, "path": sys.path, "name": __name__, "file": __file__, "package": __package__,
        "spec": __spec__ and __spec__.name, "main": main.__dict__ is globals(), "cached": __cached__,
        "loader": type(__loader__).__name__, "variables": sorted(globals()),
    }, file)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    for folder in ("package", "folder", "elsewhere"):
        (tmp_path / folder).mkdir()
    for name in ("describe.py", "package/__main__.py", "folder/__main__.py"):
        (tmp_path / name).write_text(DESCRIBE)
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "elsewhere" / "link.py").symlink_to(tmp_path / "describe.py")
    monkeypatch.setenv("SAID", str(tmp_path / "said.json"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.parametrize("flags", [[], ["-P"]] if sys.version_info >= (3, 11) else [[]], ids=" ".join)
@pytest.mark.parametrize("started", [["elsewhere/link.py", "-m", "x"], ["-m", "package", "--lr", "3"], ["folder"]])
def test_a_script_sees_what_it_sees_under_python(project, flags, started):
    said = []
    for command in ([], ["-m", "reprocuda", "audit"]):
        subprocess.run([sys.executable, *flags, *command, *started], cwd=project, capture_output=True)
        said.append(json.loads((project / "said.json").read_text()) if (project / "said.json").exists() else "failed")
        (project / "said.json").unlink(missing_ok=True)
    assert said[0] == said[1]


@pytest.mark.parametrize("fault", ["def f():\n    1 / 0\nf()", "x = = 1", "import sys; sys.exit('gone')"])
def test_a_failure_is_told_as_python_tells_it(project, fault):
    (project / "faulty.py").write_text(fault)
    expected, found = (
        subprocess.run([sys.executable, *command, "faulty.py"], cwd=project, capture_output=True, text=True)
        for command in ([], ["-m", "reprocuda", "audit"])
    )
    assert expected.stderr and found.stderr.startswith(expected.stderr)
    assert found.stderr[len(expected.stderr) :].count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py"], "there is no script nowhere.py"),
        (["."], ". is a folder without __main__.py"),
        (["--vary", "weather", "x.py"], "no such thing as 'weather'"),
        (["--runs", "1", "x.py"], "has to be at least 2"),
        (["--steps", "0", "x.py"], "has to be at least 1"),
        ([], "required"),
    ],
)
def test_bad_usage_is_exit_code_2(capsys, arguments, said):
    try:
        code = main(["audit", *arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_steps_end_the_runs_and_kept_traces_compare(tmp_path, capfd):
    source = """
import torch
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(100):
    print("step", step)
    weight.sum().backward()
    optimizer.step()
"""
    kept = tmp_path / "traces"
    code, found = audit(tmp_path, source, "--steps", "3", "--keep", str(kept), "--runs", "3")
    assert code == 0 and found["runs"] == 3
    assert capfd.readouterr().out.count("step") == 9
    assert sorted(path.name for path in kept.iterdir()) == ["run1.trace", "run2.trace", "run3.trace"]
    assert reprocuda.compare(kept / "run1.trace", kept / "run3.trace").identical


def test_the_verdict_goes_to_stdout_alone(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\nprint('noise')\ntorch.rand(3)\n")
    command = [sys.executable, "-m", "reprocuda", "audit", "--json", "-", str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert (done.returncode, found["kind"], found["operator"], found["line"]) == (1, "randomness", "aten::rand", 3)
    assert {"identical", "kind", "operator", "file", "line", "module", "step", "cure"} <= found.keys()
    assert "noise" in done.stderr and "different" in done.stderr


def test_two_strings_in_a_set_are_tried_with_more_hash_seeds(tmp_path):
    source = """
import torch
weights = {"left": torch.ones(2), "right": torch.zeros(2)}
total = torch.zeros(2)
for name in {"left", "right"}:
    total = total + weights[name]
"""
    code, found = audit(tmp_path, source)
    assert (code, found["kind"], found["line"]) == (1, "control_flow", 5)
    assert "sorted" in found["cure"]


def test_a_hash_seed_of_the_users_own_is_kept(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    code, _ = audit(tmp_path, "import os, torch\nprint('seed', os.environ['PYTHONHASHSEED'])\ntorch.ones(2)\n")
    assert code == 0
    assert capfd.readouterr().out.count("seed 7") == 2


def test_workers_are_varied_on_request(tmp_path):
    source = """
import torch
from torch.utils.data import DataLoader, Dataset

class Noisy(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.rand(2)

if __name__ == "__main__":
    torch.manual_seed(0)
    for batch in DataLoader(Noisy(), 4):
        batch + 1
"""
    assert audit(tmp_path, source)[0] == 0
    code, found = audit(tmp_path, source, "--vary", "workers")
    assert (code, found["kind"], found["line"]) == (1, "environment", 9)
    assert "reprocuda.data.loader" in found["cure"]


def test_forked_children_write_nothing(tmp_path):
    source = """
import os, sys, torch
torch.ones(2)
child = os.fork()
if child == 0:
    torch.rand(2)
    sys.exit(0)
os.waitpid(child, 0)
torch.ones(3)
"""
    code, found = audit(tmp_path, source)
    assert code == 0 and found["records"] == 2


def test_an_interrupt_ends_all_processes_quietly(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import time, torch\nprint('started', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "reprocuda", "audit", str(script)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell has what it starts in the background ignore interrupts, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline() == "started\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in errors and "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
