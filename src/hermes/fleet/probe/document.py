"""The document of a network probe: named links and hosts first, then every pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hermes.base.errors import Diagnostic
from hermes.base.units import duration
from hermes.fleet.probe import messages
from hermes.fleet.probe.host_pairs import Host
from hermes.fleet.probe.measure_network import Call
from hermes.fleet.probe.network_faults import NamedFault, PathFault, name_faults
from hermes.knowledge.confidence import confidence
from hermes.model.document import Column, Document, DocumentInput, Table
from hermes.model.finding import Action, Finding
from hermes.model.leaf import Risk

SCHEMA = "hermes.fleet-probe/1"


def document(
    results: Path, hosts: Sequence[Host], calls: Sequence[Call], absent: Sequence[str], me: str = ""
) -> Document:
    """The document of all hosts, or of one host's calls, which cannot name a link yet."""
    named = [] if me else name_faults(hosts, calls)
    if me:
        answer = messages.called(host=me, n=len(calls))
    elif named:
        answer = messages.network_bad(names=[one.name for one in named])
    else:
        answer = messages.network_good(n=len(calls))
    notes = [Diagnostic(level="degraded", message=messages.absent(hosts=absent[:20], n=len(absent)))] if absent else []
    return Document(
        schema=SCHEMA, inputs=(DocumentInput(path=str(results), role="results", facts={"hosts": len(hosts)}),),
        answer=answer,
        coverage=tuple(notes), findings=tuple(map(_finding, named)),
        facts={"named": [[one.kind.value, one.name, one.fault.value] for one in named], "absent": len(absent)},
        parts=(_table(calls),),
    )  # fmt: skip


def _finding(one: NamedFault) -> Finding:
    value = {PathFault.LATE: duration(int(one.value)), PathFault.SLOW: _rate(one.value)}.get(
        one.fault, f"{one.value:.0%}"
    )
    return Finding(
        code=one.fault.value, about=Risk.SLOWER, confidence=confidence("fleet.probe"),
        message=messages.named(kind=one.kind.message, name=one.name, fault=one.fault.message, value=value, bad=one.bad,
                               pairs=one.pairs),
        actions=(Action(title=messages.DO_LINK, do="", verify="", risk="", source=""),),
    )  # fmt: skip


def _rate(value: float) -> str:
    return f"{value / 1e9:.3g} GB/s" if value >= 1e9 else f"{value / 1e6:.3g} MB/s"


def _table(calls: Sequence[Call]) -> Table:
    columns = (
        Column(key="caller", title=messages.CALLER, kind="name"),
        Column(key="answerer", title=messages.ANSWERER, kind="name"),
        Column(key="lost", title=messages.LOST, kind="share"), Column(key="rtt_ns", title=messages.RTT, kind="ns"),
        Column(key="jitter_ns", title=messages.JITTER, kind="ns"),
        Column(key="bytes_per_s", title="TCP", kind="name"),
    )  # fmt: skip
    rows = [
        (one.caller, one.answerer, one.lost / one.sent, one.rtt_ns, one.jitter_ns,
         None if one.bytes_per_s is None else _rate(one.bytes_per_s)) for one in calls
    ]  # fmt: skip
    return Table(key="pairs", title=messages.PAIRS, columns=columns, rows=rows)
