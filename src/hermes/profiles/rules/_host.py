"""What rules of the host share: costs a step from measures of a whole capture, and how ranks are named in titles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from hermes.base.message import Text
from hermes.knowledge.host_work import LAUNCH, OPERATOR, PYTHON
from hermes.model.finding import Blame, Evidence, Gain, Moment
from hermes.model.host_measures import Before, HostEvents, SettingValues, SyncCall
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import HostStall, StepSplit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules import evidence_messages as say
from hermes.profiles.rules._component import Spent, loss
from hermes.profiles.rules.gain_messages import at_most, of_host

_ALIKE = 0.5
"""Ranks that lose at least this part of what the worst loses suffer alike; the others at most wait for those."""
_SHOWN = 3
BEFORE_IT = "counted before the capture"
LAUNCHING = (LAUNCH, OPERATOR, PYTHON)
"""What it takes to hand work to the device, as far as calls tell it."""


def step_ns(split: StepSplit) -> int:
    """How long the step takes from the host's view."""
    return split.whole_ns


def bound(job: Job, found: Spent, method: Text, *, before: bool = False) -> Gain:
    """What is won when the loss is gone: see `won`."""
    return won(job, found.worst.rank, found.cost_ns, method, before=before)


def won(job: Job, rank: int, cost_ns: int, method: Text, *, before: bool = False) -> Gain:
    """What is won when a loss of a rank is gone: at most all, and without a device all, for nothing runs beside it.

    `before`: the loss was counted in steps before the capture.
    """
    if has_device(job, rank):
        return Gain(low_ns=0, high_ns=cost_ns, method=at_most(when=method), before=before)
    return Gain(low_ns=cost_ns, high_ns=cost_ns, method=of_host(when=method), basis="replayed", before=before)


def window_ns(split: StepSplit) -> int:
    """How long the window of the step is."""
    return split.window_ns


def host_loss(
    job: Job,
    what: Text,
    limit: Limit,
    cost: Callable[[StepSplit], int | None],
    length: Callable[[StepSplit], int] | None = None,
) -> Spent | None:
    """What the host loses on its worst rank, if that is beyond `limit`, with the ranks that lose about as much.

    `cost` is in nanoseconds a step, and counts up to `length`: if not given, the mean step of the rank, as costs of
    what comes in few steps are means over the capture. With a device it counts up to what the rank spends in the leaves
    that the rule explains.
    """
    length = length or _mean_step(job)

    def capped(split: StepSplit) -> int | None:
        ns = cost(split)
        room = job.room_ns(split.rank, job.leaves)
        return None if ns is None else min(ns, length(split), length(split) if room is None else room)

    found = loss(job, what, limit, capped, length)
    if found is None:
        return None
    alike = tuple(rank for rank, ns in sorted(found.costs.items()) if ns >= _ALIKE * found.cost_ns)
    return replace(found, ranks=alike)


