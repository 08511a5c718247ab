"""Brings the virtual environment it runs in up to date: `python environment.py 'torch>=2.11'`.

Installs the build requirements and all extras of pyproject.toml, and the torch that is asked for. Does nothing where it
did exactly that before, so every make target can afford to call it.
"""

import subprocess
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: pip carries the same parser
    from pip._vendor import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
STAMP = Path(sys.prefix) / "reprocuda-requirements.txt"


def wanted_requirements(torch_requirement: str) -> list[str]:
    settings = tomllib.loads(PYPROJECT.read_text())
    project = settings["project"]
    groups = [settings["build-system"]["requires"], project["dependencies"], *project["optional-dependencies"].values()]
    own = f"{project['name']}["  # an extra that names others, which are here anyway
    wanted = {requirement for group in groups for requirement in group if not requirement.startswith(own)}
    return [torch_requirement, *sorted(wanted)]


def main() -> None:
    requirements = wanted_requirements(sys.argv[1])
    stamp = "\n".join(requirements) + "\n"
    if STAMP.exists() and STAMP.read_text() == stamp:
        return
    print(f"installing into {sys.prefix}: {', '.join(requirements)}", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    if subprocess.run(pip).returncode != 0:
        sys.exit("pip could not install the requirements")
    STAMP.write_text(stamp)


if __name__ == "__main__":
    if sys.prefix == sys.base_prefix:
        sys.exit("run this with the Python of a virtual environment")
    main()
