"""Arguments of a wrong Python type, refused as torch's argument parser refuses them: in its class, before anything else
looks at them, and with a message that names the function, the argument, its value and what was expected.

What a function expects is read off its annotations, once, when it is defined. A call then compares types, which takes
about half a microsecond; only a type that is not among the plain ones is looked at more closely.
"""

from __future__ import annotations

import functools
import inspect
import operator
import reprlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def describe(value: object) -> str:
    """A value for a message: short, and without reading a tensor's data, for which a device would have to be waited."""
    if isinstance(value, Tensor):
        return f"a {value.dtype} tensor of shape {list(value.shape)}"
    return f"{type(value).__name__}: {reprlib.repr(value)}"


def is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _in_place_of_tensors(values: Iterable[object]) -> list[object]:
    """Objects that are no tensors, and that torch would hand the call to, by its `__torch_function__` protocol."""
    each = (part for value in values for part in (value if isinstance(value, (list, tuple)) else (value,)))
    return [part for part in each if hasattr(type(part), "__torch_function__") and not isinstance(part, Tensor)]


def is_integer(value: object) -> bool:
    """Whether torch takes `value` for an int: not a bool, but a tensor of one integer."""
    if isinstance(value, Tensor):
        integers = not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
        return value.dim() == 0 and integers
    if isinstance(value, (bool, torch.SymInt)):
        return not isinstance(value, bool)
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _stays_open(value: object) -> bool:
    """A number that a tracer leaves open."""
    return isinstance(value, (torch.SymInt, torch.SymFloat)) or (isinstance(value, Tensor) and torch.jit.is_tracing())


def _as_integer(value: object) -> object:
    return value if _stays_open(value) else operator.index(value)


def is_number(value: object) -> bool:
    """Whether torch takes `value` for a number: also a NumPy scalar, or a tensor of one element without a gradient."""
    if isinstance(value, Tensor):
        return value.dim() == 0 and not value.requires_grad
    if isinstance(value, (int, float, complex, torch.SymInt, torch.SymFloat)):
        return True
    return "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].generic)


def _as_number(value: object) -> object:
    if _stays_open(value):
        return value
    if "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].floating):
        return float(value)
    return value.item() if hasattr(value, "item") else value


@dataclass(frozen=True)
class Kind:
    """What an argument may be.

    Attributes:
        name: in messages.
        plain: types that it may have without another look.
        accepts: whether a value of any other type will do.
        plainly: what such a value is to the function.
    """

    name: str
    plain: frozenset[type] = frozenset()
    accepts: Callable[[object], bool] = field(default=lambda value: False)
    plainly: Callable[[object], object] = field(default=lambda value: value)


def _sequence_of(name: str, element: Callable[[object], bool]) -> Kind:
    def accepts(value: object) -> bool:
        return isinstance(value, (list, tuple)) and all(element(part) for part in value)

    return Kind(name, accepts=accepts)


def _is_real(value: object) -> bool:
    return is_number(value) and not (isinstance(value, complex) or (is_tensor(value) and value.is_complex()))


def _names_dtype(value: object) -> bool:
    return isinstance(value, type) and value in _PYTHON_DTYPES


# As torch has them.
_PYTHON_DTYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}
_ANY = Kind("anything", accepts=lambda value: True)
_REAL = Kind("float", frozenset((float, int, bool)), _is_real, _as_number)
_NUMBER = Kind("Number", frozenset((float, int, bool, complex)), is_number, _as_number)
# By what the annotations of public functions say. plan.py adds its own.
KINDS = {
    "None": Kind("None", frozenset((type(None),))),
    "Tensor": Kind("Tensor", frozenset((Tensor, torch.nn.Parameter)), is_tensor),
    "int": Kind("int", frozenset((int,)), is_integer, _as_integer),
    "bool": Kind("bool", frozenset((bool,)), lambda value: isinstance(value, torch.SymBool)),
    "float": _REAL,
    "Number": _NUMBER,
    "Alpha": _NUMBER,
    "str": Kind("str", frozenset((str,)), lambda value: isinstance(value, str)),
    "torch.dtype": Kind("torch.dtype", frozenset((torch.dtype,)), _names_dtype, _PYTHON_DTYPES.get),
    "Sequence[Tensor | None]": _sequence_of("sequence of Tensors", lambda part: part is None or is_tensor(part)),
    "Sequence[Tensor]": _sequence_of("sequence of Tensors", is_tensor),
    "Sequence[int]": _sequence_of("sequence of ints", is_integer),
    "Sequence[float]": _sequence_of("sequence of floats", _is_real),
    "tuple[Tensor, Tensor]": _sequence_of("tuple of two Tensors", is_tensor),
}


