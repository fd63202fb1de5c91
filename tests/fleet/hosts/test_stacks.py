"""Of a job that makes no progress the rank that did not enter the collective is named, with its host and line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.fleet.hosts.test_scale import answer, picture, said
from tests.jobs.live_job import LiveJob, live_job

from hermes.base.say import say
from hermes.fleet.hosts.transport import Answer, Silence
from hermes.fleet.job.hang import Stacks
from hermes.fleet.job.parse_host_answers import GarbledError
from hermes.fleet.job.stacks import document, read
from hermes.fleet.job.status import SilentHost
from hermes.report.document_text import render_document

pytestmark = pytest.mark.live

__all__ = ["live_job"]
HERMES = Path(sys.executable).with_name("hermes")


def row(rank: int, **changed: Any) -> dict[str, Any]:
    return {
        "rank": rank, "pid": 9, "alive": True, "step": 40, "age_ns": 60 * 10**9, "usual_ns": 10**8,
        "collective": "all_reduce", "line": "train.py:30 (train)", "stack": "", **changed,
    }  # fmt: skip


def group(last: int, waiting: str = "", number: int = 0, name: str = "0", **changed: Any) -> dict[str, Any]:
    """How far a rank is in a group, as its flight recorder says."""
    waits = {"number": number or last, "name": waiting, "state": "scheduled", "sizes": "64", "line": "train.py:9 (f)"}
    return {"name": name, "about": "default_pg", "ranks": [], "last": last, "waiting": waits if waiting else None,
            **changed}  # fmt: skip


def link(local: str, remote: str, tries: int = 0) -> dict[str, Any]:
    return {"local": local, "remote": remote, "tries": tries}


def stood(*rows: dict[str, Any], silent: str = "") -> Stacks:
    made = Stacks(picture(answer("n0", said(0))))
    for one in rows:
        text = json.dumps({"schema": "hermes.stacks/1", "ranks": [one]}).encode()
        made.ranks += read(Answer(host=f"n{one['rank']}", code=0, stdout=text))
    if silent:
        made.silent.append(SilentHost(host=silent, silence=Silence.LATE, why=""))
    return made


def test_the_rank_that_did_not_enter_is_named_with_host_and_line() -> None:
    elsewhere = row(2, collective="", line="data.py:7 (load)", stack='File "data.py", line 7 in load\n\x1b[2J')
    found = document(stood(row(0), row(1), elsewhere, row(3)))
    assert [(one.code, one.ranks, one.lines) for one in found.findings] == [
        ("not entered", (2,), ("data.py:7 (load)",))
    ]
    assert say(found.answer).startswith("rank 2 on n2 has not entered all_reduce")
    file = io.StringIO()
    render_document(found, Console(file=file, width=140))
    assert "line 7 in load" in file.getvalue()
    assert "\x1b" not in file.getvalue()


def test_a_process_that_is_gone_is_named_before_all_else() -> None:
    found = document(stood(row(0), row(1, alive=False, collective=None, line=None)))
    assert [(one.code, one.ranks) for one in found.findings] == [("gone", (1,))]


def test_where_all_wait_the_host_that_was_not_heard_of_is_named() -> None:
    found = document(stood(row(0), row(1), silent="n7"))
    assert found.findings == ()
    assert "and n7 did not answer" in say(found.answer)
    assert "all 2 ranks wait in all_reduce" in say(document(stood(row(0), row(1))).answer)


def test_nobody_is_named_while_steps_go_on() -> None:
    found = document(stood(row(0, age_ns=10**8), row(1, age_ns=10**8, collective="")))
    assert (found.findings, found.facts["still"]) == ((), False)


def test_an_answer_that_is_none_is_told_apart() -> None:
    bad = {"rank": 0, "step": 1}
    for rows in (
        7,
        [[]],
        [{"rank": "0", "step": 1}],
        [{**bad, "line": [1]}],
        [{**bad, "groups": [{"name": 1}]}],
        [{**bad, "links": [{"local": "a"}]}],
        [{**bad, "groups": [group(1) | {"waiting": {"number": 1}}]}],
    ):
        text = json.dumps({"schema": "hermes.stacks/1", "ranks": rows}).encode()
        try:
            read(Answer(host="n", code=0, stdout=text))
        except GarbledError:
            continue
        raise AssertionError(rows)


def test_one_host_says_where_its_ranks_stand(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 30)
    environment = {**os.environ, **live_job.environment}
    done = subprocess.run([HERMES, "stacks", "--format", "json"], env=environment, capture_output=True, check=True)
    found = json.loads(done.stdout)
    (rank,) = found["ranks"]
    assert (found["schema"], found["job"]) == ("hermes.stacks/1", live_job.job.id)
    assert (rank["rank"], rank["step"], rank["alive"]) == (0, 30, True)
    text = subprocess.run([HERMES, "stacks"], env=environment, capture_output=True, check=True, text=True).stdout
    assert text.startswith("rank 0")


def test_a_flight_recorder_tells_which_collective_was_not_entered() -> None:
    waits = [row(rank, collective="gloo:all_reduce", groups=[group(8, "gloo:all_reduce")]) for rank in (0, 1)]
    elsewhere = row(2, collective="", line="data.py:7 (load)", groups=[group(7)])
    (found,) = document(stood(*waits, elsewhere)).findings
    assert say(found.message) == (
        "rank 2 on n2 has not entered gloo:all_reduce, number 8 of group default_pg, in which the other ranks wait at "
        "train.py:9 (f): it stands at data.py:7 (load)"
    )


def test_the_rank_that_calls_another_collective_is_named() -> None:
    calls = ["gloo:all_reduce", "gloo:all_reduce", "gloo:all_gather", "gloo:all_reduce"]
    found = document(stood(*(row(rank, groups=[group(8, call)]) for rank, call in enumerate(calls))))
    assert [(one.code, one.ranks) for one in found.findings] == [("other collective", (2,))]
    assert "has called gloo:all_gather as number 8 of group default_pg, the other ranks gloo:all_reduce 64" in (
        say(found.answer)
    )
    sizes = [group(8, "gloo:all_reduce") for _ in range(3)]
    sizes[1]["waiting"]["sizes"] = "32"
    found = document(stood(*(row(rank, groups=[one]) for rank, one in enumerate(sizes))))
    assert [(one.code, one.ranks) for one in found.findings] == [("other collective", (1,))]


def test_ranks_that_wait_for_each_other_in_two_groups_are_named() -> None:
    first = [group(4, "nccl:all_reduce", name="a", about="tp"), group(6, name="b", about="dp")]
    second = [group(3, name="a", about="tp"), group(7, "nccl:all_gather", name="b", about="dp")]
    third = [group(4, "nccl:all_reduce", name="a", about="tp")]
    rows = [row(rank, collective=name, groups=groups) for rank, name, groups in (
        (0, "nccl:all_reduce", first), (1, "nccl:all_gather", second), (2, "nccl:all_reduce", third)
    )]  # fmt: skip
    found = document(stood(*rows))
    assert [(one.code, one.ranks) for one in found.findings] == [("order", (0,)), ("order", (1,))]


def test_the_link_that_all_connections_without_an_answer_share_is_cut() -> None:
    waits = {"collective": "gloo:all_reduce"}
    rows = [
        row(0, **waits, links=[link("10.0.0.1", "10.0.0.2"), link("10.0.0.1", "10.0.0.3", 7)]),
        row(1, **waits, links=[link("10.0.0.2", "10.0.0.1"), link("10.0.0.2", "10.0.0.3", 4)]),
    ]
    cut = row(2, **waits, links=[link("10.0.0.3", "10.0.0.1", 6)])
    found = document(stood(*rows, cut))
    assert [one.code for one in found.findings] == ["link"]
    assert "the link of n2: connections to 2 other hosts" in say(found.answer)
    # The same where the host was not heard of; and one pair alone says only that nothing passes between the two.
    assert "the link of n2: connections to 2 other hosts" in say(document(stood(*rows, silent="n2")).answer)
    assert "the link of n2: the connection" in say(document(stood(rows[0], silent="n2")).answer)
    one = row(1, **waits, links=[link("10.0.0.2", "10.0.0.1")])
    pair = row(0, **waits, links=[link("10.0.0.1", "10.0.0.2", 7)])
    assert "nothing passes between n0 and n1" in say(document(stood(pair, one)).answer)
    healthy = row(0, **waits, links=[link("10.0.0.1", "10.0.0.2", 2)])
    assert document(stood(healthy, one)).findings == ()
