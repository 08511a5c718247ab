"""Whether two runs agree, by everything that is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..inspection.difference import compare_documents
from .divergence import Divergence


@dataclass(frozen=True)
class Verdict:
    """Whether two runs agree by each thing that can be compared; None: it was not.

    Attributes:
        audit: the records of an audit.
        histories: the losses and weights of two histories.
        environments: two manifests. Environments that differ are no difference of results, so they are looked at only
            where nothing else was compared.
    """

    audit: bool | None
    histories: bool | None
    environments: bool | None

    @property
    def compared(self) -> tuple[str, ...]:
        """What was: "audit", "histories", "environments"."""
        return tuple(name for name, same in asdict(self).items() if same is not None)

    @property
    def identical(self) -> bool | None:
        """Whether everything that was compared agrees; None: nothing was."""
        return all(getattr(self, name) for name in self.compared) if self.compared else None


def verdict(
    audit: Mapping[str, Any] | None, divergence: Divergence | None, manifests: Sequence[Mapping[str, Any]] = ()
) -> Verdict:
    """Whether two runs agree, from whatever is known.

    Args:
        audit: the document that `reprocuda audit --json` writes.
        divergence: what `divergence` found in two histories.
        manifests: both runs' manifests; fewer are not compared.

    Returns:
        A `Verdict`.

    Example:
        >>> verdict({"identical": True}, None)
        Verdict(audit=True, histories=None, environments=None)
        >>> verdict({"identical": True}, None).identical, verdict(None, None).identical
        (True, None)
    """
    of_audit = None if audit is None else bool(audit.get("identical"))
    of_histories = None if divergence is None else divergence.identical
    of_environments = None
    if audit is None and divergence is None and len(manifests) == 2:
        of_environments = not compare_documents(*manifests)
    return Verdict(of_audit, of_histories, of_environments)
