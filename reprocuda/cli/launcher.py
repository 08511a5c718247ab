"""The inside of `reprocuda run`: makes this interpreter reproducible, then runs the script as `python script` would.

Started as `python -m reprocuda.cli.launcher SETTINGS SCRIPT ARGUMENTS...`. The script finds its own `__main__`,
sys.argv and sys.path[0]; its exit code, tracebacks and signals are its own.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    settings = json.loads(sys.argv[1])
    sys.argv = sys.argv[2:]
    from ..main_script import execute, prepare
    from ..toolkit.modes import reproducible

    reproducible(
        seed=settings["seed"], mode=settings["mode"], rank="auto", same_on_all_ranks=settings["same_on_all_ranks"]
    )
    if settings["manifest"]:
        from .manifest import write_run

        write_run(settings, sys.argv[0], sys.argv[1:])
    execute(*prepare(sys.argv[0], settings["is_module"]))


if __name__ == "__main__":
    main()
