"""Running jobs for other programs: one JSON document, or OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.base.message import Word
from hermes.base.say import say, told
from hermes.base.write_atomic import write_atomic
from hermes.jobs.capture_messages import cannot_write
from hermes.jobs.messages import JobState
from hermes.jobs.view import JobView, RankView

SCHEMA = "hermes.watch/1"
PERIOD_S = 15.0
"""Between two documents or files."""
_UNITS = ("seconds", "bytes", "ratio")


class Metric(Word):
    """A family of metrics: its name without `hermes_`."""

    SLOW = "job_slow"
    STATE = "job_state"
    ALARMS = "job_alarms"
    STEP = "step"
    STEP_SECONDS = "step_seconds"
    BASELINE = "step_baseline_seconds"
    SAMPLES = "samples_per_second"
    TOKENS = "tokens_per_second"
    MFU = "mfu_ratio"
    MEMORY = "memory_bytes"
    LOSS = "loss"
    GRADIENTS = "gradient_norm"
    UPDATE = "update_ratio"
    PARTS = "step_part_seconds"
    BANDWIDTH = "collective_bytes_per_second"

    @property
    def family(self) -> str:
        """Its whole name."""
        return f"hermes_{self.value}"

    @property
    def unit(self) -> str:
        """What its numbers are in; empty for a plain number."""
        last = self.value.rpartition("_")[2]
        return last if last in _UNITS else ""

    @property
    def help(self) -> str:
        """What it is. Prometheus keeps one text for all readers: it is English."""
        return say(self.message)


_OF_RANK: Mapping[Metric, Callable[[RankView], float | None]] = {
    Metric.STEP: lambda rank: rank.step,
    Metric.STEP_SECONDS: lambda rank: _seconds(_median(rank.walls_ns)),
    Metric.BASELINE: lambda rank: _seconds(rank.baseline_ns),
    Metric.SAMPLES: lambda rank: rank.samples_per_s,
    Metric.TOKENS: lambda rank: rank.tokens_per_s,
    Metric.MFU: lambda rank: rank.mfu,
    Metric.MEMORY: lambda rank: rank.memory_bytes,
    Metric.LOSS: lambda rank: rank.loss,
    Metric.GRADIENTS: lambda rank: rank.gradient_norm,
    Metric.UPDATE: lambda rank: rank.update_ratio,
}


def document(jobs: Sequence[JobView]) -> dict[str, object]:
    """All jobs; what is not measured is null."""
    return {"schema": SCHEMA, "jobs": [_job(job) for job in jobs]}


def _job(job: JobView) -> dict[str, object]:
    return {
        "job": job.id,
        "state": None if job.state is None else job.state.value,
        "stalled": None if job.stalled is None else told(job.stalled),
        "alarms": job.alarms,
        "slow": job.slow,
        "said": [told(line) for line in job.said],
        "ranks": [_rank(rank) for rank in job.ranks],
    }


def _rank(rank: RankView) -> dict[str, object]:
    return {
        "rank": rank.rank,
        "step": rank.step,
        "step_ns": _median(rank.walls_ns),
        "baseline_ns": rank.baseline_ns,
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
    return "\n".join([*_families(jobs), "# EOF", ""])


def _families(jobs: Sequence[JobView]) -> Iterator[str]:
    yield from _family(Metric.SLOW, [(_labels(job=job.id), float(job.slow)) for job in jobs])
    states = [
        (_labels(job=job.id, hermes_job_state=state.value), float(job.state is state))
        for job in jobs for state in JobState
    ]  # fmt: skip
    yield from _head(Metric.STATE, "stateset")
    yield from (f"{Metric.STATE.family}{labels} {value:.0f}" for labels, value in states)
    yield from _head(Metric.ALARMS, "counter")
    yield from (f"{Metric.ALARMS.family}_total{_labels(job=job.id)} {job.alarms}" for job in jobs)
    for metric, value in _OF_RANK.items():
        rows = [(_labels(job=job.id, rank=str(rank.rank)), found) for job in jobs for rank in job.ranks
                if (found := value(rank)) is not None]  # fmt: skip
        yield from _family(metric, rows)
    parts = [
        (_labels(job=job.id, rank=str(rank.rank), part=spent.value), ns / 1e9)
        for job in jobs for rank in job.ranks for spent, ns in rank.split
    ]  # fmt: skip
    yield from _family(Metric.PARTS, parts)
    moved = [
        (_labels(job=job.id, rank=str(rank.rank), kind=one.kind, group=one.group), one.gb_per_s * 1e9)
        for job in jobs for rank in job.ranks for one in rank.bandwidth
    ]  # fmt: skip
    yield from _family(Metric.BANDWIDTH, moved)


def _head(metric: Metric, kind: str) -> Iterator[str]:
    yield f"# TYPE {metric.family} {kind}"
    if kind == "gauge" and metric.unit:
        yield f"# UNIT {metric.family} {metric.unit}"
    yield f"# HELP {metric.family} {metric.help}"


def _family(metric: Metric, rows: Sequence[tuple[str, float]]) -> Iterator[str]:
    if rows:
        yield from _head(metric, "gauge")
        yield from (f"{metric.family}{labels} {value:.9g}" for labels, value in rows)


def _labels(**values: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items()) + "}"


def _escaped(text: str) -> str:
    """As the format asks; whoever names a job or a group may have named it anything."""
    plain = "".join(character if character.isprintable() else "\ufffd" for character in text[:200])
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def write_textfile(path: Path, jobs: Sequence[JobView]) -> None:
    """Replace the file whole, as the collector `textfile` of the node exporter wants it. Raises `HermesError`.

    That collector reads Prometheus' own text format, in which the end is no line of its own.
    """
    text = openmetrics(jobs).removesuffix("# EOF\n")
    try:
        with write_atomic(path, mode=0o644) as file:
            # Of this format the exporter knows neither units nor sets of states.
            lines = (line for line in text.splitlines() if not line.startswith("# UNIT"))
            plain = "\n".join(lines).replace(" stateset", " gauge").replace("hermes_job_alarms counter",
                     "hermes_job_alarms_total counter").replace("HELP hermes_job_alarms ",
                     "HELP hermes_job_alarms_total ")  # fmt: skip
            file.write(f"{plain}\n".encode())
    except OSError as refused:
        raise HermesError(cannot_write(path=str(path), why=refused.strerror or ""), where=str(path)) from refused


def json_text(jobs: Sequence[JobView]) -> str:
    """`document` in one line."""
    return json.dumps(document(jobs), allow_nan=False, separators=(",", ":"))


def _median(walls_ns: Sequence[int]) -> int | None:
    ordered = sorted(walls_ns)
    return ordered[len(ordered) // 2] if ordered else None


def _strict(number: float | None) -> float | str | None:
    """A number that JSON holds, or its name."""
    return number if number is None or math.isfinite(number) else str(number)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9
