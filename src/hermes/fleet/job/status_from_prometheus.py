"""Reads the status of all ranks from a Prometheus that scrapes the hosts' exporters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.fleet.hosts.transport import Silence
from hermes.fleet.job.ask_prometheus import Sample, query
from hermes.fleet.job.parse_host_answers import JobRow, RankRow, name_of
from hermes.fleet.job.status import JobsPicture, SilentHost

_MOST_RANKS = 100_000
_RANKS = (
    '{__name__=~"hermes_(step|step_end_timestamp_seconds|step_((own|collective|baseline)_)?seconds|job_info|job_slow)"}'
)
_WAITS = 'hermes_step_part_seconds{part="data wait"}'
_DOWN = "up == 0 and on (instance, job) last_over_time(hermes_exporter_info[1h])"
_NS = 1_000_000_000


def ranks_from_prometheus(address: str, name: str, within_s: float) -> JobsPicture:
    """The last scrape of each exporter. Raises `HermesError` if no Prometheus answers at the address."""
    samples = [*query(address, _RANKS, within_s), *query(address, _WAITS, within_s)]
    names, slow = _jobs(samples)
    jobs: dict[tuple[str, str], list[RankRow]] = {}
    for (host, job, rank), row in _by_rank(samples).items():
        known = names.get((host, job), name_of(job, ""))
        if "hermes_step" in row and (name in known or name in job):
            jobs.setdefault((host, job), []).append(_rank(host, job, known, rank, row))
    picture = JobsPicture(address)
    picture.jobs = [
        JobRow(host=host, job=job, name=ranks[0].name, slow=(host, job) in slow, stalled=None, said=(),
               ranks=tuple(ranks)) for (host, job), ranks in jobs.items()
    ]  # fmt: skip
    down = sorted({one.host for one in query(address, _DOWN, within_s)})
    picture.silent = [SilentHost(host=host, silence=Silence.UNREACHABLE, why="up == 0") for host in down]
    picture.asked = len({host for host, _ in jobs} | set(down))
    return picture


def _jobs(samples: Sequence[Sample]) -> tuple[dict[tuple[str, str], str], set[tuple[str, str]]]:
    """The common name of each job, by host and job; and the jobs with an alarm that is not over."""
    names = {(one.host, one.job): name_of(one.job, one.labels.get("launch", "")[:120])
             for one in samples if one.metric == "hermes_job_info"}  # fmt: skip
    return names, {(one.host, one.job) for one in samples if one.metric == "hermes_job_slow" and one.value}


def _by_rank(samples: Sequence[Sample]) -> dict[tuple[str, str, int], dict[str, float]]:
    """The numbers of each rank by name, with `age` in seconds, by host, job and rank."""
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for one in samples:
        rank = one.labels.get("rank", "")
        if rank.isdecimal() and len(rank) < 10 and len(found) < _MOST_RANKS:
            row = found.setdefault((one.host, one.job, int(rank)), {})
            row[one.metric] = one.value
            if one.metric == "hermes_step_end_timestamp_seconds":
                row["age"] = one.moment - one.value
    return found


def _rank(host: str, job: str, name: str, rank: int, row: Mapping[str, float]) -> RankRow:
    def ns(metric: str) -> int | None:
        value = row.get(metric)
        return None if value is None or not 0 <= value < 1e9 else round(value * _NS)

    return RankRow(
        host=host, job=job, name=name, rank=rank, step=round(min(max(row["hermes_step"], 0.0), 1e15)),
        step_ns=ns("hermes_step_seconds"), baseline_ns=ns("hermes_step_baseline_seconds"),
        own_ns=ns("hermes_step_own_seconds"), collective_ns=ns("hermes_step_collective_seconds"),
        wait_ns=ns("hermes_step_part_seconds"), age_ns=None if "age" not in row else max(round(row["age"] * _NS), 0),
        alive=True,
    )  # fmt: skip
