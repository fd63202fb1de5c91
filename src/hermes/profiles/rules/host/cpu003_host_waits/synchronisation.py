"""Finds places where the program waits for the device in the middle of the step."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message
from hermes.knowledge.blocking_calls import is_copy, reads_back
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import NO_SYNCHRONISATION, PINNED_AND_FEW
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss
from hermes.model.host_measures import SyncCall
from hermes.model.job import Job, Rows
from hermes.model.leaf_time import LeafTime
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import blamed, cost_of_waits, fact, host_loss, lines_of, lost_in, waits_of
from hermes.profiles.rules.evidence_messages import IN_WAITS
from hermes.profiles.rules.gain_messages import NEVER_EMPTY, at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_SHOWN = 4


@rule(
    "CPU003",
    state="stable",
    fault=Fault.EXPLICIT_SYNCHRONISATION,
    cases=("CPU-17", "CPU-19", "CPU-20", "CPU-21", "IO-08", "CPU-27"),
)
def synchronisation(job: Job, times: Rows[LeafTime], syncs: Rows[SyncCall]) -> Iterator[Loss]:
    """At most one finding, of waits for the device."""
    found = host_loss(
        job, IN_WAITS, LIMIT, lambda split: cost_of_waits(job, times, split.rank, reading=False)
    )  # fmt: skip
    if found is None:
        return
    calls = _calls(syncs, found.worst.rank)
    names = list(dict.fromkeys(row.what for row in waits_of(times, found.worst.rank, reading=False)))
    # The step of median length may lack the calls.
    copies = any(map(is_copy, max(calls, key=lost_in).names if calls else names[:1]))
    said = copying if copies else waiting
    yield Loss(
        fault=Fault.COPIES_FROM_PAGEABLE_MEMORY if copies else None,
        message=said(share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found, *(lines_of(calls) or map(Blame, names))),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=NEVER_EMPTY)),
        confidence=confidence("CPU003.synchronisation"),
        evidence=(
            *found.evidence,
            *(
                fact(job, row.rank, in_calls(calls=str(row.calls), place=_place(row)), lost_in(row), "ns")
                for row in sorted(calls, key=lambda call: (-lost_in(call), _place(call)))[:_SHOWN]
            ),
        ),
        # A wait inside a copy is for staging memory, which no replay removes.
        replay=() if copies else ("sync:none",),
        actions=(PINNED_AND_FEW, *NO_SYNCHRONISATION) if copies else NO_SYNCHRONISATION,
    )


def _calls(syncs: Rows[SyncCall], rank: int) -> list[SyncCall]:
    return [row for row in syncs.of(rank) if not reads_back(row.operator, row.names)]


def _place(row: SyncCall) -> str:
    return ", ".join(filter(None, (row.operator or row.names[0], row.source)))


@message("cpu003.copying")
def copying(*, share: Share, on: Message | None = None) -> None:
    """Copies wait because their memory is not pinned."""


@message("cpu003.waiting")
def waiting(*, share: Share, on: Message | None = None) -> None:
    """The program makes the host wait for the device."""


@message("cpu003.in_calls")
def in_calls(*, calls: Name, place: Name) -> None:
    """The free device time that calls of one place leave."""
