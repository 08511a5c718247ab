"""reprocuda run: the script must not notice how it was started, except that its runs repeat."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import textwrap

import pytest

from reprocuda import cli
from reprocuda._starting import MODE_NAMES, is_run
from reprocuda.cli.run import fresh_environment
from reprocuda.toolkit.modes import MODES

DESCRIBE = """
    import json, os, sys
    main = sys.modules["__main__"]
    def named(): pass
    print(json.dumps({
        "argv": sys.argv, "path0": sys.path[0], "name": __name__, "file": __file__, "package": __package__,
        "spec": __spec__ and __spec__.name, "main": main.__dict__ is globals(), "cached": __cached__,
        "loader": type(__loader__).__name__, "module": named.__module__, "variables": sorted(globals()),
    }))
"""


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    paths = [os.getcwd(), os.environ.get("PYTHONPATH")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))  # the scripts run in folders of their own


def python(*arguments, cwd):
    return subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300)


def run(*arguments, cwd):
    return python("-m", "reprocuda", "run", *arguments, cwd=cwd)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


@pytest.fixture
def project(tmp_path):
    write(tmp_path / "describe.py", DESCRIBE)
    write(tmp_path / "package" / "__init__.py", "")
    write(tmp_path / "package" / "__main__.py", DESCRIBE)
    write(tmp_path / "folder" / "__main__.py", DESCRIBE)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.py").symlink_to(tmp_path / "describe.py")
    return tmp_path


def test_torch_is_imported_once(project):
    done = python("-X", "importtime", "-m", "reprocuda", "run", "describe.py", cwd=project)
    imported = [line.split("|")[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert done.returncode == 0 and imported.count("reprocuda") == 2, done.stderr[-2000:]
    assert imported.count("torch") == 1


SCRIPTS = sysconfig.get_path("scripts")


@pytest.mark.parametrize(
    ("given", "argv", "expected"),
    [
        ("python -m reprocuda run train.py", "-m run train.py", True),
        ("python -X dev -mreprocuda run", "-m run", True),
        ("python -Im reprocuda run -m package", "-m run -m package", True),
        ("python -m reprocuda audit run", "-m audit run", False),
        ("python -m reprocuda.cli.launcher run", "-m run", False),
        ("python -m package run -m reprocuda run", "-m run -m reprocuda run", False),
        (f"python {SCRIPTS}/reprocuda run train.py", f"{SCRIPTS}/reprocuda run train.py", True),
        ("python ./reprocuda run train.py", "./reprocuda run train.py", False),
        ("python train.py run", "train.py run", False),
        ("python", "", False),
    ],
)
def test_only_the_command_run_goes_without_torch(given, argv, expected, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", given.split())
    monkeypatch.setattr(sys, "argv", argv.split() or [""])
    assert is_run() is expected


def test_modes_are_known_before_torch_is_imported():
    assert tuple(MODES) == MODE_NAMES


@pytest.mark.parametrize(
    "started",
    [
        ["elsewhere/link.py", "--seed", "7", "-m", "x", "--", "--json", "y"],
        ["-m", "package", "--lr", "3"],
        ["folder"],
        ["describe.py", "--", "--json", "y"],
        ["-m", "package", "--", "--"],
    ],
    ids=" ".join,
)
def test_a_script_sees_what_it_sees_under_python(project, started):
    expected = python(*started, cwd=project)
    found = run(*started, cwd=project)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == json.loads(expected.stdout)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("def f():\n    1 / 0\nf()", 1),
        ("x = = 1", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
    ],
)
def test_a_failure_is_the_scripts_own(tmp_path, fault, code):
    write(tmp_path / "faulty.py", fault)
    expected = python("faulty.py", cwd=tmp_path)
    found = run("faulty.py", cwd=tmp_path)
    assert expected.returncode == code
    assert (found.returncode, found.stderr) == (code, expected.stderr)


def test_a_failing_package_shows_its_own_traceback(tmp_path):
    write(tmp_path / "broken" / "__init__.py", "import no_such_module")
    found = run("-m", "broken", cwd=tmp_path)
    assert found.returncode == 1 and "No module named 'no_such_module'" in found.stderr
    missing = run("-m", "no_such_package.at_all", cwd=tmp_path)
    assert missing.returncode == 1 and "No module named no_such_package.at_all" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_random_numbers_and_hashes_repeat_and_follow_the_seed(tmp_path):
    write(tmp_path / "draw.py", "import random, torch; print(random.random(), torch.rand(1).item(), hash('word'))")
    draws = [run(*options, "draw.py", cwd=tmp_path).stdout for options in ([], ["--seed", "42"], ["--seed", "43"])]
    assert draws[0] == draws[1]
    assert all(a != b for a, b in zip(draws[0].split(), draws[2].split(), strict=True))


def test_the_mode_holds_in_the_script(tmp_path):
    code = """
        import torch, reprocuda
        flag = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        print(*flag, sum(operator.state == "ours" for operator in reprocuda.status().operators) > 0)
        torch.nn.functional.max_unpool1d(torch.ones(1, 1, 1), torch.zeros(1, 1, 1).long(), 2)
    """
    write(tmp_path / "state.py", code)
    debug, fast = (run("--mode", mode, "state.py", cwd=tmp_path) for mode in ("debug", "fast"))
    assert (debug.returncode, debug.stdout) == (1, "True False True\n")
    assert "NondeterministicError: max_unpool" in debug.stderr and "launcher.py" not in debug.stderr
    assert (fast.returncode, fast.stdout) == (0, "False False False\n")


def test_the_environment_has_what_a_running_interpreter_cannot_set(monkeypatch):
    def settings(seed=42, mode="debug", hash_seed=None):
        environment = fresh_environment(seed, mode, hash_seed)
        return environment["PYTHONHASHSEED"], environment.get("CUBLAS_WORKSPACE_CONFIG")

    assert settings(seed=5) == ("5", ":4096:8")
    assert settings(seed=2**32 + 1) == ("1", ":4096:8")
    assert settings(hash_seed=9) == ("9", ":4096:8")
    assert settings(mode="fast") == ("42", None)
    monkeypatch.setenv("PYTHONHASHSEED", "11")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    assert settings() == ("11", ":16:8")
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    assert settings() == ("42", ":4096:8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seed", "-1", "s.py"], "--seed is -1"),
        (["no_such.py"], "no script no_such.py"),
        (["."], ". is a folder without __main__.py"),
        (["--"], "required: script"),
        (["--hash-seed", "-1", "s.py"], "--hash-seed is -1"),
        (["--hash-seed", str(2**32), "s.py"], "--hash-seed is 4294967296"),
        (["--json", "s.py", "s.py"], "not a file for JSON"),
        (["--json", "no/such/folder/run.json", "s.py"], "no folder that exists"),
        (["--json", "-", "s.py"], "standard output is the script's"),
        (["--mode", "quick", "s.py"], "invalid choice: 'quick'"),
        ([], "required: script"),
    ],
)
def test_bad_usage(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s.py", "print('ran')")
    try:
        code = cli.main(["run", *arguments])
    except SystemExit as refused:  # argparse's way
        code = refused.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_an_interpreter_that_ignores_its_environment_is_refused(tmp_path):
    write(tmp_path / "s.py", "")
    start = "import sys; sys.path.insert(0, sys.argv[1]); from reprocuda import cli; sys.exit(cli.main(sys.argv[2:]))"
    found = python("-E", "-c", start, os.getcwd(), "run", "s.py", cwd=tmp_path)
    assert found.returncode == 2 and "ignore PYTHONHASHSEED" in found.stderr


def test_a_signal_from_outside_reaches_the_script(tmp_path):
    write(
        tmp_path / "wait.py",
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        print("ready", flush=True)
        time.sleep(250)
        """,
    )
    command = [sys.executable, "-m", "reprocuda", "run", "wait.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 3


def test_spawned_processes_find_the_main_module(tmp_path):
    write(
        tmp_path / "spawn.py",
        """
        import multiprocessing
        def double(x): return 2 * x
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
        """,
    )
    for started in (["spawn.py"], ["-m", "spawn"]):
        found = run(*started, cwd=tmp_path)
        assert found.stdout == "[2, 4]\n", found.stderr


def test_under_torchrun_each_rank_is_a_run(tmp_path):
    code = """
        import os, sys, torch
        own = torch.initial_seed() == 42
        # In one piece: torchrun takes the buffer away, and the ranks share a stream.
        sys.stdout.write(f"rank {os.environ['RANK']} {os.environ['PYTHONHASHSEED']} {sys.argv[1:]} {own}\\n")
    """
    write(tmp_path / "rank.py", code)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "reprocuda", "run"]
    found = python(*command, "rank.py", "--lr", "1", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert sorted(found.stdout.splitlines()) == ["rank 0 42 ['--lr', '1'] True", "rank 1 42 ['--lr', '1'] False"]
