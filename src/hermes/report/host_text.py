"""Describes input pipeline and host on the terminal: only times that are a notable share of the slowest rank's step."""

from __future__ import annotations

from hermes.model.host_measures import AllocatorCalls, HostEvents, StepHost, SyncCall
from hermes.model.input_measures import Fetches
from hermes.model.report import Report
from hermes.report.format import counted, duration, share

# A twentieth of the step: msprof-analyze's advisor calls that high.
_NOTABLE = 20


def host_lines(report: Report) -> list[tuple[str, str]]:
    """The title and text of each line about the rank whose step is slowest, the most expensive line first.

    Host work while the device works costs nothing: where it is measured, only free time of the device counts.
    """
    rank = report.paths[0].rank if report.paths else report.verdict.rank
    step = next((row for row in report.rows(StepHost) if row.rank == rank), None)
    if step is None:
        return []
    # The time of an event that comes in few steps is a mean over these steps, and so is the step length.
    lengths = [split.window_ns for split in report.steps if split.rank == rank]
    mean = max(sum(lengths) // len(lengths) if lengths else step.host_ns, 1)
    found: list[tuple[int, str, str]] = []
    for fetches in report.rows(Fetches):
        if fetches.rank == rank:
            lost = fetches.wait_ns if fetches.device_free_ns is None else fetches.device_free_ns
            found.append((lost // fetches.steps, "Input", _fetches(fetches, mean)))
    for event in (*report.rows(HostEvents), *report.rows(AllocatorCalls)):
        if event.rank == rank:
            lost = (event.ns if event.device_free_ns is None else event.device_free_ns) or 0
            found.append((lost // event.steps, "Host", _event(event, mean)))
    for call in report.rows(SyncCall):
        if call.rank == rank:
            found.append((call.idle_ns + call.refill_ns, "Wait", _sync(call, step)))
    notable = [one for one in found if one[0] * _NOTABLE >= step.host_ns]
    return [(title, text) for _, title, text in sorted(notable, key=lambda one: -one[0])]


def _fetches(row: Fetches, step_ns: int) -> str:
    each = min(row.wait_ns // row.steps, step_ns)
    source = {"main process": ", read in the main process", "workers": ", from workers"}.get(row.kind, "")
    return f"batches {duration(each)} a step ({share(each, step_ns)}){source}{_free(row.device_free_ns, row.steps)}"


def _event(row: HostEvents, step_ns: int) -> str:
    each = min((row.ns or 0) // row.steps, step_ns)
    many = (row.calls or 0) / row.steps
    calls = f"{many:.1f} calls" if 0 < many < 1 else counted(round(many), "call")
    return (
        f"{row.what} {duration(each)} a step ({share(each, step_ns)}), in {calls}{_free(row.device_free_ns, row.steps)}"
    )


def _free(ns: int | None, steps: int) -> str:
    return "" if ns is None else f"; device free in {duration(ns // steps)}"


def _sync(row: SyncCall, step: StepHost) -> str:
    place = f"{row.source.rsplit('/', 1)[-1]}: " if row.source else ""
    free = f"device free in and after it {duration(row.idle_ns + row.refill_ns)}"
    name = (row.operator or row.names[0]).removeprefix("aten::")
    return f"{place}{name} {duration(row.wait_ns)} ({share(row.wait_ns, step.host_ns)}); {free}"
