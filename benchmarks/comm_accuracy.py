"""Compares the measures of communication and structure of a modelled job with the truth from plain counting.

The truth comes from the simulated events, not from files, and shares no code with the measures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from hermes.model.comm_measures import Alignment, GroupOp, LatencyFit, LinkPair, SlowRank, Stall
from hermes.model.report import Report
from hermes.model.step_measures import ClockOffset
from hermes.model.structure_measures import Pipeline, RankMatrix
from hermes_testing import Result
from hermes_testing.profile import CommOp
from hermes_testing.truth import compute_spans, merged, total, without

Measures = Mapping[str, float | None]
"""Nanoseconds a step by the name of the measure; None if a format does not record the needed data."""
Near = Callable[[float, float], bool]

NAMES = (
    "wait",
    "transfer",
    "exposed transfer",
    "fixed cost",
    "excess of the slowest link",
    "unaligned operations",
    "stalls",
    "held up by one rank",
    "bubble of the first stage",
    "clock offset",
)
MOVES = {
    "slow_link": "excess of the slowest link",
    "small_packets": "fixed cost",
    "unaligned_sizes": "unaligned operations",
    "retransmission": "stalls",
    "exposed_all_reduce": "exposed transfer",
    "pipeline_imbalance": "bubble of the first stage",
    "slow_rank_compute": "held up by one rank",
    "slow_rank_host": "held up by one rank",
    "skewed_clocks": "clock offset",
}
"""The measure that each fault should change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meeting:
    """One operation with all its members' begin and end times."""

    ops: dict[int, CommOp]

    @property
    def begin(self) -> int:
        return max(op.start_ns for op in self.ops.values())

    @property
    def held(self) -> tuple[int, tuple[int, int]]:
        """The last rank to arrive, and the times from which the others waited for it."""
        arrivals = sorted((op.start_ns, rank) for rank, op in self.ops.items())
        return arrivals[-1][1], (arrivals[-2][0], arrivals[-1][0])


def truth(result: Result) -> Measures:
    """The true values, from the simulated events."""
    meetings = _meetings(result)
    ranks, steps = len(result.profiles), result.job.steps
    compute = {profile.rank: compute_spans(profile) for profile in result.profiles}
    transfers = [(rank, m.begin, op.end_ns, op) for m in meetings for rank, op in m.ops.items()]
    odd = [end - begin for _, begin, end, op in transfers if op.bytes > 512 and op.bytes % 512]
    held = defaultdict(list)
    for meeting in meetings:
        rank, span = meeting.held
        held[rank].append(span)
    per_rank = ranks * steps
    return {
        "wait": sum(m.begin - op.start_ns for m in meetings for op in m.ops.values()) / per_rank,
        "transfer": sum(end - begin for _, begin, end, _ in transfers) / per_rank,
        "exposed transfer": sum(total(without([(b, e)], compute[r])) for r, b, e, _ in transfers) / per_rank,
        "fixed cost": _fixed(meetings, ranks) / steps,
        "excess of the slowest link": _excess(result) / steps,
        "unaligned operations": sum(odd) / per_rank,
        "stalls": _stalled(result) / steps,
        "held up by one rank": max(total(merged(spans)) for spans in held.values()) / steps,
        "bubble of the first stage": _bubble(result, meetings, compute) / steps,
        "clock offset": float(max(profile.clock_ns for profile in result.profiles)),
    }


def _meetings(result: Result) -> list[_Meeting]:
    """Operations by their position on each rank: the index within their group, or within their pair and direction."""
    found: dict[tuple[object, ...], dict[int, CommOp]] = defaultdict(dict)
    for profile in result.profiles:
        counts: dict[tuple[object, ...], int] = defaultdict(int)
        for op in sorted(profile.comms, key=lambda one: one.start_ns):
            kind: tuple[object, ...] = (op.group.hash, op.op)
            if op.is_p2p:
                other = next(rank for rank in op.group.members if rank != profile.rank)
                kind = (profile.rank, other) if op.op == "send" else (other, profile.rank)
            found[(*kind, counts[kind])][profile.rank] = op
            counts[kind] += 1
    return [_Meeting(ops=ops) for ops in found.values()]


def _fixed(meetings: list[_Meeting], ranks: int) -> float:
    """The time of all collectives of all ranks if each cost as much as the smallest."""
    times = [
        (min(op.bytes for op in m.ops.values()), median(op.end_ns - m.begin for op in m.ops.values()))
        for m in meetings
        if len(m.ops) == ranks
    ]
    smallest = min(size for size, _ in times)
    return median(time for size, time in times if size == smallest) * len(times)


