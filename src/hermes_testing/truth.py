"""The numbers that an analysis of a modelled job must give, worked out from its events by plain counting.

On purpose this shares no code with Hermes itself: every set of intervals is a plain list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from hermes_testing.faults import KINDS
from hermes_testing.job import Job
from hermes_testing.profile import Profile
from hermes_testing.simulate import Result, simulate

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTruth:
    """One step of one rank by Ascend's definition, in nanoseconds; copies and waits count as free.

    `start_ns` is on the shared clock, relative to the start of the capture.
    """

    rank: int
    step: int
    start_ns: int
    window_ns: int
    compute_ns: int
    comm_ns: int
    exposed_ns: int
    overlapped_ns: int
    free_ns: int
    bubble_ns: int
    stage_ns: int
    exposed_without_receive_ns: int
    preparing_ns: int
    host_ns: int


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union of spans, in order, touching ones joined."""
    union: list[Span] = []
    for start, end in sorted(spans):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        elif end > start:
            union.append((start, end))
    return union


def without(spans: Sequence[Span], holes: Sequence[Span]) -> list[Span]:
    """What is left of merged `spans` outside merged `holes`."""
    left: list[Span] = []
    at = 0
    for start, end in spans:
        while at < len(holes) and holes[at][1] <= start:
            at += 1
        look = at
        while look < len(holes) and holes[look][0] < end:
            if holes[look][0] > start:
                left.append((start, holes[look][0]))
            start = max(start, holes[look][1])
            look += 1
        if start < end:
            left.append((start, end))
    return left


def total(spans: Iterable[Span]) -> int:
    """Sum of the lengths."""
    return sum(end - start for start, end in spans)


def compute_spans(profile: Profile, step: int | None = None) -> list[Span]:
    """When the rank computed: the union of its compute tasks, of one step or of all."""
    return merged(
        (task.start_ns, task.end_ns)
        for task in profile.tasks
        if task.kind == "compute" and step in (None, task.launch.step)
    )


def comm_spans(profile: Profile, step: int | None = None) -> list[Span]:
    """When the rank was inside a communication operation."""
    return merged((comm.start_ns, comm.end_ns) for comm in profile.comms if step in (None, comm.launch.step))


def steps_of(profile: Profile) -> list[StepTruth]:
    """The split of every step of one rank."""
    rows = []
    for mark in profile.steps:
        compute, comm = compute_spans(profile, mark.number), comm_spans(profile, mark.number)
        exposed = without(comm, compute)
        bubble = sum(
            op.end_ns - op.start_ns for op in profile.comms if op.op == "recv" and op.launch.step == mark.number
        )
        start = min(span[0] for span in compute + comm)
        window = max(span[1] for span in compute + comm) - start
        rows.append(
            StepTruth(
                rank=profile.rank,
                step=mark.number,
                start_ns=start,
                window_ns=window,
                compute_ns=total(compute),
                comm_ns=total(comm),
                exposed_ns=total(exposed),
                overlapped_ns=total(comm) - total(exposed),
                free_ns=total(without([(start, start + window)], merged(compute + comm))),
                bubble_ns=bubble,
                stage_ns=window - bubble,
                exposed_without_receive_ns=total(exposed) - bubble,
                preparing_ns=start - mark.start_ns,
                host_ns=mark.end_ns - mark.start_ns,
            )
        )
    return rows


def step_ns(profiles: Sequence[Profile]) -> int:
    """Mean length of a step on the host over all ranks and steps."""
    lengths = [mark.end_ns - mark.start_ns for profile in profiles for mark in profile.steps]
    return sum(lengths) // len(lengths)


def truth_of(result: Result) -> dict[str, object]:
    """Everything that `truth.json` holds. Each fault's cost is the step with it less the step without it."""
    job = result.job
    return {
        "schema": "hermes.truth/1",
        "job": asdict(replace(job, faults=())) | {"dp": job.data_parallel},
        "step_ns": step_ns(result.profiles),
        "faults": [_fault(result, index) for index in range(len(job.faults))],
        "groups": [
            {
                "name": group.name,
                "communicator": group.communicator,
                "hash": group.hash,
                "global_ranks": list(group.members),
            }
            for group in result.groups
        ],
        "clocks_ns": {str(profile.rank): profile.clock_ns for profile in result.profiles},
        "steps": [asdict(row) for profile in result.profiles for row in steps_of(profile)],
    }


def _fault(result: Result, index: int) -> dict[str, object]:
    job = result.job
    fault = job.faults[index]
    kind = KINDS[fault.kind]
    healthy = step_ns(simulate(_cured(job, index)).profiles)
    return {
        "kind": fault.kind,
        "layer": kind.layer,
        "ranks": list(fault.struck(ranks=job.ranks, hosts=job.hosts, pp=job.pp)),
        "steps": list(fault.steps or job.step_numbers),
        "amount": fault.size,
        "unit": kind.unit,
        "consequences": list(kind.consequences),
        "injected": [
            {"rank": rank, "step": step, "ns": ns}
            for (number, rank, step), ns in sorted(result.injected.items())
            if number == index
        ],
        "step_without_ns": healthy,
        "cost_ns_per_step": step_ns(result.profiles) - healthy,
    }


def _cured(job: Job, index: int) -> Job:
    return replace(job, faults=job.faults[:index] + job.faults[index + 1 :], fused=job.fuses)
