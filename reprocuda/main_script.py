"""Running a script or module as `__main__` from within an interpreter, with nothing that it could notice.

`reprocuda run` and `reprocuda audit` start it this way, each after its own preparations.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import sys
import types


def prepare(target: str, is_module: bool) -> tuple[types.CodeType, types.ModuleType]:
    """Sets `sys.argv[0]`, `sys.path[0]` and `sys.modules["__main__"]` as the interpreter does for a script.

    Args:
        target: a script, or a folder or archive with a `__main__.py`; with is_module a name, as after `python -m`.
        is_module: which of these it is.

    Returns:
        Its code, and the new `__main__` to run it in: `execute` takes both.

    Raises:
        SystemExit: there is no such module, in the interpreter's own words.
        OSError: the script cannot be read.
        SyntaxError: it is no Python.
    """
    try:
        code, main = (_prepare_module if is_module else _prepare_script)(target)
    except SyntaxError:
        _hide_frames_before(None)
        raise
    sys.modules["__main__"] = main
    return code, main


def execute(code: types.CodeType, main: types.ModuleType) -> None:
    """Runs what `prepare` returned. What it raises passes through, and is printed as if the interpreter had run it."""
    try:
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException:
        _hide_frames_before(main)
        raise


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
    _set_first_path(os.getcwd())
    spec = _module_to_run(name)
    sys.argv[0] = spec.origin
    code = spec.loader.get_code(spec.name)
    return code, _new_main(file=spec.origin, loader=spec.loader, spec=spec, package=spec.parent, cached=spec.cached)


def _prepare_script(path: str) -> tuple[types.CodeType, types.ModuleType]:
    sys.argv[0] = path
    holder = importlib.machinery.PathFinder.find_spec("__main__", [path])
    if holder is not None:
        sys.path[: not _is_path_safe()] = [os.path.abspath(path)]  # its modules are beside it, -P or not
        code = holder.loader.get_code("__main__")
        return code, _new_main(file=holder.origin, loader=holder.loader, spec=holder, package="", cached=holder.cached)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    file = os.path.abspath(path)
    with io.open_code(file) as source:
        code = compile(source.read(), file, "exec", dont_inherit=True)
    return code, _new_main(file=file, loader=importlib.machinery.SourceFileLoader("__main__", file))


def _is_path_safe() -> bool:
    """Python was started with -P: no entry of sys.path stands for the script's surroundings."""
    return getattr(sys.flags, "safe_path", False)


def _set_first_path(folder: str) -> None:
    if not _is_path_safe():
        sys.path[0] = folder


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


def _hide_frames_before(main: types.ModuleType | None) -> None:
    """Lets the interpreter print an uncaught exception, in its own way, from the script's first frame on."""
    hook = sys.excepthook

    def print_from_the_script_on(kind, error, trace):
        while trace is not None and (main is None or trace.tb_frame.f_globals is not main.__dict__):
            trace = trace.tb_next
        error.__traceback__ = trace
        hook(kind, error, trace)

    sys.excepthook = print_from_the_script_on
