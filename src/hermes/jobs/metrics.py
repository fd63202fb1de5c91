"""Exports running jobs for other programs: one JSON document, or OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.base.message import Word
from hermes.base.say import message_as_json
from hermes.base.write_atomic import write_atomic
from hermes.jobs.capture_messages import cannot_write
from hermes.jobs.job_view import JobView, RankView
from hermes.jobs.messages import JobState
from hermes.model import metric
from hermes.model.metric import MetricFamily, MetricSample

SCHEMA = "hermes.watch/1"
PERIOD_S = 15.0
"""Seconds between two documents or files."""


class Metric(Word):
    """A family of metrics: its name without `hermes_`."""

    JOB = "job"
    SLOW = "job_slow"
    STATE = "job_state"
    ALARMS = "job_alarms"
    CAPTURES = "job_captures"
    STEP = "step"
    STEP_END = "step_end_timestamp_seconds"
    STEP_SECONDS = "step_seconds"
    BASELINE = "step_baseline_seconds"
    SAMPLES = "samples_per_second"
    TOKENS = "tokens_per_second"
    MFU = "mfu_ratio"
    MEMORY = "memory_bytes"
    LOSS = "loss"
    GRADIENTS = "gradient_norm"
    UPDATE = "update_ratio"
    OWN = "step_own_seconds"
    COLLECTIVES = "step_collective_seconds"
    DEVICE = "step_device_seconds"
    PARTS = "step_part_seconds"
    BANDWIDTH = "collective_bytes_per_second"


_JOB, _RANK = ("job_name",), ("job_name", "rank")
_OF_RANK: Mapping[MetricFamily, Callable[[RankView], float | None]] = {
    MetricFamily(word=word, labels=_RANK): value
    for word, value in (
        (Metric.STEP, lambda rank: rank.step),
        (Metric.STEP_END, lambda rank: _seconds(rank.end_ns)),
        (Metric.STEP_SECONDS, lambda rank: _seconds(_median(rank.walls_ns))),
        (Metric.BASELINE, lambda rank: _seconds(rank.baseline_ns)),
        (Metric.SAMPLES, lambda rank: rank.samples_per_s),
        (Metric.TOKENS, lambda rank: rank.tokens_per_s),
        (Metric.MFU, lambda rank: rank.mfu),
        (Metric.MEMORY, lambda rank: rank.memory_bytes),
        (Metric.LOSS, lambda rank: rank.loss),
        (Metric.GRADIENTS, lambda rank: rank.gradient_norm),
        (Metric.UPDATE, lambda rank: rank.update_ratio),
        (Metric.OWN, lambda rank: _seconds(rank.own_ns)),
        (Metric.COLLECTIVES, lambda rank: _seconds(rank.collective_ns)),
        (Metric.DEVICE, lambda rank: _seconds(rank.device_ns)),
    )
}
_INFO = MetricFamily(word=Metric.JOB, kind="info", labels=("job_name", "launch", "ranks"))
_SLOW = MetricFamily(word=Metric.SLOW, labels=_JOB)
_STATE = MetricFamily(word=Metric.STATE, kind="stateset", labels=_JOB)
_ALARMS = MetricFamily(word=Metric.ALARMS, kind="counter", labels=_JOB)
_CAPTURES = MetricFamily(word=Metric.CAPTURES, kind="counter", labels=("job_name", "how"))
_PARTS = MetricFamily(word=Metric.PARTS, labels=("job_name", "rank", "part"))
_BANDWIDTH = MetricFamily(word=Metric.BANDWIDTH, labels=("job_name", "rank", "kind", "group"))
FAMILIES = (_INFO, _SLOW, _STATE, _ALARMS, _CAPTURES, *_OF_RANK, _PARTS, _BANDWIDTH)
"""All families of metrics of jobs."""


def document(jobs: Sequence[JobView], now_ns: int) -> dict[str, object]:
    """All jobs as a document; a number that was not measured is null. `now_ns` is the time of the document."""
    return {"schema": SCHEMA, "now_ns": now_ns, "jobs": [_job(job) for job in jobs]}


def _job(job: JobView) -> dict[str, object]:
    return {
        "job": job.id,
        "launch": job.launch,
        "state": None if job.state is None else job.state.value,
        "stalled": None if job.stalled is None else message_as_json(job.stalled),
        "alarms": job.alarms,
        "slow": job.slow,
        "said": [message_as_json(line) for line in job.said],
        "ranks": [_rank(rank) for rank in job.ranks],
    }


def _rank(rank: RankView) -> dict[str, object]:
    return {
        "rank": rank.rank,
        "step": rank.step,
        "step_ns": _median(rank.walls_ns),
        "longest_ns": rank.longest_ns,
        "baseline_ns": rank.baseline_ns,
        "end_ns": rank.end_ns,
        "own_ns": None if rank.own_ns is None else round(rank.own_ns),
        "collective_ns": None if rank.collective_ns is None else round(rank.collective_ns),
        "device_ns": None if rank.device_ns is None else round(rank.device_ns),
        "alive": rank.alive,
        "samples_per_s": rank.samples_per_s,
        "tokens_per_s": rank.tokens_per_s,
        "mfu": rank.mfu,
        "memory_bytes": rank.memory_bytes,
        "loss": _strict(rank.loss),
        "gradient_norm": _strict(rank.gradient_norm),
        "update_ratio": _strict(rank.update_ratio),
        "split_ns": {spent.value: round(ns) for spent, ns in rank.split},
        "bandwidth": [
            {"kind": one.kind, "group": one.group, "calls": one.calls, "bytes": one.size_bytes, "ns": one.ns,
             "gb_per_s": one.gb_per_s} for one in rank.bandwidth
        ],
    }  # fmt: skip


def openmetrics(jobs: Sequence[JobView]) -> str:
    """All jobs in the text format of OpenMetrics 1.0, ended by its `# EOF`."""
    return metric.openmetrics(measured(jobs))


def measured(jobs: Sequence[JobView]) -> Iterator[MetricSample]:
    """The numbers of all jobs, by family; a number that was not measured is absent."""
    yield MetricSample(family=_INFO, rows=[((job.id, job.launch or job.id, str(len(job.ranks))), 1.0) for job in jobs])
    yield MetricSample(family=_SLOW, rows=[((job.id,), float(job.slow)) for job in jobs])
    states = [((job.id, state.value), float(job.state is state)) for job in jobs for state in JobState]
    yield MetricSample(family=_STATE, rows=states)
    yield MetricSample(family=_ALARMS, rows=[((job.id,), float(job.alarms)) for job in jobs])
    captures = [((job.id, how), float(count)) for job in jobs for how, count in job.captures]
    yield MetricSample(family=_CAPTURES, rows=captures)
    for family, value in _OF_RANK.items():
        rows = [((job.id, str(rank.rank)), float(found)) for job in jobs for rank in job.ranks
                if (found := value(rank)) is not None]  # fmt: skip
        yield MetricSample(family=family, rows=rows)
    parts = [
        ((job.id, str(rank.rank), spent.value), ns / 1e9)
        for job in jobs for rank in job.ranks for spent, ns in rank.split
    ]  # fmt: skip
    yield MetricSample(family=_PARTS, rows=parts)
    moved = [
        ((job.id, str(rank.rank), one.kind, one.group), one.gb_per_s * 1e9)
        for job in jobs for rank in job.ranks for one in rank.bandwidth
    ]  # fmt: skip
    yield MetricSample(family=_BANDWIDTH, rows=moved)


def write_textfile(path: Path, jobs: Sequence[JobView]) -> None:
    """Replace the file as a whole, as the collector `textfile` of the node exporter requires. Raises `HermesError`."""
    text = metric.prometheus_text(measured(jobs))
    try:
        with write_atomic(path, mode=0o644) as file:
            file.write(text.encode())
    except OSError as refused:
        raise HermesError(cannot_write(path=str(path), why=refused.strerror or ""), where=str(path)) from refused


def json_text(jobs: Sequence[JobView]) -> str:
    """The `document` of this moment in one line of JSON."""
    return json.dumps(document(jobs, time.time_ns()), allow_nan=False, separators=(",", ":"))


def _median(walls_ns: Sequence[int]) -> int | None:
    ordered = sorted(walls_ns)
    return ordered[len(ordered) // 2] if ordered else None


def _strict(number: float | None) -> float | str | None:
    """A number that JSON holds; the name of NaN or an infinity."""
    return number if number is None or math.isfinite(number) else str(number)


def _seconds(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e9
