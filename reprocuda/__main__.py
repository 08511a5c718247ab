"""The command line: python -m reprocuda status"""

from __future__ import annotations

import argparse
import sys

from . import build_info, status


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reprocuda", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("status", help="what reprocuda was built with, what it replaces, and what torch does by itself")
    parser.parse_args(arguments)
    for name, value in build_info().items():
        print(f"{name}: {value}")
    print()
    print(status())
    return 0


if __name__ == "__main__":
    sys.exit(main())
