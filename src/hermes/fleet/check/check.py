"""Use case: measure a node, keep that, and compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.base.errors import Diagnostic, HermesError, QueryError
from hermes.fleet.check import history, measure, messages
from hermes.fleet.check.document import document
from hermes.fleet.check.reading import Reading
from hermes.model.document import Document


def measured(
    node: str, disk: Path, python: str | None, *, at_ns: int, environment: Mapping[str, str], scale: float = 1.0
) -> tuple[list[Reading], list[Diagnostic]]:
    """All readings of this node, and what could not be measured. Raises `HermesError`."""
    try:
        found = measure.host(node, disk, at_ns=at_ns, scale=scale)
    except OSError as refused:
        raise HermesError(messages.cannot_write(why=refused.strerror or ""), where=str(disk)) from refused
    if python is None:
        return found, []
    more = measure.devices(node, python, at_ns=at_ns, environment={**environment, "HERMES_CHECK_NODE": node})
    if more:
        return [*found, *more], []
    return found, [Diagnostic(level="info", message=messages.NO_TORCH, where=python, hint=messages.DO_PYTHON)]


def judged(folder: Path, notes: Sequence[Diagnostic], *, node: str = "") -> Document:
    """The history as a document, of all nodes or of one. Raises `HermesError` where it holds nothing of that."""
    readings, unread = history.read(folder)
    if not any(not node or one.node == node for one in readings):
        missing = messages.no_history(nodes=[node] if node else None)
        raise QueryError(missing, where=str(folder), hint=messages.DO_CHECK_FIRST)
    return document(folder, readings, [*notes, *unread], node)


__all__ = ["history", "judged", "measured"]
