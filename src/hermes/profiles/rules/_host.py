"""Costs a step of host work, computed from measures of a whole capture, for rules about the host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from hermes.base.message import Message
from hermes.knowledge.blocking_calls import reads_back
from hermes.model.finding import Blame, Evidence, FindingMoment, Gain
from hermes.model.host_measures import Before, HostEvents, SettingValues, SyncCall
from hermes.model.job import Job, Rows
from hermes.model.leaf import HOST_WAITS
from hermes.model.leaf_time import LeafTime, spent
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.profiles.rules import evidence_messages as say
from hermes.profiles.rules._cost_by_rank import Spent, loss
from hermes.profiles.rules.gain_messages import at_most, of_host

_ALIKE = 0.5
"""Ranks that lose at least this share of the worst rank's loss have the loss too; other ranks at most wait for them."""
_SHOWN = 3
BEFORE_IT = "counted before the capture"


def bound(job: Job, found: Spent, method: Message, *, before: bool = False) -> Gain:
    """The gain of removing a loss, as computed by `won`."""
    return won(job, found.worst.rank, found.cost_ns, method, before=before)


def won(job: Job, rank: int, cost_ns: int, method: Message, *, before: bool = False) -> Gain:
    """The gain of removing a rank's loss: at most the cost; without a device all of it: nothing runs beside the host.

    `before`: the loss was counted in steps before the capture.
    """
    if has_device(job, rank):
        return Gain(low_ns=0, high_ns=cost_ns, method=at_most(when=method), before=before)
    return Gain(low_ns=cost_ns, high_ns=cost_ns, method=of_host(when=method), basis="replayed", before=before)


def window_ns(split: StepSplit) -> int:
    """The length of a step's window in nanoseconds."""
    return split.window_ns


def host_loss(
    job: Job,
    what: Message,
    limit: Limit,
    cost: Callable[[StepSplit], int | None],
    length: Callable[[StepSplit], int] | None = None,
) -> Spent | None:
    """The host's loss on its worst rank, if that exceeds `limit`, and the ranks that lose about as much.

    `cost` is in nanoseconds a step, and counts at most up to `length`. By default `length` is the rank's mean step,
    because costs of events in few steps are means over the capture. With a device a cost counts at most up to the
    rank's time in the leaves that the rule explains.
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


def mean_steps(job: Job) -> dict[int, int]:
    """The mean step of each rank in ns; times that are counted over a capture are shares of this step."""
    own: dict[int, list[int]] = {}
    for split in job.steps.every:
        own.setdefault(split.rank, []).append(split.window_ns)
    return {rank: sum(lengths) // len(lengths) for rank, lengths in own.items() if sum(lengths)}


def _mean_step(job: Job) -> Callable[[StepSplit], int]:
    means = mean_steps(job)
    return lambda split: means.get(split.rank, 0)


def before_of(unprofiled: Rows[Before], rank: int) -> Before | None:
    """The monitor's means for a rank before the capture; None if the capture records none."""
    return next(iter(unprofiled.of(rank)), None)


def before_without_device(job: Job, unprofiled: Rows[Before], rank: int) -> Before | None:
    """The monitor's means for a rank before the capture; None if it has none, or if a device works beside the host."""
    return None if has_device(job, rank) else before_of(unprofiled, rank)


def counted(job: Job, unprofiled: Rows[Before], rank: int, counter: str) -> int | None:
    """A mean of `Before` for a rank without a device; None if it was not counted, or a device works beside the host.

    No profiler makes a step shorter: if steps before the capture took longer, they were other steps, and the counted
    time is the same share of a captured step.
    """
    row = before_without_device(job, unprofiled, rank)
    ns: int | None = getattr(row, counter) if row else None
    if row is None or ns is None:
        return None
    return round(ns * _shorter(job, row))


def _shorter(job: Job, row: Before) -> float:
    """The length of a captured step over the length of steps before, at most 1."""
    captured = mean_steps(job).get(row.rank, 0)
    return min(1.0, captured / row.step_ns) if captured and row.step_ns else 1.0


def counted_step(job: Job, unprofiled: Rows[Before], counter: str) -> Callable[[StepSplit], int]:
    """The step that a cost is a share of: one before the capture if `counter` was counted, else the captured mean."""
    captured = _mean_step(job)

    def length(split: StepSplit) -> int:
        row = before_of(unprofiled, split.rank)
        told = row is not None and counted(job, unprofiled, split.rank, counter) is not None
        return min(row.step_ns, captured(split)) if row and told else captured(split)

    return length


def seen_or_counted(captured: Spent | None, earlier: Spent | None) -> tuple[Spent | None, bool]:
    """The larger share of a loss in the capture and of a loss counted before, and whether the latter is larger."""
    counts = earlier is not None and (captured is None or earlier.share > captured.share)
    return (earlier, True) if counts else (captured, False)


