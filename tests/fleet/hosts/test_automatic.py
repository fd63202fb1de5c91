"""A job on many hosts gets one capture for one trouble, whichever hosts say it, and captures count over the job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from click.testing import CliRunner
from tests.fleet.hosts.test_capture import hosts
from tests.fleet.hosts.test_scale import MS

from hermes.cli.app import app
from hermes.fleet.hosts.transport import Transport
from hermes.fleet.job.automatic_capture import Automatic, troubles
from hermes.fleet.job.capture_on_hosts import HostsCaptureWish
from hermes.fleet.job.parse_host_answers import JobRow, RankRow
from hermes.fleet.job.status import JobsPicture, look
from hermes.jobs.capture_policy import COOL_DOWN_NS, MOST_CAPTURES, REFILL_NS, RETRY_NS, Trouble

HOUR_NS = 3600 * 1_000_000_000


@dataclass(slots=True)
class Watching:
    """One watcher of hosts, at a time that the test says."""

    there: Transport
    ranks: str = "worst,median"
    now_ns: int = 100 * HOUR_NS
    said: list[Any] = field(default_factory=list)
    making: Automatic = field(init=False)

    def __post_init__(self) -> None:
        wish = HostsCaptureWish(ranks=self.ranks)
        self.making = Automatic(self.there, ("hermes",), wish, 5, self.said.append, lambda: self.now_ns)

    def looks(self, change: Callable[[RankRow], RankRow] = lambda row: row) -> list[dict[str, Any]]:
        """What was captured after one more look; `change` changes what the hosts say of their ranks."""

        async def whole() -> list[dict[str, Any]]:
            picture = await look(self.there, where="x", hermes=("hermes",), name="", within_s=5)
            picture.jobs = [replace(job, ranks=tuple(map(change, job.ranks))) for job in picture.jobs]
            return [dict(one.facts) for one in await self.making.look(picture)]

        return asyncio.run(whole())


def even(row: RankRow) -> RankRow:
    return replace(row, own_ns=50 * MS, step_ns=100 * MS)


def late(times: float = 2.0, rank: int = 3) -> Callable[[RankRow], RankRow]:
    """One rank takes so many times as long as the others."""
    return lambda row: replace(even(row), own_ns=round((times if row.rank == rank else 1) * 50 * MS))


def test_a_job_without_trouble_is_not_captured() -> None:
    assert Watching(hosts("", "")).looks(even) == []


def test_a_straggler_gets_one_capture_of_its_rank_and_the_median_on_all_hosts() -> None:
    watching = Watching(there := hosts("", "", ""))
    (facts,) = watching.looks(late(rank=5))
    assert (facts["whole"], facts["revoked"]) == (True, False)
    asked = {name: host.asked for name, host in there.by_name.items()}
    assert asked["n2"] == facts["start_step"]
    assert sum(one is not None for one in asked.values()) == 2
    # It stays late, and another host's rank is late too: that is one trouble of the job.
    watching.now_ns += COOL_DOWN_NS // 2
    assert watching.looks(late(rank=5)) == watching.looks(late(rank=0)) == []
    watching.now_ns += COOL_DOWN_NS
    assert len(watching.looks(late(rank=5))) == 1


def test_what_is_many_times_worse_gets_its_own() -> None:
    watching = Watching(hosts("", "", ""))
    assert len(watching.looks(late(1.5))) == 1
    assert watching.looks(late(1.6)) == []
    assert len(watching.looks(late(5.0))) == 1


def test_captures_of_a_job_are_spent_and_come_back() -> None:
    watching = Watching(hosts("", ""))
    for _ in range(MOST_CAPTURES):
        assert len(watching.looks(late())) == 1
        watching.now_ns += COOL_DOWN_NS + 1
    assert watching.looks(late()) == []
    watching.now_ns += REFILL_NS
    assert len(watching.looks(late())) == 1


def test_a_capture_that_nobody_took_up_costs_none() -> None:
    watching = Watching(there := hosts("", "refuses"))
    (facts,) = watching.looks(late())
    assert facts["revoked"]
    assert watching.looks(late()) == []
    there.by_name["n1"].fault = ""
    watching.now_ns += RETRY_NS + 1
    (facts,) = watching.looks(late())
    assert facts["whole"]


def test_a_rank_that_is_not_there_ends_no_watch_and_costs_no_capture() -> None:
    watching = Watching(hosts("", ""), ranks="99")
    assert watching.looks(late()) == []
    assert [one.identifier for one in watching.said] == ["fleet.no_such_ranks"]
    watching.now_ns += RETRY_NS + 1
    assert watching.looks(late()) == []
    assert len(watching.said) == 2


def picture(*jobs: JobRow) -> JobsPicture:
    return JobsPicture("x", jobs=list(jobs))


def row(rank: int, **known: Any) -> RankRow:
    whole: dict[str, Any] = dict.fromkeys(("own_ns", "collective_ns", "wait_ns", "baseline_ns"))
    return RankRow(host="a", job="a-1-1", name="a", rank=rank, step=9, alive=True,
                   **{**whole, "step_ns": 100 * MS, "age_ns": MS, **known})  # fmt: skip


def job(name: str, *rows: RankRow, slow: bool = False) -> JobRow:
    own = tuple(replace(one, name=name) for one in rows)
    return JobRow(host="a", job=f"{name}-1-1", name=name, slow=slow, stalled=None, said=(), ranks=own)


def test_the_trouble_is_told_by_the_hosts_and_each_job_has_its_own() -> None:
    slow = job("slow", row(0, baseline_ns=40 * MS), row(1), slow=True)
    unknown = job("unknown", row(0), slow=True)
    still = job("still", row(0, age_ns=3_600_000 * MS), slow=True)
    found = dict(troubles(picture(slow, unknown, still, job("well", row(0)))))
    assert found == {"slow": Trouble(cause="", more=1.5), "unknown": Trouble(cause="", more=None)}


def test_a_prometheus_captures_nothing() -> None:
    ran = CliRunner().invoke(app, ["fleet", "watch", "--prometheus", "http://127.0.0.1:1", "--capture"])
    assert ran.exit_code == 2
    assert "--prometheus asks none" in ran.output


def test_two_jobs_on_the_same_hosts_have_their_own_captures() -> None:
    watching = Watching(hosts("", "two jobs"))

    def other_is_late(one: RankRow) -> RankRow:
        return replace(even(one), own_ns=(100 if (one.name, one.rank) == ("other", 3) else 50) * MS)

    assert [one["job"] for one in watching.looks(late(rank=0))] == ["slurm-7"]
    assert [one["job"] for one in watching.looks(other_is_late)] == ["other"]
