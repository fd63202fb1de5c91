"""What else is different on the host of a straggler: the process that eats the cores, then clocks, heat, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.hosts.lab import HERMES
from tests.fleet.hosts.test_scale import MS
from tests.jobs.live_job import LiveJob, live_job, record
from tests.patience import until

from hermes.base.say import say
from hermes.fleet.hosts.transport import Answer
from hermes.fleet.job.find_slow_jobs import Straggler
from hermes.fleet.job.host_activity import waited
from hermes.fleet.job.parse_host_answers import GarbledError, RankRow
from hermes.fleet.job.straggler_host import HostNow, judged, read
from hermes.inside.wire.step_record import unpack

pytestmark = pytest.mark.live

__all__ = ["live_job"]
SECOND = 10**9
EATS = "import time\nwhile True: pass  # eats a core"


def late(own_ms: int = 150, others_ms: int = 80) -> Straggler:
    row = RankRow(
        host="n3", job="train-1-2", name="7", rank=5, step=9, step_ns=200 * MS, baseline_ns=None, own_ns=own_ms * MS,
        collective_ns=0, wait_ns=None, age_ns=0, alive=True,
    )  # fmt: skip
    return Straggler(row=row, own_ns=own_ms * MS, others_ns=others_ms * MS)


def now(name: str, **changed: Any) -> HostNow:
    found: dict[str, Any] = {
        "schema": "hermes.host/1", "processes": [], "pressure": {"cpu": 0.02, "memory": 0.0, "io": 0.01},
        "errors": {"network errors": 0, "retransmits": 3}, "ranks": [],
        "devices": [{"device": "npu 0", "hertz": 1.8e9, "celsius": 55, "errors": 0}], **changed,
    }  # fmt: skip
    return read(Answer(host=name, code=0, stdout=json.dumps(found).encode()))


def said(own: HostNow, *others: HostNow) -> list[str]:
    return [say(one.message) for one in judged(late(), own, others or [now("n0"), now("n1")])]


def test_a_process_that_eats_the_cores_is_named_with_what_stopping_it_gives() -> None:
    eater = {"pid": 4711, "command": "stress-ng --cpu 4\x1b[2J", "owner": "bob", "cores": 3.9, "age_ns": 3600 * SECOND}
    own = now("n3", processes=[eater], ranks=[{"rank": 5, "delay_ns": 40 * MS, "risen_ns": 60 * SECOND}])
    (line,) = said(own)
    assert line.startswith("on n3 process 4711 (stress-ng --cpu 4")
    assert "of bob takes 3.9 cores and began 60.0 min ago; the rank waits for cores, for 60.0 s now" in line
    assert "You win up to 40.0 ms a step if you stop that process" in line
    # No more than what the rank is slower by; and nothing of it where the rank waits for no core.
    more = now("n3", processes=[eater], ranks=[{"rank": 5, "delay_ns": 400 * MS, "risen_ns": None}])
    assert "win up to 70.0 ms a step" in said(more)[0]
    assert said(now("n3", processes=[eater], ranks=[{"rank": 5, "delay_ns": MS, "risen_ns": None}])) == []
    assert said(now("n3", processes=[eater])) == []
    unseen = now("n3", ranks=[{"rank": 5, "delay_ns": 40 * MS, "risen_ns": None}])
    assert said(unseen) == [
        "on n3 rank 5 waits 40.0 ms a step for cores, and no process that takes these cores is visible"
    ]


def test_clock_heat_pressure_and_errors_are_compared_with_other_hosts() -> None:
    slow = now("n3", devices=[{"device": "npu 0", "hertz": 1.2e9, "celsius": 91, "errors": 12}])
    assert said(slow) == [
        "npu 0 of n3 runs at 1,200 MHz, the devices of other hosts at 1,800",
        "npu 0 of n3 is at 91 °C, the devices of other hosts at 55",
        "n3 counts 12 errors that other hosts do not: npu 0",
    ]
    pressed = now("n3", pressure={"memory": 0.4}, errors={"link flaps": 2, "retransmits": 900})
    lines = said(pressed, now("n0", errors={"link flaps": 0, "retransmits": 3}))
    assert lines == [
        "on n3 tasks wait for memory 40% of the time, on other hosts 0%",
        "n3 counts 2 errors that other hosts do not: link flaps",
        "n3 counts 900 errors that other hosts do not: retransmits",
    ]
    # All hosts alike: nothing is different.
    assert said(pressed, pressed, pressed) == []
    assert said(now("n3")) == []


def test_a_host_that_says_something_else_is_left_out() -> None:
    odd: list[object] = [7, [], {"schema": "hermes.host/2"}]
    for one in odd:
        with pytest.raises(GarbledError):
            read(Answer(host="n", code=0, stdout=json.dumps(one).encode()))
    false = now("n3", processes=[{"pid": "1"}, 7, {"pid": 1 << 80}], pressure=[], errors={"a": "b"}, devices={"x": 1},
                ranks=[{"rank": 5, "delay_ns": 40 * MS}])  # fmt: skip
    assert said(false) == []


def test_since_when_a_rank_waits_for_cores_is_where_its_waits_rose() -> None:
    def rows(delays_ms: list[int]) -> list[tuple[int, ...]]:
        made = [unpack(record(at, end_ns=at * SECOND, wall_ns=100 * MS, delay_ns=delay * MS))
                for at, delay in enumerate(delays_ms)]  # fmt: skip
        return [one for one in made if one is not None]

    rose = waited(rows([1] * 200 + [40] * 100), 310 * SECOND)
    assert (rose["delay_ns"], rose["risen_ns"]) == (40 * MS, 110 * SECOND)
    assert waited(rows([40] * 100), 100 * SECOND) == {"delay_ns": 40 * MS, "risen_ns": None}
    assert waited([], 0) == {"delay_ns": None, "risen_ns": None}


def burned(pid: int) -> float:
    """Seconds of a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_real_process_beside_the_job_is_found_with_its_command_and_cores(live_job: LiveJob, tmp_path: Path) -> None:
    live_job.steps([10.0] * 60, delay_ns=4 * MS)
    script = tmp_path / "eats.py"
    script.write_text(f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{EATS}\n")
    # A child of nobody here: what the job has started belongs to the job.
    subprocess.run(["setsid", "--fork", sys.executable, script], check=True)
    pid = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 30))
    try:
        time.sleep(1.5)
        words = [HERMES, "fleet", "host", "train", "--seconds", "2"]
        environment = {**os.environ, **live_job.environment}
        with (tmp_path / "answer").open("wb") as answer:
            asks = subprocess.Popen(words, env=environment, stdout=answer)
        spent = [(time.monotonic(), burned(pid))]
        while asks.poll() is None:
            time.sleep(0.02)
            spent.append((time.monotonic(), burned(pid)))
    finally:
        os.kill(pid, 9)
    assert asks.returncode == 0
    found = json.loads((tmp_path / "answer").read_text())
    (eater,) = [row for row in found["processes"] if row["pid"] == pid]
    assert str(script) in eater["command"]
    assert eater["owner"]
    # What the kernel gives a process on a busy machine changes by the second: some two seconds gave what is said.
    shares = [(later - used) / (then - at) for at, used in spent for then, later in spent if 1.9 < then - at < 2.5]
    assert min(shares) - 0.05 <= eater["cores"] <= max(shares) + 0.05
    assert SECOND < eater["age_ns"] < 120 * SECOND
    assert os.getpid() not in {row["pid"] for row in found["processes"]}
    assert found["ranks"] == [{"rank": 0, "delay_ns": 4 * MS, "risen_ns": None}]
