"""Hosts are reached by a real OpenSSH server with the keys and known hosts of a configuration, and by nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.hosts.lab import Lab, lab
from tests.jobs.live_job import LiveJob, live_job

from hermes.fleet.hosts.ssh import Ssh
from hermes.fleet.hosts.transport import Answer, Silence, each

pytestmark = pytest.mark.live

__all__ = ["live_job"]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path / "ssh") as made:
        yield made


def asked(lab: Lab, words: list[str], *names: str, within_s: float = 30, most: int = 1 << 20) -> dict[str, Answer]:
    async def whole() -> dict[str, Answer]:
        transport = Ssh({name: name for name in names}, lab.config)
        try:
            found = each(transport, {name: words for name in names}, within_s=within_s, most_bytes=most)
            return {one.host: one async for one in found}
        finally:
            await transport.close()

    return asyncio.run(whole())


def test_words_arrive_as_they_are(here: Lab) -> None:
    here.serve("node1", {"MARK": "a b"})
    odd = ["$HOME", "a  b", "'", '"', "; exit 3", "`id`", "\\", "\n", "-n", "é", "*"]
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['MARK']])); sys.exit(4)"
    answer = asked(here, ["python3", "-c", code, *odd], "node1")["node1"]
    assert (answer.code, json.loads(answer.stdout), answer.silence) == (4, [odd, "a b"], None)


def test_each_host_that_does_not_answer_says_why_and_costs_no_other(here: Lab) -> None:
    here.serve("good", {})
    here.serve("other-key", {}, key="stranger")
    here.blocks.append("Host closed\n  HostName 127.0.0.1\n  Port 1\n")
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        here.blocks.append(f"Host mute\n  HostName 127.0.0.1\n  Port {mute.getsockname()[1]}\n")
        found = asked(here, ["echo", "yes"], "good", "other-key", "closed", "mute", within_s=10)
    assert {name: one.silence for name, one in found.items()} == {
        "good": None, "other-key": Silence.STRANGER, "closed": Silence.UNREACHABLE, "mute": Silence.LATE,
    }  # fmt: skip
    assert found["good"].stdout == b"yes\n"


def test_a_program_on_a_host_reads_what_it_is_given(here: Lab) -> None:
    here.serve("node1", {})
    given = os.urandom(3_000_000)

    async def ran() -> tuple[int, bytes, bytes]:
        transport = Ssh({"node1": "node1"}, here.config)
        try:
            return await transport.run("node1", ["sha256sum"], 4096, given)
        finally:
            await transport.close()

    code, out, _ = asyncio.run(ran())
    assert (code, out.split()[0].decode()) == (0, hashlib.sha256(given).hexdigest())


def test_who_answers_too_much_or_too_late_is_not_waited_for(here: Lab) -> None:
    here.serve("node1", {})
    assert asked(here, ["cat", "/dev/zero"], "node1", within_s=20)["node1"].silence is Silence.TOO_MUCH
    late = asked(here, ["sleep", "60"], "node1", within_s=3)["node1"]
    assert (late.silence, late.seconds < 10) == (Silence.LATE, True)
    noisy = asked(here, ["sh", "-c", "cat /dev/zero | head -c 9000000 >&2; echo yes"], "node1")["node1"]
    assert (noisy.stdout, len(noisy.stderr)) == (b"yes\n", 4096)


def test_the_status_of_a_job_on_two_hosts_is_one_picture(here: Lab, live_job: LiveJob) -> None:
    live_job.steps([10.0] * 60)
    here.serve("node1", live_job.environment)
    here.serve("node2", {"HERMES_RUN_DIR": str(here.folder / "none"), "HERMES_SHM_DIR": str(here.folder)})
    hosts = here.hosts("node1", "node2", "gone")
    found = json.loads(here.fleet("status", "--hosts", hosts, "--format", "json", code=(1, 3)))
    (rank,) = found["ranks"]
    assert (rank["host"], rank["rank"], rank["step"], rank["step_ns"]) == ("node1", 0, 60, 10_000_000)
    assert [one["host"] for one in found["silent_hosts"]] == ["gone"]
    assert "node2" in json.dumps(found["coverage"])
