"""The inside of `reprocuda run`: makes this interpreter reproducible, then runs the script as `python script` would.

Started as `python -m reprocuda.cli.launcher SETTINGS SCRIPT ARGUMENTS...`. The script finds its own `__main__`,
sys.argv and sys.path[0]; its exit code, tracebacks and signals are its own.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import types


def _module_to_run(name: str) -> importlib.machinery.ModuleSpec:
    """What `python -m name` runs: the module, or a package's `__main__`."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.__main__".startswith(error.name):
            raise  # a parent package is there, and fails by itself
        spec = None
    if spec is None or spec.loader is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    return spec


def _prepare_module(name: str) -> tuple[types.CodeType, types.ModuleType]:
    spec = _module_to_run(name)
    sys.argv[0] = spec.origin
    code = spec.loader.get_code(spec.name)
    return code, _new_main(file=spec.origin, loader=spec.loader, spec=spec, package=spec.parent, cached=spec.cached)


def _prepare_script(path: str) -> tuple[types.CodeType, types.ModuleType]:
    holder = importlib.machinery.PathFinder.find_spec("__main__", [path])  # a folder or archive with a __main__.py
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path)) if holder is None else os.path.abspath(path)
    if holder is not None:
        code = holder.loader.get_code("__main__")
        return code, _new_main(file=holder.origin, loader=holder.loader, spec=holder, package="", cached=holder.cached)
    file = os.path.abspath(path)
    with io.open_code(file) as source:
        code = compile(source.read(), file, "exec", dont_inherit=True)
    return code, _new_main(file=file, loader=importlib.machinery.SourceFileLoader("__main__", file))


def _new_main(*, file: str, loader: object, spec=None, package: str | None = None, cached=None) -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=file,
        __loader__=loader,
        __spec__=spec,
        __package__=package,
        __cached__=cached,
        __builtins__=__builtins__,
        __annotations__={},
    )
    return main


def _hide_launcher(main: types.ModuleType | None) -> None:
    """Lets the interpreter print an uncaught exception, in its own way, from the script's first frame on."""
    hook = sys.excepthook

    def print_from_the_script_on(kind, error, trace):
        while trace is not None and (main is None or trace.tb_frame.f_globals is not main.__dict__):
            trace = trace.tb_next
        error.__traceback__ = trace
        hook(kind, error, trace)

    sys.excepthook = print_from_the_script_on


def main() -> None:
    settings = json.loads(sys.argv[1])
    sys.argv = sys.argv[2:]
    from ..modes import reproducible

    reproducible(
        seed=settings["seed"], mode=settings["mode"], rank="auto", same_on_all_ranks=settings["same_on_all_ranks"]
    )
    if settings["manifest"]:
        from .manifest import write_run

        write_run(settings, sys.argv[0], sys.argv[1:])
    try:
        code, script = (_prepare_module if settings["is_module"] else _prepare_script)(sys.argv[0])
    except SyntaxError:
        _hide_launcher(None)
        raise
    sys.modules["__main__"] = script
    try:
        exec(code, script.__dict__)
    except SystemExit:
        raise
    except BaseException:
        _hide_launcher(script)
        raise


if __name__ == "__main__":
    main()
