"""A job that makes no progress: that it is said, where real processes stand, and who did not enter a collective."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.jobs.live_job import LiveJob, record
from tests.patience import until

from hermes.base.say import say
from hermes.inside.wire import process
from hermes.inside.wire.recovery import open_ring
from hermes.inside.wire.ring import RingWriter
from hermes.jobs.find_stall import RankPlace, RankProgress, Stall, find_stall_of_job, place_of, stacks
from hermes.jobs.overview import Overview
from hermes.jobs.watch_job import Watcher
from hermes.model.leaf import Risk

NOW = 10**18
SECOND = 10**9
HANGS = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, {source!r})
from hermes.inside.monitor.stacks import StackSignal
offer = StackSignal(Path({folder!r}), {rank})
print(json.dumps(offer.told), flush=True)
{body}
"""
LOADS = """
def load():
    time.sleep(120)
load()
"""
REDUCES = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + {store!r}, rank={rank}, world_size=2)
dist.barrier()
print("ready", flush=True)
def load():
    time.sleep(120)
def train():
    dist.all_reduce(torch.ones(4))
load() if {rank} else train()
"""


@contextmanager
def hanging(folder: Path, rank: int, body: str) -> Iterator[tuple[subprocess.Popen[str], RankProgress]]:
    source = str(Path(__file__).resolve().parents[2] / "src")
    script = folder / f"hang{rank}.py"
    script.write_text(HANGS.format(source=source, folder=str(folder), rank=rank, body=body))
    child = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        about = json.loads(child.stdout.readline())
        if "ready" in body:
            assert child.stdout.readline() == "ready\n"
        facts = about | {"started": process.start_time(child.pid), "space": process.pid_namespace()}
        yield child, RankProgress(pid=child.pid, alive=True, step=7, seen_ns=0, usual_ns=1, longest_ns=1, about=facts)
    finally:
        child.kill()
        child.communicate()


@pytest.mark.smoke
def test_a_process_that_hangs_says_where_it_stands_and_lives_on(live_job: LiveJob) -> None:
    with hanging(live_job.job.folder, 0, LOADS) as (child, one):

        def where() -> tuple[str, str]:
            place = place_of(stacks(live_job.job, 0, one))
            return (place.collective, place.line.rpartition(" ")[2]) if place else ("", "")

        # Until the process has got there, it stands elsewhere.
        until(lambda: where() == ("", "(load)"))
        assert child.poll() is None


@pytest.mark.smoke
def test_the_rank_that_did_not_enter_the_collective_is_named(live_job: LiveJob, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with ExitStack() as stack:
        folder = live_job.job.folder
        store = str(tmp_path / "store")
        # The second rank joins the first: both must be started before either is ready.
        bodies = [REDUCES.format(store=store, rank=rank) for rank in (0, 1)]
        with ThreadPoolExecutor(2) as pool:
            both = list(pool.map(lambda rank: stack.enter_context(hanging(folder, rank, bodies[rank])), (0, 1)))
        ranks = {rank: one for rank, (_, one) in enumerate(both)}

        def hang() -> Stall | None:
            found = find_stall_of_job(live_job.job, ranks, 60 * SECOND, ask=stacks)
            there = found and found.places.get(0) and "(load)" in say(found.message)
            return found if there and found.places[0].collective else None

        found = until(hang)
    assert found.places[0].collective == "all_reduce"
    assert found.absent == (1,)
    assert say(found.remedy) == "rank 1 did not enter all_reduce. Look at rank 1 first."
    assert "(load)" in say(found.message)


@pytest.mark.live
def test_a_process_without_the_handler_is_sent_no_signal(live_job: LiveJob) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        started = process.start_time(child.pid) or 0
        offered = {"signal": int(signal.SIGRTMIN) + 8, "file": "stacks-rank0.txt"}
        about = {"stacks": offered, "started": started, "space": process.pid_namespace()}
        one = RankProgress(pid=child.pid, alive=True, step=1, seen_ns=0, usual_ns=1, longest_ns=1, about=about)
        os.environ["PATH"], path = "", os.environ["PATH"]
        try:
            assert stacks(live_job.job, 0, one) == ""
        finally:
            os.environ["PATH"] = path
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_a_rank_that_ends_no_step_is_a_state_and_one_line_and_so_is_its_end(live_job: LiveJob) -> None:
    watcher = Watcher(
        live_job.job, preset="robust", environment=live_job.environment, capture=False, say=live_job.said.append
    )
    live_job.steps([6.0] * 30)
    watcher.look(NOW)
    watcher.look(NOW + 9 * SECOND)
    assert (watcher.state, live_job.said) == ("watching", [])
    watcher.look(NOW + 20 * SECOND)
    watcher.look(NOW + 25 * SECOND)
    assert watcher.state == "no progress"
    assert live_job.lines == ["No step has ended for 20.0 s; the last was step 30"]
    live_job.steps([6.0])
    watcher.look(NOW + 26 * SECOND)
    assert watcher.state == "watching"
    assert live_job.lines[1:] == ["Steps end again, after 25.0 s without a step"]
    events = [json.loads(line) for line in (live_job.job.folder / "events.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events] == ["no progress", "progress"]
    watcher.close(patience_s=0)


def test_a_profiler_that_holds_a_step_is_no_standstill(live_job: LiveJob) -> None:
    watcher = Watcher(
        live_job.job, preset="robust", environment=live_job.environment, capture=False, say=live_job.said.append
    )
    live_job.steps([6.0] * 30)
    watcher.look(NOW)
    number, (slot,) = 0, live_job.control.slots()
    live_job.control.say(number, replace(slot, state="started"))
    watcher.look(NOW + 60 * SECOND)
    assert (watcher.state, live_job.said) == ("watching", [])
    # Longer than any capture: the job hangs in it.
    watcher.look(NOW + 700 * SECOND)
    assert watcher.state == "no progress"
    watcher.close(patience_s=0)


def test_a_rank_of_another_container_lives_as_long_as_it_holds_its_lock(live_job: LiveJob) -> None:
    """The number of its process is of another process here, or of none."""
    live_job.ring.close()
    live_job.job.ring_path(0, process.own_identity()[0]).unlink()
    ring = RingWriter(live_job.job.ring_path(0, 77_777_777), {"rank": 0, "pid": 77_777_777, "started": 1, "space": 1})
    ring.add(record(1, step=1, wall_ns=6_000_000, end_ns=1))
    watcher = Watcher(
        live_job.job, preset="robust", environment=live_job.environment, capture=False, say=live_job.said.append
    )
    watcher.look(NOW)
    watcher.look(NOW + 20 * SECOND)
    assert watcher.stall is not None
    assert watcher.stall.gone == ()
    ring.close()
    watcher.look(NOW + 21 * SECOND)
    assert watcher.stall.gone == (0,)
    watcher.close(patience_s=0)


@pytest.mark.live
def test_no_signal_goes_to_a_number_of_another_container(live_job: LiveJob) -> None:
    with hanging(live_job.job.folder, 0, LOADS) as (_, one):
        other = replace(one, about={**one.about, "space": 1})
        assert one.reachable
        assert not other.reachable
        assert stacks(live_job.job, 0, other) == ""


def test_long_steps_are_no_standstill(live_job: LiveJob) -> None:
    watcher = Watcher(
        live_job.job, preset="robust", environment=live_job.environment, capture=False, say=live_job.said.append
    )
    live_job.steps([30_000.0, 30_000.0])
    watcher.look(NOW)
    watcher.look(NOW + 50 * SECOND)
    assert live_job.said == []
    watcher.close(patience_s=0)


def test_the_overview_shows_a_job_that_makes_no_progress(live_job: LiveJob) -> None:
    live_job.ring.close()
    live_job.job.ring_path(0, process.own_identity()[0]).unlink()
    ring = open_ring(live_job.job, 0, {})
    ring.add(record(1, step=1, wall_ns=6_000_000, end_ns=time.time_ns() - 30 * SECOND))
    seen = Overview(live_job.environment, name="", preset="robust", capture=False, peak_flops=None, say=lambda _: None)
    (view,) = seen.look()
    assert view.state == "no progress"
    assert view.stalled is not None
    assert view.stalled.identifier == "jobs.no_progress"
    assert 30 * SECOND <= view.stalled["waited"] < 40 * SECOND
    seen.close()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            'Thread 0x1 (most recent call first):\n  File "/x/site-packages/gloo.py", line 1 in loop\n\n'
            'Current thread 0x2 (most recent call first):\n  File "/x/site-packages/distributed_c10d.py", line 9 in all_reduce\n'  # noqa: E501
            '  File "/x/site-packages/c10d_logger.py", line 83 in wrapper\n'
            '  File "/home/u/train.py", line 5 in step\n'
            '  File "/home/u/train.py", line 9 in <module>\n',
            RankPlace(collective="all_reduce", line="train.py:5 (step)"),
        ),
        (
            'Process 1: python\n\nThread 2 (idle): "MainThread"\n    load (train.py:5)\n    <module> (train.py:9)\n',
            RankPlace(collective="", line="train.py:5 (load)"),
        ),
        ("junk\x00\n", None),
        ("", None),
    ],
)
def test_stacks_are_read(text: str, place: RankPlace | None) -> None:
    assert place_of(text) == place


def test_a_rank_that_ended_is_what_the_others_wait_for() -> None:
    found = Stall(seconds=20, step=9, ranks=(0, 1), gone=(1,), behind=(1,), places={})
    assert say(found.message) == "No step has ended for 20.0 s; the last was step 9; rank 1 ended"
    finding = found.finding()
    assert (finding.about, finding.blames) == (Risk.STALL, ("rank 1",))
    assert [say(one.title).partition(".")[0] for one in finding.actions] == ["The other ranks wait for rank 1 for ever"]


def test_of_short_steps_the_latest_may_not_be_written_and_their_rank_is_not_behind(live_job: LiveJob) -> None:
    def behind(usual_ns: int) -> tuple[int, ...]:
        ranks = {
            rank: RankProgress(
                pid=1, alive=True, step=step, seen_ns=NOW, usual_ns=usual_ns, longest_ns=usual_ns, about={}
            )
            for rank, step in ((0, 1003), (1, 1000))
        }
        found = find_stall_of_job(live_job.job, ranks, NOW + 60 * SECOND, ask=lambda *_: "")
        assert found
        return found.behind

    assert behind(3_000_000) == ()
    assert behind(30_000_000) == (1,)


def test_where_all_ranks_have_ended_nobody_waits(live_job: LiveJob) -> None:
    watcher = Watcher(
        live_job.job, preset="robust", environment=live_job.environment, capture=False, say=live_job.said.append
    )
    live_job.steps([6.0] * 30)
    watcher.look(NOW)
    live_job.ring.close()
    watcher.look(NOW + 20 * SECOND)
    assert (watcher.state, live_job.said) == ("watching", [])
    watcher.close(patience_s=0)
