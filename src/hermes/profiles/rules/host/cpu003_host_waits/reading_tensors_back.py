"""Finds tensors that the program reads back to the host in the middle of the step."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.blocking_calls import reads_back
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import Fit, Phase
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.host_measures import SyncCall
from hermes.model.job import Job, Rows
from hermes.model.leaf_time import LeafTime
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules._host import blamed, cost_of_waits, fact, lines_of, lost_in, waits_of
from hermes.profiles.rules.evidence_messages import CALLS, IN_WAITS, LONGEST_CALL
from hermes.profiles.rules.gain_messages import NEVER_EMPTY, at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.02, unit="of window", source="docs/evidence/cpu003.md")
_SHOWN = 3


@rule("CPU003", state="stable", fault=Fault.SYNCHRONISING_CALL, cases=("CPU-18", "CPU-19"))
def tensor_to_host(job: Job, times: Rows[LeafTime], syncs: Rows[SyncCall]) -> Iterator[Loss]:
    """At most one finding, of reads of a tensor on the host."""
    found = loss(job, IN_WAITS, LIMIT, lambda split: cost_of_waits(job, times, split.rank, reading=True))
    if found is None:
        return
    rank = found.worst.rank
    calls = [row for row in syncs.of(rank) if reads_back(row.operator, row.names)]
    lines = lines_of(calls)
    names = dict.fromkeys(row.what for row in waits_of(times, rank, reading=True))
    yield Loss(
        message=reading_back(share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found, *(lines or map(Blame, names))),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=NEVER_EMPTY)),
        confidence=confidence("CPU003"),
        evidence=(*found.evidence, *_facts(job, rank, calls)),
        replay=("sync:none",),
        actions=_ACTIONS,
    )


def _facts(job: Job, rank: int, calls: list[SyncCall]) -> Iterator[Evidence]:
    """How often the step reads, the longest read, and the lines that read, by the free time they leave."""
    if calls:
        yield fact(job, rank, CALLS, sum(row.calls for row in calls), "calls")
        longest = max(calls, key=lambda call: call.longest_ns)
        yield fact(job, rank, LONGEST_CALL, longest.longest_ns, "ns", at_ns=longest.longest_at_ns)
    for row in sorted(calls, key=lambda call: (-lost_in(call), call.source or ""))[:_SHOWN]:
        where = waits(calls=str(row.calls), line=row.source) if row.source else waits_somewhere(calls=str(row.calls))
        yield fact(job, row.rank, where, lost_in(row), "ns")
        yield fact(job, row.rank, HOST_TIME, row.wait_ns, "ns")


HOST_TIME = sentence("cpu003.host_time")


@message("cpu003.reading_back")
def reading_back(*, share: Share, on: Message | None = None) -> None:
    """The host reads a result of the device, and waits for it."""


@message("cpu003.waits")
def waits(*, calls: Name, line: Name) -> None:
    """The free device time that a reading line leaves."""


@message("cpu003.waits_somewhere")
def waits_somewhere(*, calls: Name) -> None:
    """The free device time that reads leave, with no line recorded."""


def _rarely(do: Message, phase: Phase, *cases: str) -> Action:
    return Action(
        title=RARELY,
        do=do,
        verify=RARELY_VERIFY,
        risk=RARELY_RISK,
        source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
        fit=Fit(phase=phase),
        cases=cases,
    )


RARELY = sentence("cpu003.rarely")
RARELY_VERIFY = sentence("cpu003.rarely_verify")
RARELY_RISK = sentence("cpu003.rarely_risk")
_ACTIONS = (
    _rarely(sentence("cpu003.rarely_training"), "training", "CPU-18", "CPU-19"),
    _rarely(sentence("cpu003.rarely_inference"), "inference", "CPU-18"),
)
