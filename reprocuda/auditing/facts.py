"""What the recorder has to know of an aten overload, worked out once from its schema."""

from __future__ import annotations

import torch

# Their results hold whatever was in memory before.
_EMPTY = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "empty_quantized",
    "_empty_affine_quantized",
    "_empty_per_channel_affine_quantized",
    "new_empty",
    "new_empty_strided",
}

# In-place operators that do not read what they overwrite; every out= overload is another.
_OVERWRITES = {
    "uniform_",
    "normal_",
    "random_",
    "bernoulli_",
    "exponential_",
    "geometric_",
    "cauchy_",
    "log_normal_",
    "fill_",
    "zero_",
    "copy_",
    "_foreach_zero_",
    "_foreach_copy_",
}

# A copy of memory that was never written is still memory that was never written.
_COPIES = {"clone", "_to_copy", "copy_", "contiguous", "_foreach_copy_"}

# They change which storage a tensor looks at, not what is in it.
_REBINDS = {"set_", "resize_", "resize_as_", "_resize_output_"}

_NO_RECORD = ("profiler::", "prim::", "prims::")

# Asking for a value or a property: nothing of theirs can differ that did not differ before.
_QUERIES = {"is_pinned", "is_same_size", "_has_compatible_shallow_copy_type"}


class Facts:
    """One overload's facts."""

    __slots__ = (
        "_training",
        "copies",
        "empty",
        "lifts",
        "name",
        "overload",
        "overwrites",
        "rebinds",
        "seeded",
        "skip",
        "view",
        "write_names",
        "write_positions",
    )

    def __init__(self, overload: torch._ops.OpOverload):
        schema = overload._schema
        base = schema.name.split("::")[1]
        self.overload = overload  # kept alive: facts are found by its id
        self.name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        writes = [
            (position, argument)
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        self.write_positions = tuple(position for position, argument in writes if not argument.kwarg_only)
        self.write_names = tuple(argument.name for _, argument in writes)
        out = bool(writes) and all(argument.kwarg_only for _, argument in writes)
        self.overwrites = out or base in _OVERWRITES
        self.view = bool(schema.returns) and all(
            value.alias_info is not None and not value.alias_info.is_write for value in schema.returns
        )
        self.lifts = base in ("lift_fresh", "lift")
        self.empty = base in _EMPTY
        self.copies = base in _COPIES
        self.rebinds = base in _REBINDS
        names = [argument.name for argument in schema.arguments]
        self._training = names.index("training") if "batch_norm" in base and "training" in names else None
        self.seeded = torch.Tag.nondeterministic_seeded in overload.tags
        self.skip = schema.name.startswith(_NO_RECORD) or base in _QUERIES

    def is_training(self, args: tuple, kwargs: dict) -> bool:
        """Is this a batch norm, called in train mode?"""
        if self._training is None:
            return False
        return bool(args[self._training] if self._training < len(args) else kwargs.get("training"))


_facts: dict[int, Facts] = {}


def facts_of(overload: torch._ops.OpOverload) -> Facts:
    found = _facts.get(id(overload))
    if found is None:
        found = _facts[id(overload)] = Facts(overload)
    return found