def _moves(result: Result) -> dict[tuple[str, int, int], list[tuple[int, int, int]]]:
    """Duration, rank and other side of all transfers between devices, by kind, size and step."""
    found = defaultdict(list)
    for profile in result.profiles:
        for op in profile.comms:
            for move in op.transfers:
                if move.bytes and move.src != move.dst:
                    other = op.group.members[move.dst]
                    found[move.name, move.bytes, op.launch.step].append(
                        (move.end_ns - move.start_ns, profile.rank, other)
                    )
    return found


def _excess(result: Result) -> float:
    excess: dict[tuple[int, int], float] = defaultdict(float)
    for moves in _moves(result).values():
        usual = median(taken for taken, _, _ in moves)
        for taken, rank, other in moves:
            # A single stall is not the link's usual speed.
            excess[rank, other] += taken - usual if taken < 20 * usual else 0
    return max(excess.values())


def _stalled(result: Result) -> float:
    """The injected retransmission time; all members of an operation wait for one stall, so each stall counts once."""
    kinds = [fault.kind for fault in result.job.faults]
    return sum(ns for (fault, _, _), ns in result.injected.items() if kinds[fault] == "retransmission")


def _bubble(result: Result, meetings: list[_Meeting], compute: Mapping[int, list[tuple[int, int]]]) -> float:
    waits: dict[int, list[tuple[int, int]]] = defaultdict(list)
    place = {profile.rank: profile.place.pp for profile in result.profiles}
    for meeting in meetings:
        for rank, op in meeting.ops.items():
            if op.is_p2p or place[rank] != place[meeting.held[0]]:
                waits[rank].append((op.start_ns, meeting.begin))
    first = [profile.rank for profile in result.profiles if profile.place.pp == 0]
    return sum(total(without(merged(waits[rank]), compute[rank])) for rank in first) / len(first)


def measured(report: Report, steps: int) -> Measures:
    """The same values from a report."""
    groups, links = report.rows(GroupOp), report.rows(LinkPair)
    line, matrix = report.rows(Pipeline).only, report.rows(RankMatrix).only
    ranks = len(report.coverage.ranks_seen)
    spans = {metric.name: metric for metric in matrix.metrics} if matrix else {}
    whole = sum((group.transfer_ns or 0) + (group.idle_ns or 0) for group in groups)
    hidden = sum(group.hidden_ns or 0 for group in groups)
    fits = [fit for fit in report.rows(LatencyFit) if fit.members is not None and len(fit.members) == ranks]
    odd = [row.unaligned_time_ns for row in report.rows(Alignment) if row.what == "operations"]
    per_rank = ranks * steps
    return {
        "wait": sum(group.wait_ns or 0 for group in groups) / per_rank if spans else None,
        "transfer": whole / per_rank,
        "exposed transfer": (whole - hidden) / per_rank,
        "fixed cost": sum(fit.fixed_total_ns for fit in fits) / steps if fits else None,
        "excess of the slowest link": max((link.excess_ns or 0 for link in links), default=0) / steps
        if links
        else None,
        "unaligned operations": sum(odd) / per_rank,
        "stalls": sum(stall.excess_ns for stall in report.rows(Stall)) / steps,
        "held up by one rank": max((slow.held_ns for slow in report.rows(SlowRank)), default=0) / steps,
        "bubble of the first stage": float(line.stages[0].bubble_ns) if line else 0.0,
        "clock offset": float(max((abs(clock.offset_ns) for clock in report.rows(ClockOffset)), default=0)),
        "clock error": sum(2 * (group.error_ns or 0) * group.split_rows for group in groups) / per_rank,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CommRow:
    """One fault in one format: the measure that should change, and the other measure with the largest error."""

    kind: str
    form: str
    name: str
    before_ns: float
    after_ns: float
    said_ns: float | None
    other: str
    other_ns: float
    good: bool


def comm_row(kind: str, form: str, well: Measures, sick: Measures, said: Measures, *, near: Near) -> CommRow:
    """The row of a fault; good when all measures that the format allows are near the truth."""
    # Without single transfers a slow link shows as slow transfers over all links.
    name = MOVES[kind] if said[MOVES[kind]] is not None else "transfer"
    known = {measure: value for measure, value in said.items() if value is not None and measure in NAMES}
    errors = {measure: value - (sick[measure] or 0.0) for measure, value in known.items()}
    worst = max((measure for measure in errors if measure != name), key=lambda measure: abs(errors[measure]))
    # Leads within the clocks' error are no waits: the sum cannot be more exact.
    slack = {"wait": said["clock error"] or 0.0}
    all_near = all(
        near(value, sick[measure] or 0.0) or abs(errors[measure]) <= slack.get(measure, 0.0)
        for measure, value in known.items()
    )
    return CommRow(
        kind=kind,
        form=form,
        name=name,
        before_ns=well[name] or 0.0,
        after_ns=sick[name] or 0.0,
        said_ns=said[name],
        other=worst,
        other_ns=errors[worst],
        good=all_near,
    )
