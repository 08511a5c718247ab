"""reprocuda run: a script in a fresh interpreter, with what cannot be set in a running one."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from .._starting import CUBLAS, CUBLAS_DETERMINISTIC, MODE_NAMES
from .output import UsageError, check_json
from .script import add_script, check_script

_HASH_SEEDS = 2**32  # PYTHONHASHSEED is below this


def add(subparsers: argparse._SubParsersAction) -> None:
    text = "run a script seeded and deterministic from before its first line"
    parser = subparsers.add_parser(
        "run",
        help=text,
        description=f"{text.capitalize()}: a fresh interpreter gets PYTHONHASHSEED and CUBLAS_WORKSPACE_CONFIG, and "
        "reproducible(seed, mode) is called before the script. The exit code is the script's.",
    )
    parser.add_argument("--seed", type=int, default=42, help="the seed of every generator (42)")
    modes = "debug: raise at what stays nondeterministic (default); train: warn; fast: seeds only"
    parser.add_argument("--mode", choices=MODE_NAMES, default="debug", help=modes)
    ranks = "own: each rank of several draws numbers of its own (default); same: all draw rank 0's"
    parser.add_argument("--ranks", choices=["own", "same"], default="own", help=ranks)
    parser.add_argument("--hash-seed", type=int, metavar="N", help="PYTHONHASHSEED (as it is set, else the seed)")
    parser.add_argument("--json", metavar="FILE", help="write the run's manifest as JSON before the script starts")
    parser.add_argument("-m", dest="is_module", action="store_true", help="script is the name of a module")
    add_script(parser)
    parser.set_defaults(run=run)


def fresh_environment(seed: int, mode: str, hash_seed: int | None) -> dict[str, str]:
    """The environment a repeatable interpreter starts with: this process's, and what has to be set before it starts.

    Raises:
        UsageError: hash_seed is not from 0 to 4294967295.
    """
    environment = dict(os.environ)
    if hash_seed is None:
        present = environment.get("PYTHONHASHSEED", "")
        hash_seed = int(present) if present.isdecimal() else seed % _HASH_SEEDS
    if not 0 <= hash_seed < _HASH_SEEDS:
        raise UsageError(f"--hash-seed is {hash_seed}; it has to be from 0 to {_HASH_SEEDS - 1}")
    environment["PYTHONHASHSEED"] = str(hash_seed)
    # cuBLAS reads this once, when it is initialised. Where speed is asked for, it keeps its own workspaces.
    if mode != "fast" and environment.get(CUBLAS) not in CUBLAS_DETERMINISTIC:
        environment[CUBLAS] = CUBLAS_DETERMINISTIC[0]
    return environment


def run(arguments: argparse.Namespace) -> int:
    """Becomes the script: never returns, except by raising.

    Raises:
        UsageError: there is no such script, a seed is out of range, or Python ignores its environment.
    """
    if not arguments.is_module:
        check_script(arguments.script)
    if arguments.seed < 0:
        raise UsageError(f"--seed is {arguments.seed}; it must not be negative")
    if sys.flags.ignore_environment:
        raise UsageError("python -E and -I ignore PYTHONHASHSEED: start `reprocuda run` without them")
    if arguments.json == "-":
        raise UsageError("--json: give a file; standard output is the script's")
    check_json(arguments.json)
    settings = {
        "seed": arguments.seed,
        "mode": arguments.mode,
        "same_on_all_ranks": arguments.ranks == "same",
        "is_module": arguments.is_module,
        "manifest": arguments.json,
    }
    interpreter = [sys.executable, *subprocess._args_from_interpreter_flags()]
    launcher = ["-m", "reprocuda.cli.launcher", json.dumps(settings), arguments.script, *arguments.arguments]
    sys.stdout.flush()
    sys.stderr.flush()
    environment = fresh_environment(arguments.seed, arguments.mode, arguments.hash_seed)
    os.execve(sys.executable, [*interpreter, *launcher], environment)
