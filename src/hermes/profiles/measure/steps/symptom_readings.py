"""Declares the readings of steps, longest kernels and calls that symptoms of cases compare."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median_low

from hermes.model.job import JobMeasures
from hermes.model.step_measures import HostCallTop, KernelTop
from hermes.model.symptom import ANY, Value, ratio, reading

ratio(KernelTop, "kernel.share", "a type of kernel in all device time", "share", by="name", of=ANY, absent=0.0)
ratio(
    HostCallTop,
    "host_call.share",
    "a runtime call in the host time of such calls",
    "share",
    by="name",
    of=ANY,
    absent=0.0,
)


@reading("step.variation", "longest step over the median step", "steps[].window_ms", unit="ratio")
def _variation(measures: JobMeasures, of: str) -> Iterator[Value]:
    steps = measures.job.steps
    for rank in steps.ranks:
        windows = [split.window_ns for split in steps.of(rank)]
        if len(windows) > 1 and median_low(windows) > 0:
            yield max(windows) / median_low(windows)


def _typical(name: str, meaning: str, field: str) -> None:
    """Declare a reading: a part of each rank's typical step over its window."""
    key = f"steps[].{field.removesuffix('_ns')}_ms"

    @reading(name, meaning, f"{key} steps[].window_ms")
    def read(measures: JobMeasures, of: str) -> Iterator[Value]:
        for split in measures.job.steps.typical_of_each:
            part = getattr(split, field)
            if part is not None:
                yield part / split.window_ns


_typical("compute.share", "compute in the step", "compute_ns")
_typical("comm.exposed_share", "communication beside which nothing is computed", "exposed_comm_ns")
_typical("copy.exposed_share", "copies beside which nothing else runs", "copy_exposed_ns")
_typical("free.share", "the device has nothing to do", "free_ns")
_typical("preparing.share", "from the host's mark to the next device task", "preparing_ns")