def _parts(annotation: str) -> Iterable[str]:
    """The members of a union, those inside of brackets left together."""
    depth, start = 0, 0
    for place, character in enumerate(annotation):
        depth += (character == "[") - (character == "]")
        if character == "|" and depth == 0:
            yield annotation[start:place].strip()
            start = place + 1
    yield annotation[start:].strip()


def _kind_of(annotation: object) -> Kind:
    if not isinstance(annotation, str):  # `cls`
        return _ANY
    members = [KINDS[part] for part in _parts(annotation)]
    if len(members) == 1:
        return members[0]

    def accepting(value: object) -> Kind | None:
        return next((kind for kind in members if kind.accepts(value)), None)

    return Kind(
        " or ".join(dict.fromkeys(kind.name for kind in members)),
        frozenset().union(*(kind.plain for kind in members)),
        lambda value: accepting(value) is not None,
        lambda value: accepting(value).plainly(value),
    )


def typed(function: Callable | None = None, *, leave: tuple[str, ...] = ()) -> Callable:
    """`function`, which refuses arguments of types that its annotations do not name. Compiled code does not check.
    Objects of torch's `__torch_function__` protocol that are no tensors are handed the call, as torch does.

    Args:
        leave: arguments that are not looked at, because torch does not.

    Raises:
        TypeError: an argument of another type.
        ValueError: an int of more than 64 bits, as torch has it.
    """
    if function is None:
        return functools.partial(typed, leave=leave)
    op, kinds, names = function.__name__, {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        kinds[name] = _ANY if name in leave else _kind_of(parameter.annotation)
        if parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(name)
    plain = [kinds[name].plain for name in names]

    def looked_at(name: str, value: object) -> object:
        """`value`, or the number that it stands for where one is expected."""
        kind = kinds.get(name, _ANY)  # of a name that it does not have Python complains
        if type(value) in kind.plain:
            return value
        if not kind.accepts(value):
            raise TypeError(f"{op}(): argument '{name}' must be {kind.name}, not {describe(value)}")
        return kind.plainly(value)

    def refuse_large(given: dict[str, object]) -> None:
        for name, value in given.items():
            counts = int in kinds[name].plain and float not in kinds[name].plain
            if counts and isinstance(value, int) and not _LOWEST <= value <= _HIGHEST:
                bits = value.bit_length()
                raise ValueError(f"{op}(): argument '{name}' must fit 64 bits, got an int of {bits} bits") from None

    @functools.wraps(function)
    def call(*args, **kwargs):
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        for value, types in zip(args, plain):  # noqa: B905 - either may be shorter, and `strict` costs
            if type(value) not in types:
                if others := _in_place_of_tensors(args):
                    return handle_torch_function(call, others, *args, **kwargs)
                args = (*map(looked_at, names, args), *args[len(names) :])
                break
        for name, value in kwargs.items():
            if name not in kinds or type(value) not in kinds[name].plain:
                if others := _in_place_of_tensors(kwargs.values()):
                    return handle_torch_function(call, others, *args, **kwargs)
                kwargs = {name: looked_at(name, value) for name, value in kwargs.items()}
                break
        try:
            return function(*args, **kwargs)
        except (RuntimeError, TypeError, OverflowError):
            given = dict(zip(names, args, strict=False)) | kwargs
            refuse_large({name: value for name, value in given.items() if name in kinds})
            raise

    # Dynamo counts recompilations by code object: one that all functions shared would soon be compiled too often.
    call.__code__ = call.__code__.replace(co_name=op)
    return call
