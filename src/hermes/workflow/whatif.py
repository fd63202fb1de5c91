"""From loaded tables to a step that can be replayed."""

from __future__ import annotations

from hermes.analyze.arrivals import meetings
from hermes.analyze.graph import NONE
from hermes.analyze.measures import StepSplit
from hermes.analyze.net import Part, sink_of
from hermes.analyze.step_path import AFTER_NS, BEFORE_NS, RankRows
from hermes.base.errors import InputError
from hermes.whatif.job import JobStep, job_step
from hermes.workflow.load import Loaded
from hermes.workflow.paths import Seen, rows_of, slowest_of


def step_of(loaded: Loaded, seen: Seen) -> JobStep:
    """The slowest rank's step of median window, on all ranks; raises `InputError` when no step can be replayed."""
    slowest = slowest_of(seen.splits)
    if slowest is None or slowest.compute_ns is None:
        raise InputError(
            "there is no step with device tasks to replay",
            where=", ".join(map(str, loaded.paths)),
            hint="profile with the activities of the device",
        )
    offsets = {clock.rank: clock.offset_ns for clock in seen.clocks}
    load = rows_of(loaded, seen.vendors)
    parts: list[Part] = []
    rows: dict[int, RankRows] = {}
    for split in seen.splits:
        if split.step != slowest.step or split.rank in rows:
            continue
        start, end = split.start_ns - _before(split), split.start_ns + split.window_ns
        rows[split.rank] = load(split.rank, start - BEFORE_NS, end + AFTER_NS)
        if split.window_kind == "host" and _ends_idle(rows[split.rank], end):
            start += max(split.preparing_ns or 0, 0)
        parts.append(
            Part(
                rank=split.rank,
                graph=rows[split.rank].graph,
                arrivals=seen.arrivals.get(split.rank, {}),
                start_ns=start,
                end_ns=end,
                offset_ns=offsets.get(split.rank, 0),
            )
        )
    return job_step(parts, rows, meetings(seen.comm_op))


def _before(split: StepSplit) -> int:
    """From the host's mark to the window: a window of the device begins with its first task only."""
    return max(split.preparing_ns or 0, 0) if split.window_kind == "device" else 0


def _ends_idle(rows: RankRows, end_ns: int) -> bool:
    """Whether nothing runs on the device where the mark ends.

    Then the step ends with the first task of the next, and so begins with its own: what the host does before the first
    task would count twice else.
    """
    tasks = rows.graph.tasks
    sink = sink_of(tasks, end_ns)
    return sink != NONE and int(tasks.start[sink]) >= end_ns
