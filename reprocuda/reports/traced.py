"""The calls of replaced operators in a trace of the audit, for `costs.measure`.

A trace has shapes, strides and plain arguments, and no values: the indices are drawn uniformly. It does not say on
which device an operator ran, so only those of a torch without CUDA are read; elsewhere `costs.Calls` notes the calls.
"""

from __future__ import annotations

import ast
import os
from typing import Any

import torch

from ..auditing.trace import Geometry, Reader
from ..dispatch.registry import replacing
from .costs import Call, Shape


def calls_of_trace(path: str | os.PathLike) -> list[Call]:
    """One `Call` for each replaced overload and form of its arguments.

    Args:
        path: a trace, as `reprocuda.Recorder` writes it.

    Returns:
        The calls; none if the run's torch had CUDA.

    Raises:
        ValueError: it is no trace.

    Example:
        >>> import tempfile, torch, reprocuda
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with reprocuda.Recorder(f"{folder}/run.trace"):
        ...         _ = torch.zeros(3).index_add(0, torch.tensor([0, 0, 2]), torch.ones(3), alpha=2)
        ...     [(call.overload, call.arguments, call.count) for call in calls_of_trace(f"{folder}/run.trace")]
        [('index_add', 'float32 [3], int64 [3], float32 [3]', 1)]
    """
    found: dict[tuple, Call] = {}
    with Reader(path, "reprocuda.reports.traced.calls_of_trace: path") as trace:
        if trace.header["torch"]["cuda"] is not None:
            return []
        for record in trace.records():
            namespace, _, overload = record.operator.partition("::")
            if namespace != "aten" or replacing(overload) is None:
                continue
            form = overload, record.arguments, tuple(given.geometry for given in record.inputs)
            if form in found:
                found[form].count += 1
                continue
            call = _call(*form)
            if call is not None:
                found[form] = call
    return list(found.values())


def _call(overload: str, arguments: str, geometries: tuple[str, ...]) -> Call | None:
    """None for arguments that the trace does not hold in a form to be built again."""
    found = [Geometry.parse(geometry) for geometry in geometries]
    try:
        plain = list(ast.literal_eval(arguments))
    except (ValueError, SyntaxError):
        return None
    if None in found:
        return None
    shapes = [Shape(geometry.shape, getattr(torch, geometry.dtype), "cpu") for geometry in found]
    name, _, kind = overload.partition(".")
    function = getattr(getattr(torch.ops.aten, name), kind or "default")
    args, kwargs = [], {}
    tensors = iter(shapes)
    try:
        for argument in function._schema.arguments:
            if argument.kwarg_only:
                continue
            if str(argument.type) == "Tensor":
                args.append(next(tensors))
            elif "Tensor" in str(argument.type):
                args.append([next(tensors) if part == "T" else None for part in plain.pop(0)])
            elif plain and not _is_keyword(plain[0]):
                args.append(plain.pop(0))
        kwargs = dict(plain)
        args = _with_indices(function._schema, args)
    except (StopIteration, IndexError, TypeError, ValueError):
        return None
    words = ", ".join(f"{str(shape.dtype).removeprefix('torch.')} {list(shape.shape)}" for shape in shapes)
    return Call(overload, replacing(overload).name, "cpu", words, 1, function, (tuple(args), kwargs), drawn=True)


def _is_keyword(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _with_indices(schema: torch.FunctionSchema, args: list[Any]) -> list[Any]:
    """The arguments with uniform indices in range, as the schema tells which they are and what they index.

    Raises:
        ValueError: it has none that is known to index something.
    """
    places = {argument.name: place for place, argument in enumerate(schema.arguments)}
    if {"index", "dim"} <= places.keys():
        place, bound = places["index"], args[0].shape[args[places["dim"]]]
        args[place] = _drawn(args[place], bound)
    elif {"indices", "num_weights"} <= places.keys():
        place, bound = places["indices"], args[places["num_weights"]]
        args[place] = _drawn(args[place], bound)
    elif "indices" in places and isinstance(args[places["indices"]], list):
        place = places["indices"]
        args[place] = [index and _drawn(index, size) for index, size in zip(args[place], args[0].shape, strict=False)]
    else:
        raise ValueError(f"{schema.name} has no argument that is known to be an index")
    return args


def _drawn(index: Shape, bound: int) -> Shape:
    generator = torch.Generator().manual_seed(0)
    if index.dtype == torch.bool:
        raise ValueError("a mask, of which the trace does not say how much it selects")
    values = torch.randint(max(bound, 1), index.shape, generator=generator).to(index.dtype)
    return Shape(index.shape, index.dtype, index.device, values)
