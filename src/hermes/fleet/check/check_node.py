"""Use case: measure this node, store the readings, and compare them with other nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.base.errors import Diagnostic, HermesError, QueryError
from hermes.fleet.check import history, measure_node, messages
from hermes.fleet.check.document import document
from hermes.fleet.check.node_reading import Reading
from hermes.model.document import Document


def measured(
    node: str, disk: Path, python: str | None, *, at_ns: int, environment: Mapping[str, str], scale: float = 1.0
) -> tuple[list[Reading], list[Diagnostic]]:
    """All readings of this node, and notes on what could not be measured. Raises `HermesError`."""
    try:
        found = measure_node.host(node, disk, at_ns=at_ns, scale=scale)
    except OSError as refused:
        raise HermesError(messages.cannot_write(why=refused.strerror or ""), where=str(disk)) from refused
    if python is None:
        return found, []
    more = measure_node.devices(node, python, at_ns=at_ns, environment={**environment, "HERMES_CHECK_NODE": node})
    if more:
        return [*found, *more], []
    return found, [Diagnostic(level="info", message=messages.NO_TORCH, where=python, hint=messages.DO_PYTHON)]


def judged(folder: Path, notes: Sequence[Diagnostic], *, node: str = "") -> Document:
    """The history of node checks as a document, for all nodes or for one. Raises `HermesError` for an empty history."""
    readings, unread = history.read(folder)
    if not any(not node or one.node == node for one in readings):
        missing = messages.no_history(nodes=[node] if node else None)
        raise QueryError(missing, where=str(folder), hint=messages.DO_CHECK_FIRST)
    return document(folder, readings, [*notes, *unread], node)


__all__ = ["history", "judged", "measured"]
