"""What the command `run` has to know before torch is imported."""

from __future__ import annotations

import os
import sys

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
CUBLAS_DETERMINISTIC = (":4096:8", ":16:8")
MODE_NAMES = ("debug", "train", "fast")


def is_run() -> bool:
    """Is this `python -m reprocuda run`, or the console script's?

    It becomes another interpreter, which imports torch itself: here that would double the time it takes to start.
    """
    if sys.argv[1:2] != ["run"]:
        return False
    if sys.argv[0] == "-m":  # its module is being looked for; what stands before its arguments ends with its name
        before = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
        return before[-1] == "reprocuda" or (before[-1].startswith("-") and before[-1].endswith("mreprocuda"))
    folder, name = os.path.split(os.path.realpath(sys.argv[0]))
    if os.path.splitext(name)[0] != "reprocuda":
        return False
    import sysconfig

    return folder == os.path.realpath(sysconfig.get_path("scripts"))
