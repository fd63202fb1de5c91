"""A capture begins at the same step on all hosts or on none, whatever a host does while it is asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.fleet.hosts.test_scale import MS, said

from hermes.base.errors import QueryError
from hermes.base.say import say
from hermes.fleet.hosts.transport import Silence, SilentError
from hermes.fleet.job.capture_on_hosts import Captured, Capturing, HostsCaptureWish
from hermes.fleet.job.capture_report import document
from hermes.fleet.job.status import look


@dataclass(slots=True)
class Host:
    """One host as `hermes` there would answer: its ranks step on while it is asked. `fault` is what it does wrong."""

    name: str
    ranks: tuple[int, ...]
    step_s: float = 0.005
    fault: str = ""
    began: float = field(default_factory=time.monotonic)
    asked: int | None = None
    cancelled: list[int] = field(default_factory=list)

    @property
    def step(self) -> int:
        return 100 + int((time.monotonic() - self.began) / self.step_s)

    def says(self, words: Sequence[str]) -> tuple[int, object]:
        if words[0] == "watch":
            job = said(self.ranks[0], len(self.ranks), step=self.step)["jobs"][0]
            rows = [{**row, "own_ns": (100 + row["rank"]) * MS} for row in job["ranks"]]
            jobs = [{**job, "job": f"train-{self.name[1:]}-9", "ranks": rows}]
            if self.fault == "a job for each rank":
                jobs = [{**job, "job": f"train-{row['rank']}-9", "ranks": [row]} for row in rows]
            if self.fault == "two jobs":
                jobs.append({**job, "job": "other-1-1", "launch": "other"})
            return 0, {**said(0), "jobs": jobs}
        if words[0] == "analyze":
            return 0, {"schema": "hermes.report/1", "verdict": {"message": {"text": f"{words[1]} is slow"}}}
        if words[0] == "fleet":
            return 2, {}
        first = int(words[words.index("--start-step") + 1]) if "--start-step" in words else 0
        if "--status" in words:
            rows = [{"rank": rank, "alive": True, "step": self.step, "step_ns": int(self.step_s * 1e9)}
                    for rank in self.ranks]  # fmt: skip
            return 0, {"schema": "hermes.profile-status/1", "ranks": rows}
        if "--cancel" in words:
            self.cancelled.append(first)
            self.asked = None
            return 0, {}
        return self.profile(words, first)

    def profile(self, words: Sequence[str], first: int) -> tuple[int, object]:
        state = "finished"
        if "--no-wait" in words:
            self.asked = first
            state = "late" if self.step >= first else "accepted"
            if self.fault == "refuses":
                return 2, {}
        elif self.fault == "rank dies":
            state = "gone"
        ranks = words[words.index("--ranks") + 1].split(",") if "--ranks" in words else map(str, self.ranks)
        rows = [{"rank": int(rank), "state": state, "text": f"step {self.step}"} for rank in ranks]
        folder = "../../etc" if self.fault == "odd folder" else f"/runs/{self.name}/captures/a b"
        return 0, {"schema": "hermes.capture/1", "folder": folder, "report": f"/runs/{self.name}/r", "ranks": rows}


@dataclass(slots=True)
class Hosts:
    """A transport to them."""

    by_name: dict[str, Host]
    absent: Mapping[str, str] = field(default_factory=dict)
    first_delay_s: float = 0.0

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    async def run(
        self, host: str, words: Sequence[str], most_bytes: int, given: bytes = b""
    ) -> tuple[int, bytes, bytes]:
        one = self.by_name[host]
        if "--no-wait" in words:
            delay, self.first_delay_s = self.first_delay_s, 0.0
            await asyncio.sleep(delay)
            if one.fault == "silent when told":
                raise SilentError(Silence.UNREACHABLE, "the link is cut")
        if "--follow" in words and one.fault == "dies":
            raise SilentError(Silence.UNREACHABLE, "the link is cut")
        code, found = one.says(words[1:])
        return code, json.dumps(found).encode(), b"hermes: refused"

    async def close(self) -> None:
        """Nothing stays open."""


def hosts(*faults: str, step_s: float = 0.005) -> Hosts:
    each = [Host(f"n{at}", (2 * at, 2 * at + 1), step_s, fault) for at, fault in enumerate(faults)]
    return Hosts({one.name: one for one in each})


def captured(there: Hosts, **wish: Any) -> tuple[Captured, dict[str, Any]]:
    async def whole() -> tuple[Captured, dict[str, Any]]:
        picture = await look(there, where="x", hermes=("hermes",), name="", within_s=5)
        made = await Capturing(there, ("hermes",), HostsCaptureWish(**wish), 5, lambda _: None).run(picture)
        return made, dict(document(made, picture).facts)

    return asyncio.run(whole())


@pytest.mark.parametrize("step_s", [0.000_5, 0.005, 0.4])
def test_all_hosts_are_told_one_step_that_none_has_begun(step_s: float) -> None:
    there = hosts("", "", "", step_s=step_s)
    made, facts = captured(there)
    assert {one.asked for one in there.by_name.values()} == {made.start_step}
    assert (made.whole, facts["whole"], len(made.said)) == (True, True, 6)
    assert say(made.parts["n1", "train-1-9"].verdict) == "/runs/n1/captures/a b is slow"


@pytest.mark.parametrize("fault", ["refuses", "silent when told"])
def test_one_host_that_does_not_take_it_up_ends_it_for_all(fault: str) -> None:
    there = hosts("", fault, "")
    made, facts = captured(there)
    assert (facts["whole"], facts["revoked"]) == (False, True)
    # The one that was not heard of too: it may have taken it up.
    assert [one.cancelled for one in there.by_name.values()] == [[made.start_step]] * 3
    assert "ranks 2 and 3 on n1" in say(made.revoked)
    assert not any(part.verdict for part in made.parts.values())


def test_a_step_that_is_over_when_a_host_hears_of_it_is_chosen_anew_farther_ahead() -> None:
    there = hosts("", "")
    there.first_delay_s = 2.0
    made, _ = captured(there)
    (first,) = there.by_name["n0"].cancelled
    assert there.by_name["n1"].cancelled == [first]
    assert made.start_step > first
    assert made.whole


def test_who_is_lost_on_the_way_is_named_and_the_others_keep_what_they_have() -> None:
    made, facts = captured(hosts("", "dies", "rank dies"))
    assert (facts["whole"], facts["revoked"]) == (False, False)
    states = {(key[0], one.state) for key, one in made.said.items()}
    assert states == {("n0", "finished"), ("n1", "silent"), ("n2", "gone")}
    assert [one.host for one in made.silent] == ["n1"]
    assert [host for (host, _), part in made.parts.items() if part.verdict] == ["n0"]


def test_a_folder_that_is_none_is_not_handed_back_to_its_host() -> None:
    made, _ = captured(hosts("odd folder"))
    (part,) = made.parts.values()
    assert (part.folder, part.verdict) == ("", "")


def test_ranks_are_chosen_by_words_and_numbers() -> None:
    there = hosts("", "", "")
    made, _ = captured(there, ranks="worst,median,0-1")
    assert sorted(rank for _, rank in made.said) == [0, 1, 2, 5]
    for wrong in ("best", "0-", "-1", "99", "0;id"):
        with pytest.raises(QueryError):
            captured(hosts(""), ranks=wrong)


def test_a_launcher_may_have_started_one_watched_job_for_each_rank() -> None:
    there = hosts("a job for each rank", "")
    made, facts = captured(there)
    assert (facts["whole"], len(made.said)) == (True, 4)
    asked = {(host, job): part.ranks for (host, job), part in made.parts.items()}
    assert asked == {("n0", "train-0-9"): (0,), ("n0", "train-1-9"): (1,), ("n1", "train-1-9"): (2, 3)}


def test_of_several_jobs_one_has_to_be_meant() -> None:
    with pytest.raises(QueryError, match="several jobs run on these hosts: other and slurm-7"):
        captured(hosts("", "two jobs"))
