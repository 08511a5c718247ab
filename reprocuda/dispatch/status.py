"""status(): what is replaced now, what torch makes deterministic itself, what would raise, what torch.compile
bypasses.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

import torch

from ..tables import aligned
from .overrides import DEVICES, available, installed
from .registry import Operator, registry
from .scopes import stance

COLUMNS = ("operator", "device", "now", "tier", "aten overloads", "")

_COMPILE = (
    "torch.compile with inductor lowers scatter_add, index_add and index_put itself: compiled code does not reach "
    "the operators enabled here. Backends that keep aten's operators (aot_eager, eager) do, and so do reprocuda's "
    "functions in any compiled code. enable(strict=True) runs compiled functions eagerly."
)


@dataclass(frozen=True)
class OperatorStatus:
    """One operator on one device. `state`: "ours", "off", "shadowed" (another override is above ours) or "call
    only".
    """

    name: str
    device: str
    state: str
    tier: str
    overloads: tuple[str, ...]
    notes: str


@dataclass(frozen=True)
class Status:
    """What `status()` found; print it.

    Attributes:
        operators: reprocuda's operators, one entry a device.
        deterministic_in_torch: what torch.use_deterministic_algorithms(True) makes deterministic, by torch's own
        account.
        would_raise: what raises under it.
        flag: whether it is on now.
        compile_bypass: what torch.compile does not reach.
        compile_forced_eager: whether a strict scope makes compiled functions run eagerly at present.
    """

    operators: tuple[OperatorStatus, ...]
    deterministic_in_torch: tuple[str, ...]
    would_raise: tuple[str, ...]
    flag: bool
    compile_bypass: str
    compile_forced_eager: bool

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The table of operators, under the headings `COLUMNS`."""
        return [(o.name, o.device, o.state, o.tier, ", ".join(o.overloads), o.notes) for o in self.operators]

    @property
    def remarks(self) -> str:
        """All but the table, in words."""
        flag = "on" if self.flag else "off"
        eager = "Compiled functions run eagerly now. " if self.compile_forced_eager else ""
        return "\n\n".join(
            [
                _list(
                    f"torch.use_deterministic_algorithms is {flag}; it makes these deterministic",
                    self.deterministic_in_torch,
                ),
                _list("and these raise under it", self.would_raise),
                textwrap.fill(f"torch.compile: {eager}{self.compile_bypass}", 118),
            ]
        )

    def __str__(self) -> str:
        return f"{aligned(COLUMNS, self.rows)}\n\n{self.remarks}"


def _list(title: str, items: tuple[str, ...]) -> str:
    body = "\n".join(textwrap.fill(item, 116, initial_indent="  - ", subsequent_indent="    ") for item in items)
    return f"{title}:\n{body or '  (this torch does not say)'}"


def torch_lists() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The two lists in the documentation of torch.use_deterministic_algorithms, which follow the running version."""
    text = torch.use_deterministic_algorithms.__doc__ or ""
    sections = re.split(r"The following[^\n]*?operations will\s+", text)
    deterministic = next((s for s in sections[1:] if s.startswith("act")), "")
    raising = next((s for s in sections[1:] if s.startswith("throw")), "")
    return _items(deterministic), _items(raising)


def _items(section: str) -> tuple[str, ...]:
    """The bullets of a list in reStructuredText, roles and line breaks taken out."""
    items = []
    for bullet in re.split(r"\n\s*\*\s+", section)[1:]:
        first_paragraph = re.split(r"\n\s*\n", bullet)[0]
        items.append(re.sub(r"\s+", " ", re.sub(r":\w+:`~?([^`]*)`", r"\1", first_paragraph)).strip())
    return tuple(items)


def _state(operator: Operator, device: str) -> tuple[str, str]:
    if not operator.overrides:
        return "call only", operator.notes
    if not available(device):
        return "no kernels", operator.notes
    if not installed.switch(operator.overrides, device).on:
        return "off", operator.notes
    for slot in installed.slots(operator.overrides, device):
        above = slot.shadowed_by()
        if above is not None:
            return "shadowed", f"{slot.override.overload} has another override above ours: {above}"
    return "ours", operator.notes


def status() -> Status:
    """What reprocuda replaces in this process now, and what it does not.

    Returns:
        A `Status`, which prints as a table and three lists: the operators on each device; what torch itself makes
        deterministic under torch.use_deterministic_algorithms, and what raises under it, as its documentation says; and
        what torch.compile does not reach.

    Example:
        >>> import reprocuda
        >>> with reprocuda.enabled("index_add", devices="cpu", strict=True):
        ...     [o.name for o in reprocuda.status().operators if o.state == "ours"]
        ['index_add', 'repeat_interleave', 'index_select']
    """
    operators = []
    for device in DEVICES:
        for operator in registry.values():
            state, notes = _state(operator, device)
            operators.append(OperatorStatus(operator.name, device, state, operator.tier, operator.overloads, notes))
    deterministic, raising = torch_lists()
    return Status(
        tuple(operators),
        deterministic,
        raising,
        torch.are_deterministic_algorithms_enabled(),
        _COMPILE,
        stance.forced_eager,
    )
