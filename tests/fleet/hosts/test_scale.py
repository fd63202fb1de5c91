"""A thousand hosts are asked in seconds, and those that are dead, slow or wrong cost their own rows alone."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hermes.fleet.hosts.command_transport import Commands
from hermes.fleet.hosts.transport import Answer, Silence
from hermes.fleet.job.status import JobsPicture, document, look
from hermes.report.document_json import document_json
from hermes.report.document_text import render_document

MS = 10**6


def said(first: int, ranks: int = 8, **changed: Any) -> dict[str, Any]:
    """What `hermes watch --once --format json` says of a host with so many ranks."""
    row = {
        "step": 500, "step_ns": 100 * MS, "own_ns": 80 * MS, "collective_ns": 20 * MS, "device_ns": None,
        "baseline_ns": 100 * MS, "end_ns": 10**18, "alive": True, "split_ns": {"data wait": 2 * MS},
    }  # fmt: skip
    rows = [{**row, "rank": rank, **changed} for rank in range(first, first + ranks)]
    job = {
        "job": f"train-{first + 9}-7",
        "launch": "slurm-7",
        "slow": False,
        "stalled": None,
        "said": [],
        "ranks": rows,
    }
    return {"schema": "hermes.watch/1", "now_ns": 10**18 + 50 * MS, "jobs": [job]}


def answer(host: str, found: object, code: int = 0) -> Answer:
    return Answer(host=host, code=code, stdout=json.dumps(found).encode())


def picture(*answers: Answer) -> JobsPicture:
    made = JobsPicture("hosts")
    for one in answers:
        made.take(one)
    return made


def drawn(made: JobsPicture, **options: Any) -> str:
    file = io.StringIO()
    render_document(document(made), Console(file=file, width=160), **options)
    return file.getvalue()


@pytest.mark.live
def test_a_thousand_hosts_answer_and_the_dead_and_the_slow_are_named(tmp_path: Path) -> None:
    path = tmp_path / "said.json"
    path.write_text(json.dumps(said(0)))
    hosts = tuple(f"n{number:04}" for number in range(1000))
    dead, slow = set(hosts[::50]), set(hosts[7:1000:34][:30])

    def argv(host: str, words: Sequence[str]) -> Sequence[str]:
        assert words == ("hermes", "watch", "--once", "--format", "json")
        if host in dead:
            return ("sh", "-c", "echo 'ssh: no route to host' >&2; exit 255")
        return ("sleep", "600") if host in slow else ("cat", str(path))

    begin = time.monotonic()
    made = asyncio.run(
        look(Commands(hosts=hosts, argv=argv, at_once=64), where="x", hermes=("hermes",), name="", within_s=9)
    )
    took = time.monotonic() - begin
    assert len(made.jobs) == 1000 - len(dead) - len(slow)
    named = {one.host: one.silence for one in made.silent}
    assert named == {**dict.fromkeys(dead, Silence.FAILED), **dict.fromkeys(slow, Silence.LATE)}
    assert took < 20  # `benchmarks/fleet.py` measures it


def test_ten_thousand_ranks_are_one_picture() -> None:
    made = picture(*(answer(f"n{first // 8:04}", said(first)) for first in range(0, 10_000, 8)))
    made.take(answer("late", said(10_000, 1, own_ns=300 * MS)))
    begin = time.process_time()
    text = drawn(made)
    assert time.process_time() - begin < 2
    assert "rank 10000 on late" in text
    assert json.loads(document_json(document(made)))["ranks"][0]["rank"] == 10_000


HOSTILE: dict[str, object] = {
    "no JSON": b"\x00\xff", "deep": b"[" * 100_000, "another form": {"schema": "hermes.watch/2", "jobs": []},
    "jobs that are none": {**said(0), "jobs": {"a": 1}}, "rank that is none": said(0, 1, rank="0"),
    "huge number": said(0, 1, step=1 << 80), "job that is a list": {**said(0), "jobs": [[]]},
    "name that is none": {**said(0), "jobs": [{**said(0)["jobs"][0], "job": {"a": 1}}]},
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_false_answer_costs_its_own_rows(kind: str) -> None:
    text = HOSTILE[kind]
    raw = text if isinstance(text, bytes) else json.dumps(text).encode()
    made = picture(answer("good", said(8)), Answer(host="bad", code=0, stdout=raw))
    assert {row.host for row in made.ranks} == {"good"}
    assert [(one.host, one.silence) for one in made.silent] == [("bad", Silence.GARBLED)]


def test_text_of_a_host_steers_no_terminal_and_forges_no_line() -> None:
    evil = "\x1b[2J\x1b]0;x\x07\nhermes: all is well\u202e"
    job = {**said(0)["jobs"][0], "job": evil, "launch": evil, "slow": True, "said": [{"text": evil}]}
    made = picture(answer("bad", {**said(0), "jobs": [job]}), Answer(host="worse", code=1, stderr=evil))
    for text in (drawn(made), drawn(made, whole=True)):
        assert not {*"\x1b\x07\u202e"} & {*text}
        assert "\nhermes: all is well" not in text


def test_a_message_of_a_host_is_said_in_the_language_of_the_reader_only_if_it_is_one() -> None:
    from hermes.base.say import message_as_json as as_json
    from hermes.base.say import say
    from hermes.fleet.job.parse_host_answers import message_of_host
    from hermes.jobs.messages import no_progress

    real = as_json(no_progress(waited=20 * 10**9, last=7))
    assert say(message_of_host(real), "zh") != say(message_of_host(real), "en")
    forged = {**real, "arguments": {"waited": {"name": "x"}, "last": {"step": 7}}}
    strange = {**real, "id": "jobs.nothing_like_it"}
    huge = {**real, "arguments": {**real["arguments"], "waited": {"ns": "1e400"}}}
    assert [message_of_host(one) for one in (forged, strange, huge)] == [real["text"]] * 3


def test_one_rank_with_more_to_do_is_the_straggler() -> None:
    made = picture(*(answer(f"n{first}", said(first, own_ns=(80 + first % 3) * MS)) for first in range(0, 32, 8)),
                   answer("slow", said(32, 1, own_ns=130 * MS)))  # fmt: skip
    found = document(made)
    assert [(one.code, one.ranks) for one in found.findings] == [("straggler", (32,))]
    assert "on slow" in drawn(made)


def test_ranks_that_are_alike_have_no_straggler_nor_have_those_whose_waits_nobody_timed() -> None:
    alike = [answer(f"n{first}", said(first, own_ns=(80 + first % 5) * MS)) for first in range(0, 64, 8)]
    assert document(picture(*alike)).findings == ()
    untimed = [answer(f"n{first}", said(first, own_ns=None, step_ns=(100 + first) * MS)) for first in range(0, 64, 8)]
    assert document(picture(*untimed)).findings == ()


def test_a_job_whose_last_steps_are_old_on_all_hosts_stands_still_whatever_their_clocks_say() -> None:
    hour = 3600 * 10**9
    late = [{**said(first), "now_ns": 10**18 + 60 * 10**9 + first * hour} for first in (0, 8)]
    late[1]["jobs"][0]["ranks"] = [{**row, "end_ns": 10**18 + 8 * hour, "step": 499} for row in
                                   late[1]["jobs"][0]["ranks"]]  # fmt: skip
    found = document(picture(answer("n0", late[0]), answer("n1", late[1])))
    assert [(one.code, one.ranks) for one in found.findings] == [("no progress", tuple(range(8, 16)))]
    # A step that took long of late may do so again: all three answers wait for twice of it.
    saving = {
        **late[0],
        "jobs": [
            {**late[0]["jobs"][0], "ranks": [{**row, "longest_ns": 31 * 10**9} for row in late[0]["jobs"][0]["ranks"]]}
        ],
    }
    assert document(picture(answer("n0", saving))).findings == ()
    going = {**said(16), "now_ns": 10**18 + 10**9}
    assert document(picture(answer("n0", late[0]), answer("n2", going))).findings == ()


def test_a_rank_that_two_hosts_claim_is_told() -> None:
    made = picture(answer("n0", said(0)), answer("n1", said(7, 1)))
    assert "several hosts report rank 7 as their own" in drawn(made)