def _mean_step(job: Job) -> Callable[[StepSplit], int]:
    own: dict[int, list[int]] = {}
    for split in job.steps.every:
        own.setdefault(split.rank, []).append(step_ns(split))
    means = {rank: sum(lengths) // len(lengths) for rank, lengths in own.items()}
    return lambda split: means[split.rank]


def before_of(unprofiled: Rows[Before], rank: int) -> Before | None:
    """What the monitor counted on a rank before the capture; None where the capture says nothing of it."""
    return next(iter(unprofiled.of(rank)), None)


def before_without_device(job: Job, unprofiled: Rows[Before], rank: int) -> Before | None:
    """The same; None, too, where a device works beside the host."""
    return None if has_device(job, rank) else before_of(unprofiled, rank)


def counted(job: Job, unprofiled: Rows[Before], rank: int, counter: str) -> int | None:
    """A mean of `Before` of a rank without a device; None where nothing counts, or a device works beside the host.

    No profiler makes a step shorter: where those before the capture took longer, they were other steps, and what counts
    is the same part of a captured one.
    """
    row = before_without_device(job, unprofiled, rank)
    ns: int | None = getattr(row, counter) if row else None
    if row is None or ns is None:
        return None
    return round(ns * _shorter(job, row))


def _shorter(job: Job, row: Before) -> float:
    """A captured step over those before it, where it is shorter."""
    own = [step_ns(split) for split in job.steps.of(row.rank)]
    captured = sum(own) // len(own) if own else 0
    return min(1.0, captured / row.step_ns) if captured and row.step_ns else 1.0


def counted_step(job: Job, unprofiled: Rows[Before], counter: str) -> Callable[[StepSplit], int]:
    """The step that a cost is of: where `counter` tells it, a step before the capture, else the capture's mean."""
    captured = _mean_step(job)

    def length(split: StepSplit) -> int:
        row = before_of(unprofiled, split.rank)
        told = row is not None and counted(job, unprofiled, split.rank, counter) is not None
        return min(row.step_ns, captured(split)) if row and told else captured(split)

    return length


def seen_or_counted(captured: Spent | None, earlier: Spent | None) -> tuple[Spent | None, bool]:
    """The larger share of a loss in the capture and of one counted before it, and whether it is that one."""
    counts = earlier is not None and (captured is None or earlier.share > captured.share)
    return (earlier, True) if counts else (captured, False)


def counted_fact(job: Job, unprofiled: Rows[Before], rank: int, counter: str) -> tuple[Evidence, ...]:
    """That mean, where there is one."""
    row, ns = before_of(unprofiled, rank), counted(job, unprofiled, rank, counter)
    if row is None or ns is None:
        return ()
    return (fact(job, rank, say.before(n=row.steps), ns, "ns", source=BEFORE_IT),)


def on(job: Job, found: Spent) -> str:
    """The end of a title: on which ranks, where it is not on all of them."""
    return on_ranks(job, found.ranks)


def on_ranks(job: Job, ranks: Collection[int]) -> str:
    """The same for any ranks."""
    every = len(job.steps.counts)
    if len(ranks) == every:
        return ""
    return f" on rank {min(ranks)}" if len(ranks) == 1 else f" on {len(ranks)} of {every} ranks"


def only_on(job: Job, ranks: Collection[int]) -> Collection[int] | None:
    """The ranks that a sentence names; None where all have it."""
    return None if len(ranks) == len(job.steps.counts) else ranks


def blamed(job: Job, found: Spent, *more: Blame) -> tuple[Blame, ...]:
    """Whom to blame: the one rank that loses, where others do not, and then what else is known."""
    alone = len(found.ranks) == 1 < len(job.steps.counts)
    return (*((Blame.of_rank(found.ranks[0]),) if alone else ()), *more)


def has_device(job: Job, rank: int) -> bool:
    """Whether device tasks were recorded, so that time of the host counts only where the device is free."""
    split = job.steps.typical(rank)
    return split is not None and split.free_ns is not None


def within(free: Rows[StepFree], rank: int, reasons: Collection[str]) -> bool:
    """Whether the free time of the device holds some for one of these reasons."""
    return bool(free_for(free, rank, reasons))


def free_for(free: Rows[StepFree], rank: int, reasons: Collection[str]) -> int:
    """Free device time in the window of the rank's typical step while the host did one of these."""
    return sum(
        part.ns
        for step in free
        if step.rank == rank
        for part in step.parts
        if part.component == "host" and part.reason in reasons
    )


def events_of(events: Rows[HostEvents], rank: int, what: str) -> HostEvents | None:
    """The calls of one kind on a rank, where they were recorded and there are some."""
    rows = (row for row in events.of(rank) if row.what == what)
    return next((row for row in rows if row.calls), None)


def event_cost(job: Job, events: Rows[HostEvents], rank: int, what: str) -> int | None:
    """What calls of one kind take a step: of the device's free time, or of the host's where there is no device."""
    row = events_of(events, rank, what)
    if row is None:
        return None
    lost = row.device_free_ns if has_device(job, rank) else row.ns
    return None if lost is None else lost // max(1, row.steps)


def outside(events: Rows[HostEvents], rank: int, what: str, kinds: Collection[str]) -> int:
    """What calls of one kind take a step beside those of other kinds, as far as it is told."""
    row = events_of(events, rank, what)
    inside = sum(ns for kind, ns in row.inside if kind in kinds) if row else 0
    return max((row.ns or 0) - inside, 0) // max(1, row.steps) if row else 0


def stall_cost(job: Job, stalls: Rows[HostStall], rank: int, cause: str) -> int | None:
    """Free device time a step in calls of one cause and until the next task; None where there are none."""
    rows = [row.idle_ns for row in stalls.of(rank) if row.cause == cause]
    return sum(rows) // max(1, job.steps.counts.get(rank, 1)) if rows else None


def larger(*costs: int | None) -> int | None:
    """The largest of several lower bounds, as far as they are known."""
    return max((cost for cost in costs if cost is not None), default=None)


def fact(
    job: Job, rank: int, what: Text, value: float, unit: str, threshold: float | None = None, source: str = "",
    at_ns: int | None = None,
) -> Evidence:  # fmt: skip
    """A number of one rank; `source` says what it was taken from, if not the calls of the capture.

    `at_ns` is when that which took so many nanoseconds began.
    """
    steps = job.steps.counts.get(rank, 1)
    after = f", {source}" if source else ""
    file = job.inputs.get(rank, "")
    return Evidence(
        what=what,
        value=float(value),
        unit=unit,
        threshold=threshold,
        where=f"rank {rank}, {steps} {'step' if steps == 1 else 'steps'}{after} ({file})",
        at=None if at_ns is None else Moment(rank=rank, start_ns=at_ns, dur_ns=round(value)),
    )


def of_events(job: Job, row: HostEvents) -> tuple[Evidence, ...]:
    """How many calls of a kind there were, how long, and which took most."""
    said = [
        fact(job, row.rank, say.CALLS, (row.calls or 0) / max(1, row.steps), "calls", source=row.source),
        fact(job, row.rank, say.LONGEST_CALL, row.longest_ns or 0, "ns", source=row.source, at_ns=row.longest_at_ns),
    ]
    if row.steps_hit is not None:
        said.append(fact(job, row.rank, say.STEPS_HIT, row.steps_hit / max(1, row.steps), "of steps"))
    said += [
        fact(job, row.rank, say.time_in(name=name), ns / max(1, row.steps), "ns a step")
        for name, _, ns in row.names[:_SHOWN]
    ]
    return tuple(said)


def of_stalls(job: Job, stalls: Rows[HostStall], rank: int, cause: str) -> tuple[Evidence, ...]:
    """How many calls of a cause there were a step, how long the host was in them, and where the longest stands."""
    steps = max(1, job.steps.counts.get(rank, 1))
    return tuple(
        one
        for row in stalls
        if row.rank == rank and row.cause == cause
        for one in (
            fact(job, rank, "calls a step", row.calls / steps, "calls"),
            fact(job, rank, "host time in them", row.host_ns / steps, "ns a step"),
            fact(
                job,
                rank,
                "longest call",
                row.longest_ns,
                "ns",
                source=f"at {row.longest_at_ns} ns",
                at_ns=row.longest_at_ns,
            ),
        )
    )


def lost_in(call: SyncCall) -> int:
    """Free device time in a call that waits, and behind it until the device had something to do."""
    return call.idle_ns + call.refill_ns


def lines_of(calls: Collection[SyncCall]) -> tuple[Blame, ...]:
    """The source lines of calls that wait, those first that leave the device free longest."""
    lost: dict[str, int] = {}
    for call in calls:
        if call.source:
            lost[call.source] = lost.get(call.source, 0) + lost_in(call)
    return tuple(Blame(line, "line") for line in sorted(lost, key=lambda line: (-lost[line], line)))[:_SHOWN]


def setting(settings: Rows[SettingValues], rank: int, name: str) -> str | None:
    """The value of a setting on a rank; None where it is unset or not recorded."""
    found: Mapping[str, str | None] = {
        row.name: value for row in settings for value, ranks in row.values if rank in ranks
    }
    return found.get(name)
