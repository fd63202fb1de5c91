"""Running jobs for other programs: one JSON document, or OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.base.write_atomic import write_atomic
from hermes.jobs.view import JobView, RankView

SCHEMA = "hermes.watch/1"
PERIOD_S = 15.0
"""Between two documents or files."""
STATES = ("baseline", "watching", "at risk", "no progress")
_OF_RANK: tuple[tuple[str, str, str, Callable[[RankView], float | None]], ...] = (
    ("step", "", "last step that has ended", lambda rank: rank.step),
    ("step_seconds", "seconds", "median time of the latest steps", lambda rank: _seconds(_median(rank.walls_ns))),
    ("step_baseline_seconds", "seconds", "typical time of a step before", lambda rank: _seconds(rank.baseline_ns)),
    ("samples_per_second", "", "samples a second", lambda rank: rank.samples_per_s),
    ("tokens_per_second", "", "tokens a second", lambda rank: rank.tokens_per_s),
    ("mfu_ratio", "ratio", "FLOPs of the model by the peak of the device", lambda rank: rank.mfu),
    ("memory_bytes", "bytes", "resident memory", lambda rank: rank.memory_bytes),
    ("loss", "", "loss of the last step that was looked at", lambda rank: rank.loss),
    ("gradient_norm", "", "norm of its gradients", lambda rank: rank.gradient_norm),
    ("update_ratio", "ratio", "what it changed of the parameters, by norm", lambda rank: rank.update_ratio),
)


def document(jobs: Sequence[JobView]) -> dict[str, object]:
    """All jobs; what is not measured is null."""
    return {"schema": SCHEMA, "jobs": [_job(job) for job in jobs]}


def _job(job: JobView) -> dict[str, object]:
    return {
        "job": job.id,
        "state": job.state,
        "stalled": job.stalled,
        "alarms": job.alarms,
        "slow": job.slow,
        "said": list(job.said),
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
        "split_ns": {name: round(ns) for name, ns in rank.split},
        "bandwidth": [
            {"kind": one.kind, "group": one.group, "calls": one.calls, "bytes": one.size_bytes, "ns": one.ns,
             "gb_per_s": one.gb_per_s} for one in rank.bandwidth
        ],
    }  # fmt: skip


def openmetrics(jobs: Sequence[JobView]) -> str:
    """All jobs in the text format of OpenMetrics 1.0, ended by its `# EOF`."""
    return "\n".join([*_families(jobs), "# EOF", ""])


def _families(jobs: Sequence[JobView]) -> Iterator[str]:
    yield from _family("hermes_job_slow", "whether steps are slower than they were",
                       [(_labels(job=job.id), float(job.slow)) for job in jobs])  # fmt: skip
    states = [
        (_labels(job=job.id, hermes_job_state=state), float(job.state == state)) for job in jobs for state in STATES
    ]
    yield from ["# TYPE hermes_job_state stateset", "# HELP hermes_job_state what the watcher says of the job"]
    yield from (f"hermes_job_state{labels} {value:.0f}" for labels, value in states)
    yield from ["# TYPE hermes_job_alarms counter", "# HELP hermes_job_alarms alarms since the watcher began"]
    yield from (f"hermes_job_alarms_total{_labels(job=job.id)} {job.alarms}" for job in jobs)
    for name, unit, text, value in _OF_RANK:
        rows = [(_labels(job=job.id, rank=str(rank.rank)), found) for job in jobs for rank in job.ranks
                if (found := value(rank)) is not None]  # fmt: skip
        yield from _family(f"hermes_{name}", text, rows, unit)
    parts = [
        (_labels(job=job.id, rank=str(rank.rank), part=name), ns / 1e9)
        for job in jobs for rank in job.ranks for name, ns in rank.split
    ]  # fmt: skip
    yield from _family("hermes_step_part_seconds", "mean time of a step by what it was spent on", parts, "seconds")
    moved = [
        (_labels(job=job.id, rank=str(rank.rank), kind=one.kind, group=one.group), one.gb_per_s * 1e9)
        for job in jobs for rank in job.ranks for one in rank.bandwidth
    ]  # fmt: skip
    yield from _family("hermes_collective_bytes_per_second", "bytes of a collective by its time", moved)


def _family(name: str, text: str, rows: Sequence[tuple[str, float]], unit: str = "") -> Iterator[str]:
    if not rows:
        return
    yield f"# TYPE {name} gauge"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {text}"
    yield from (f"{name}{labels} {value:.9g}" for labels, value in rows)


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
        raise HermesError(f"{path} cannot be written ({refused.strerror})", where=str(path)) from refused


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