def counted_fact(job: Job, unprofiled: Rows[Before], rank: int, counter: str) -> tuple[Evidence, ...]:
    """The counted mean as evidence, if there is one."""
    row, ns = before_of(unprofiled, rank), counted(job, unprofiled, rank, counter)
    if row is None or ns is None:
        return ()
    return (fact(job, rank, say.before(n=row.steps), ns, "ns", source=BEFORE_IT),)


def only_on(job: Job, ranks: Collection[int]) -> Collection[int] | None:
    """The ranks that a sentence names; None if all ranks have the loss."""
    return None if len(ranks) == len(job.steps.counts) else ranks


def blamed(job: Job, found: Spent, *more: Blame) -> tuple[Blame, ...]:
    """The blames of a loss: the only rank that has it, if there is one, and then lines, calls or settings."""
    alone = len(found.ranks) == 1 < len(job.steps.counts)
    return (*((Blame.of_rank(found.ranks[0]),) if alone else ()), *more)


def has_device(job: Job, rank: int) -> bool:
    """Whether device tasks were recorded for a rank: then host time only counts while the device is free."""
    split = job.steps.typical(rank)
    return split is not None and split.free_ns is not None


def events_of(events: Rows[HostEvents], rank: int, what: str) -> HostEvents | None:
    """The calls of one kind on a rank; None if they were not recorded, or there are none."""
    rows = (row for row in events.of(rank) if row.what == what)
    return next((row for row in rows if row.calls), None)


def event_cost(job: Job, events: Rows[HostEvents], rank: int, what: str) -> int | None:
    """The cost of calls of one kind a step: free time of the device, or host time without a device."""
    row = events_of(events, rank, what)
    if row is None:
        return None
    lost = row.device_free_ns if has_device(job, rank) else row.ns
    return None if lost is None else lost // max(1, row.steps)


def outside(events: Rows[HostEvents], rank: int, what: str, kinds: Collection[str]) -> int:
    """The time a step in calls of one kind and outside calls of other kinds, as far as known."""
    row = events_of(events, rank, what)
    inside = sum(ns for kind, ns in row.inside if kind in kinds) if row else 0
    return max((row.ns or 0) - inside, 0) // max(1, row.steps) if row else 0


def cost_of_waits(job: Job, times: Rows[LeafTime], rank: int, *, reading: bool) -> int | None:
    """The rank's time a step in the leaves of a waiting host, of calls that read numbers back, or of all others.

    Small parts of a leaf are not told apart: they are shared out like the parts that are. None if nothing is known, or
    if no device was recorded.
    """
    room = job.room_ns(rank, HOST_WAITS) if has_device(job, rank) else None
    told = {kind: waits_of(times, rank, reading=kind) for kind in (True, False)}
    parts = {kind: sum(spent(rows, job.steps.counts).get(rank, {}).values()) for kind, rows in told.items()}
    if room is None or not any(parts.values()):
        return None
    return room * parts[reading] // sum(parts.values())


def waits_of(times: Rows[LeafTime], rank: int, *, reading: bool) -> list[LeafTime]:
    """The parts of these leaves that are of calls that read numbers back, or of all others; the longest first."""
    rows = (row for row in times.of(rank) if row.leaf in HOST_WAITS and row.what)
    told = (row for row in rows if reads_back(row.what) is reading)
    return sorted(told, key=lambda row: (-row.total_ns, row.what, row.place))


def larger(*costs: int | None) -> int | None:
    """The largest of several known lower bounds; None if none is known."""
    return max((cost for cost in costs if cost is not None), default=None)


def fact(
    job: Job, rank: int, what: Message, value: float, unit: str, threshold: float | None = None, source: str = "",
    at_ns: int | None = None,
) -> Evidence:  # fmt: skip
    """A number of one rank as evidence; `source` says where it comes from, if not from the calls of the capture.

    `at_ns` is the begin of the event that took this many nanoseconds.
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
        at=None if at_ns is None else FindingMoment(rank=rank, start_ns=at_ns, dur_ns=round(value)),
    )


def of_events(job: Job, row: HostEvents) -> tuple[Evidence, ...]:
    """The number and time of calls of one kind, and the calls that took most."""
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


def lost_in(call: SyncCall) -> int:
    """Free device time in a waiting call, and after it until the device had something to do."""
    return call.idle_ns + call.refill_ns


def lines_of(calls: Collection[SyncCall]) -> tuple[Blame, ...]:
    """The source lines of waiting calls, those that leave the device free longest first."""
    lost: dict[str, int] = {}
    for call in calls:
        if call.source:
            lost[call.source] = lost.get(call.source, 0) + lost_in(call)
    return tuple(Blame(line, "line") for line in sorted(lost, key=lambda line: (-lost[line], line)))[:_SHOWN]


def setting(settings: Rows[SettingValues], rank: int, name: str) -> str | None:
    """The value of a setting on a rank; None if it is unset or not recorded."""
    found: Mapping[str, str | None] = {
        row.name: value for row in settings for value, ranks in row.values if rank in ranks
    }
    return found.get(name)
