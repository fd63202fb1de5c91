"""The document of a node check: the nodes that stand out, then every reading."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from hermes.base.errors import Diagnostic
from hermes.fleet.check import messages
from hermes.fleet.check.compare_nodes import LEAST_BEFORE, LEAST_NODES, SlowNode, latest, slow_nodes
from hermes.fleet.check.node_reading import FLOPS, UNITS, Check, Reading
from hermes.knowledge.confidence import confidence
from hermes.knowledge.identify_chip import chip_of
from hermes.model.document import Column, Document, DocumentInput, Table
from hermes.model.finding import Action, Evidence, Finding
from hermes.model.leaf import Risk

SCHEMA = "hermes.fleet-check/1"


def document(folder: Path, readings: Sequence[Reading], notes: Sequence[Diagnostic], node: str = "") -> Document:
    """The document of all nodes or of one. `facts` say whether readings were compared, and which nodes stand out."""
    found = [one for one in slow_nodes(readings) if not node or one.node == node]
    names = list(dict.fromkeys(one.node for one in found))
    now = latest(readings)
    nodes = {one.node for one in now}
    compared = _compared(readings, now)
    if found:
        answer = messages.stands_out(nodes=names, n=len(nodes))
    elif compared:
        answer = messages.none_stands_out(n=1 if node else len(nodes))
    else:
        answer = messages.too_few(least=LEAST_NODES)
    return Document(
        schema=SCHEMA, inputs=(DocumentInput(path=str(folder), role="history", facts={"nodes": len(nodes)}),),
        answer=answer,
        coverage=tuple(notes), findings=tuple(map(_finding, found)), facts={"compared": compared, "slow": names},
        parts=(_table([one for one in now if not node or one.node == node]),),
    )  # fmt: skip


def _compared(readings: Sequence[Reading], now: Sequence[Reading]) -> bool:
    """Whether there are enough nodes, a known chip, or a long enough past to compare with."""
    if len({one.node for one in now}) >= LEAST_NODES:
        return True
    if any(one.check in (Check.DEVICE_MATRIX, Check.DEVICE_MEMORY) and chip_of(one.chip) for one in now):
        return True
    return max((sum(one.node == of.node and one.check is of.check for one in readings) for of in now), default=0) > (
        LEAST_BEFORE + 2
    )


def _finding(one: SlowNode) -> Finding:
    day = None if one.since_ns is None else datetime.fromtimestamp(one.since_ns // 10**9, timezone.utc).isoformat()
    return Finding(
        code=one.check.value, about=Risk.SLOWER, confidence=confidence("fleet.check"),
        message=messages.slow(
            node=one.node, what=one.check.message, part=one.part or None, rate=rate(one.check, one.value),
            usual=rate(one.check, one.usual), missing=one.share, against=one.against.message, since=day,
        ),
        evidence=(Evidence(what=one.check.message, value=one.value, unit=UNITS[one.check], threshold=one.usual,
                           where=one.node),),
        actions=(Action(title=messages.DO_DRAIN, do="", verify="", risk="", source=""),),
    )  # fmt: skip


def rate(check: Check, value: float) -> str:
    """A rate in its usual unit, such as `612 TFLOP/s` or `3.1 GB/s`."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= factor and (prefix != "T" or UNITS[check] == FLOPS):
            return f"{value / factor:.3g} {prefix}{'FLOP/s' if UNITS[check] == FLOPS else 'B/s'}"
    return f"{value:.3g} {'FLOP/s' if UNITS[check] == FLOPS else 'B/s'}"


def _table(now: Sequence[Reading]) -> Table:
    ordered = sorted(now, key=lambda one: (one.check.value, one.node, one.part))
    columns = (
        Column(key="node", title=messages.NODE, kind="name"), Column(key="check", title=messages.CHECK, kind="name"),
        Column(key="part", title=messages.PART, kind="name"), Column(key="rate", title=messages.RATE, kind="name"),
    )  # fmt: skip
    rows = [(one.node, one.check.value, one.part or None, rate(one.check, one.value)) for one in ordered]
    return Table(key="readings", title=messages.NODES, columns=columns, rows=rows)
