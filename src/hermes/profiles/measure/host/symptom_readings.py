"""Declares the readings of the host that symptoms of cases compare."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from hermes.model.host_measures import (
    CoreLoad,
    Dispatch,
    HostEvents,
    QueueDepth,
    SettingValues,
    Shapes,
    StepHost,
    SyncCall,
)
from hermes.model.job import JobMeasures
from hermes.model.symptom import ANY, UNSET, WINDOW, Value, ratio, reading, text
from hermes.profiles.measure.path.symptom_readings import REASONS

EVENTS = (
    "compilation", "garbage collection", "checkpoint or logging", "loading of files",
    "starting of threads and processes",
)  # fmt: skip
"""Kinds of calls that are counted over the capture."""

ratio(Dispatch, "dispatch.ratio", "the host's time for dispatch over that of all kernels", "ratio", unit="ratio")
ratio(Dispatch, "dispatch.tasks", "tasks of a step", "tasks", unit="count")
ratio(Dispatch, "dispatch.small_share", "kernels below 10 us, by number", "small", "linked")
ratio(Dispatch, "dispatch.late_share", "tasks launched when the device had nothing left to do", "late", "linked")
text(Dispatch, "dispatch.task_queue", "torch_npu's task queue: `on` or `off`", "task_queue")
ratio(QueueDepth, "queue.empty", "the window with nothing launched and not begun", "empty")
ratio(SyncCall, "sync.share", "calls that wait for the device", "wait_ns", WINDOW, total=True)
ratio(SyncCall, "sync.calls", "such calls in a step", "calls", unit="count", total=True)
ratio(
    SyncCall, "sync.refill_share", "the device is free after them until the next task", "refill_ns", WINDOW, total=True
)
ratio(HostEvents, "event.share", "calls of one kind over the capture", "ns", "steps", WINDOW, by="what", of=EVENTS)
ratio(HostEvents, "event.longest", "longest call of one kind", "longest_ns", unit="ms", by="what", of=EVENTS)
ratio(HostEvents, "event.steps_share", "steps with such calls", "steps_hit", "steps", by="what", of=EVENTS)
ratio(Shapes, "shapes.dynamic_share", "kernels built for any shape", "dynamic", "known")
ratio(Shapes, "shapes.new_share", "operators with shapes first seen after the first step", "new", "distinct")
ratio(CoreLoad, "cores.usage", "mean load of the host's cores", "usage")
ratio(CoreLoad, "cores.busiest", "mean load of the busiest core", "busiest")


@reading("host.share", "a reason in the host's step", "host.steps[].parts[].ms host.steps[].host_ms", of=REASONS)
def _reason(measures: JobMeasures, of: str) -> Iterator[Value]:
    yield from (row.of(of) / row.host_ns for row in measures.rows(StepHost) if row.host_ns)


@reading(
    "setting", "value of a setting of a rank; `unset` where it is known to have none", "host.settings[].values[].value",
    unit="text", of=ANY,
)  # fmt: skip
def _setting(measures: JobMeasures, of: str) -> Iterator[Value]:
    for row in measures.rows(SettingValues):
        if fnmatchcase(row.name, of):
            yield from (UNSET if value is None else value for value, _ in row.values)


@reading("setting.differs", "`true` where ranks disagree on a setting", "host.settings[].differs", unit="text", of=ANY)
def _differs(measures: JobMeasures, of: str) -> Iterator[Value]:
    yield from (str(row.differs).lower() for row in measures.rows(SettingValues) if fnmatchcase(row.name, of))
