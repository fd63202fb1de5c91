"""From loaded tables to a step that can be replayed."""

from __future__ import annotations

from hermes.base.errors import InputError
from hermes.model.measures import StepSplit
from hermes.profiles.load import Loaded
from hermes.profiles.measure.communication.arrivals import meetings
from hermes.profiles.measure.path.event_graph import Part, sink_of
from hermes.profiles.measure.path.graph import NONE
from hermes.profiles.measure.path.step_path import AFTER_NS, BEFORE_NS, RankRows
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.paths import StepLoader
from hermes.profiles.whatif.job import JobStep, job_step


def step_of(loaded: Loaded, job: JobOutline, load: StepLoader | None = None) -> JobStep:
    """The slowest rank's step of median window, on all ranks; raises `InputError` when no step can be replayed."""
    slowest = job.steps.slowest
    load = load or StepLoader(loaded, job.vendors)
    if slowest is None or slowest.compute_ns is None:
        raise InputError(
            "there is no step with device tasks to replay",
            where=", ".join(map(str, loaded.paths)),
            hint="profile with the activities of the device",
        )
    offsets = {clock.rank: clock.offset_ns for clock in job.clocks}
    parts: list[Part] = []
    rows: dict[int, RankRows] = {}
    for split in job.steps.every:
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
                arrivals=job.arrivals.get(split.rank, {}),
                start_ns=start,
                end_ns=end,
                offset_ns=offsets.get(split.rank, 0),
            )
        )
    return job_step(parts, rows, meetings(job.every))


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
