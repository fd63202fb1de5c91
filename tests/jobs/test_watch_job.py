"""A watcher beside a running rank: what it says, notes, asks for, and leaves to another watcher."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import FrameType

import pytest
from rich.console import Console
from tests.jobs.live_job import LiveJob, record

from hermes.base.errors import HermesError, InputError
from hermes.base.message import Message
from hermes.base.say import message_as_json, say
from hermes.inside.profile.captures import Captures
from hermes.inside.wire.control import Slot
from hermes.inside.wire.process import own_identity
from hermes.inside.wire.recovery import open_ring
from hermes.inside.wire.ring import RingWriter
from hermes.inside.wire.step_record import unpack
from hermes.jobs import change_alarm_thresholds as thresholds
from hermes.jobs.analyze_capture import leaf_of, outcome, summary
from hermes.jobs.captures_on_disk import automatic
from hermes.jobs.change_alarm_thresholds import FILE, Thresholds
from hermes.jobs.detect.causes import Spent
from hermes.jobs.detect.changed_step_parts import ChangedSteps, GrownPart
from hermes.jobs.messages import ANALYSIS_STOPPED, JobState
from hermes.jobs.overview import Overview
from hermes.jobs.request_capture import (
    CaptureWish,
    RequestedCapture,
    answers_of_ranks,
    ask_until_taken,
    cancel,
    request_capture_of_job,
    steps_to_hold_a_long_one,
)
from hermes.jobs.watch_job import Watcher
from hermes.model.leaf import Leaf
from hermes.report.running_jobs import draw

# Mean 10 ms, population deviation 0.1 ms: five deviations are 10.5 ms.
ARMED = [12.0] * 20 + [9.9, 10.1] * 10
SLOWER = "rank 0: steps far slower than all others since step 41, noticed at step 44: 10.0 ms → 11.0 ms a step (+10%)"
LOST = "; 4.00 ms lost in all"
NOW = 10**18
WISH = CaptureWish(steps=2, level="light", options={})


def watcher(live: LiveJob, *, preset: str = "ksigma", capture: bool = False) -> Watcher:
    return Watcher(live.job, preset=preset, environment=live.environment, capture=capture, say=live.said.append)


@pytest.fixture
def watching(live_job: LiveJob) -> Iterator[Watcher]:
    made = watcher(live_job)
    made.look(NOW)
    yield made
    made.close(patience_s=0)


def events(live: LiveJob) -> list[dict[str, object]]:
    return [json.loads(line) for line in (live.job.folder / "events.jsonl").read_text().splitlines()]


def test_a_slow_rank_is_said_and_noted_once(live_job: LiveJob, watching: Watcher) -> None:
    live_job.steps(ARMED)
    watching.look(NOW)
    assert (live_job.said, watching.alarms) == ([], [])
    live_job.steps([11.0] * 4)
    watching.look(NOW)
    assert live_job.lines == [SLOWER + LOST]
    (noted,) = events(live_job)
    assert (noted["kind"], noted["since"], noted["step"], noted["after_ns"]) == ("alarm", 41, 44, 11_000_000)
    watching.look(NOW)
    assert len(events(live_job)) == 1


def test_a_later_process_of_a_rank_is_followed_once_the_former_has_ended(live_job: LiveJob, watching: Watcher) -> None:
    live_job.steps([10.0] * 5)
    watching.look(NOW)
    # By its lock: the number of the one that lives may mean nothing here.
    later = RingWriter(live_job.job.ring_path(0, 77_777_777), {"rank": 0, "pid": 77_777_777, "started": 1}, base=5)
    later.add(record(6, step=6, wall_ns=10**7, end_ns=6))
    watching.look(NOW)
    assert len(watching.steps()[0]) == 5
    live_job.ring.close()
    watching.look(NOW)
    assert watching.steps()[0].columns["step"].tolist() == [1, 2, 3, 4, 5, 6]
    later.close()


def test_an_alarm_asks_for_a_capture_and_the_answer_is_followed(live_job: LiveJob) -> None:
    acting = watcher(live_job, capture=True)
    live_job.steps([*ARMED, *[11.0] * 4])
    acting.look(time.time_ns())
    found = live_job.control.request()
    assert found is not None
    epoch, request = found
    assert (request.action, request.steps, request.level) == ("profile", 2, "light")
    assert request.start_step > 44
    pid, started = own_identity()
    answer = Slot(rank=0, pid=pid, started=started, epoch=epoch, state="refused", text="no room")
    live_job.control.say(0, answer)
    acting.look(time.time_ns())
    assert live_job.lines[-1] == "The capture is not complete: rank 0 refused: no room"
    assert [event["kind"] for event in events(live_job)] == ["alarm", "capture"]
    # It cost nothing, and counts neither here nor for a later watcher.
    assert automatic(live_job.job) == []
    (aside,) = live_job.job.captures.iterdir()
    assert events(live_job)[-1]["folder"] == str(aside)
    assert aside.name.startswith("refused_profiling_dump_")
    acting.close(patience_s=0)


def test_a_capture_begins_half_a_second_from_now_however_fast_steps_were_before(live_job: LiveJob) -> None:
    live_job.steps([*[1.0] * 60, *[50.0] * 3])
    asked = request_capture_of_job(live_job.job, WISH, now_ns=NOW)
    assert asked.request.start_step == 63 + 3 + 10


def test_of_two_watchers_the_first_acts(live_job: LiveJob, watching: Watcher) -> None:
    live_job.steps([*ARMED, *[11.0] * 4])
    watching.look(NOW)
    said = len(live_job.said)
    second = watcher(live_job)
    second.look(NOW)
    assert len(second.alarms) == 1
    assert (len(live_job.said), len(events(live_job))) == (said, 1)
    second.close(patience_s=0)


def test_one_that_only_looks_on_says_what_it_sees_and_leaves_acting_to_others(live_job: LiveJob) -> None:
    looker = Watcher(
        live_job.job, preset="ksigma", environment=live_job.environment, capture=True, say=live_job.said.append,
        acts=False,
    )  # fmt: skip
    live_job.steps([*ARMED, *[11.0] * 4])
    looker.look(NOW)
    assert live_job.lines == [SLOWER + LOST]
    assert not (live_job.job.folder / "events.jsonl").exists()
    assert live_job.control.request() is None
    later = watcher(live_job)
    assert later.acting
    later.close(patience_s=0)
    looker.close(patience_s=0)


def test_thresholds_change_while_the_job_runs(live_job: LiveJob, watching: Watcher) -> None:
    live_job.steps([*ARMED, *[11.0] * 3])
    watching.look(NOW)
    assert say(thresholds.write(live_job.job, Thresholds(k=20.0)).message()) == "k 20"
    watching.look(NOW)
    assert live_job.lines == ["Thresholds of ksigma: k 20"]
    live_job.steps([11.0] * 50)
    watching.look(NOW)
    assert watching.alarms == []
    assert say(thresholds.write(live_job.job, Thresholds(k=5.0, consecutive=2)).message()) == "k 5 and consecutive 2"
    live_job.steps([11.0])
    # The steps before the change are no part of the row that begins with it.
    watching.look(NOW)
    assert watching.alarms == []
    live_job.steps([11.0])
    watching.look(NOW)
    assert len(watching.alarms) == 1
    assert [event["kind"] for event in events(live_job)] == ["thresholds", "thresholds", "alarm"]


def test_a_later_watcher_has_the_changed_thresholds_too(live_job: LiveJob) -> None:
    thresholds.write(live_job.job, Thresholds(consecutive=1))
    live_job.steps([*ARMED, 11.0])
    late = watcher(live_job)
    late.look(NOW)
    assert len(late.alarms) == 1
    late.close(patience_s=0)


def test_the_default_preset_says_that_it_has_no_such_thresholds(live_job: LiveJob) -> None:
    thresholds.write(live_job.job, Thresholds(k=3.0))
    robust = watcher(live_job, preset="robust")
    robust.look(NOW)
    assert live_job.lines == ["Thresholds of ksigma: k 3. The preset robust does not use them"]
    robust.close(patience_s=0)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"k": "5"}', '{"k": true}', '{"consecutive": 1.5}', '{"j": 1}', '{"k": 0}']
)
def test_a_damaged_file_changes_nothing(live_job: LiveJob, watching: Watcher, text: str) -> None:
    (live_job.job.folder / FILE).write_text(text)
    watching.look(NOW)
    (line,) = live_job.said
    assert isinstance(line, Message)
    assert line.identifier == "jobs.thresholds_kept"
    live_job.steps([*ARMED, *[11.0] * 4])
    watching.look(NOW)
    assert len(watching.alarms) == 1


@pytest.mark.parametrize("wanted", [Thresholds(k=0.0), Thresholds(k=float("nan")), Thresholds(consecutive=0)])
def test_a_threshold_that_is_none_is_not_written(live_job: LiveJob, wanted: Thresholds) -> None:
    with pytest.raises(InputError, match="is not a value for"):
        thresholds.write(live_job.job, wanted)
    assert thresholds.read(live_job.job) == Thresholds()


def test_the_overview_shows_the_latest_steps_of_running_jobs(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 30 + [20.0] * 120, samples=32, rss_bytes=5)
    seen = Overview(
        live_job.environment, name="train", preset="robust", capture=False, peak_flops=1e12, say=live_job.said.append
    )
    (view,) = seen.look()
    (rank,) = view.ranks
    assert (view.id, rank.rank, rank.step, len(rank.walls_ns)) == (live_job.job.id, 0, 150, 120)
    assert rank.baseline_ns == 20_000_000
    assert rank.samples_per_s == pytest.approx(1600)
    assert (rank.tokens_per_s, rank.memory_bytes) == (None, 5)
    assert rank.mfu == pytest.approx(2e9 / 0.020 / 1e12)
    seen.close()


@pytest.mark.parametrize(
    ("device", "peak"),
    [("NVIDIA H100 80GB HBM3", 989.4e12), ("Ascend910B2", 353.9e12), ("Toaster 3000", None), (None, None)],
)
def test_the_peak_for_mfu_is_that_of_the_chip_which_the_rank_names(
    live_job: LiveJob, device: str | None, peak: float | None
) -> None:
    live_job.ring.path.unlink()
    ring = open_ring(live_job.job, 0, {"flops": 2_000_000_000, "device": device})
    ring.add(record(1, step=1, wall_ns=10_000_000))
    seen = Overview(
        live_job.environment, name="train", preset="robust", capture=False, peak_flops=None, say=lambda _: None
    )
    (view,) = seen.look()
    mfu = view.ranks[0].mfu
    assert mfu == (None if peak is None else pytest.approx(2e9 / 0.010 / peak, rel=0.001))
    seen.close()
    ring.close()


def test_the_overview_leaves_out_jobs_of_other_names(live_job: LiveJob) -> None:
    seen = Overview(
        live_job.environment, name="other", preset="robust", capture=False, peak_flops=None, say=lambda _: None
    )
    assert seen.look() == ()
    seen.close()


def test_a_report_is_summed_up_in_a_line(live_job: LiveJob) -> None:
    report = live_job.job.folder / "report.json"
    assert say(summary(report)) == "the report cannot be read (FileNotFoundError)"
    found = {"code": "X1", "message": {"text": "Slow."}, "actions": [{"title": message_as_json(Leaf.WAIT.message)}]}
    whole = {"findings": [found], "diagnostics": [], "verdict": {"message": {"text": "All is compute."}}}
    report.write_text(json.dumps(whole))
    assert say(summary(report)) == "X1 Slow. To do: waiting for another rank"
    assert say(summary(report), "zh") == "X1 Slow. 怎么做：等待其他卡"
    note = {
        "level": "degraded",
        "message": {"text": "No tool."},
        "lost": {"id": "read.lost.device"},
        "hint": {"text": ""},
    }
    report.write_text(json.dumps(whole | {"findings": [], "diagnostics": [note]}))
    assert say(summary(report)) == "No rule fired. All is compute. The device was not recorded: No tool."


def finding_(leaf: str, state: str) -> dict[str, object]:
    return {"code": leaf, "leaf": leaf, "state": state, "message": {"text": f"It is {leaf}."}, "actions": []}


def test_a_finding_in_preview_speaks_for_a_report_only_about_what_grew(live_job: LiveJob) -> None:
    report = live_job.job.folder / "report.json"
    found = [finding_("python", "preview"), finding_("dispatch", "stable"), finding_("input_here", "preview")]
    whole = {"findings": found, "diagnostics": [], "verdict": {"message": {"text": "All is compute."}}}
    report.write_text(json.dumps(whole))
    assert say(summary(report)) == "dispatch It is dispatch."
    assert say(summary(report, Spent.DATA_WAIT)) == "input_here It is input_here."
    assert say(summary(report, Spent.GARBAGE_COLLECTION)) == "dispatch It is dispatch."
    report.write_text(json.dumps(whole | {"findings": found[:1]}))
    assert say(summary(report, Spent.DATA_WAIT)) == "No rule fired. All is compute."


def test_what_grew_is_named_by_its_largest_leaf_in_the_capture(live_job: LiveJob) -> None:
    report = live_job.job.folder / "report.json"
    rows = [
        {"leaf": "input_here", "share": 0.2, "place": "x.py:1 f", "what": ""},
        {"leaf": "compiling", "share": 0.7, "place": "train.py:12 step", "what": ""},
        {"leaf": "matrix_product", "share": 0.1, "place": "", "what": "aten::mm"},
    ]
    report.write_text(json.dumps({"tree": rows}))
    host = ChangedSteps(rank=0, since=9, before_ns=10, after_ns=100, work=None,
                   grown=(GrownPart(part=Spent.HOST_COMPUTE, before_ns=8, after_ns=95, more_ns=87),))  # fmt: skip
    leaf = leaf_of(report, host)
    assert leaf is not None
    assert say(leaf) == "in the capture mostly compiling (train.py:12 step), 70% of a step"
    waits = replace(host, grown=(GrownPart(part=Spent.DATA_WAIT, before_ns=8, after_ns=95, more_ns=87),))
    assert leaf_of(report, waits) is None


@pytest.mark.live
def test_an_alarm_of_another_cause_has_its_turn_behind_the_capture_that_is_under_way(live_job: LiveJob) -> None:
    acting = Watcher(live_job.job, preset="robust", environment=live_job.environment, capture=True,
                     say=live_job.said.append)  # fmt: skip
    quiet = {"cpu_ns": 9 * 10**6, "delay_ns": 0, "data_ns": 0, "data_cpu_ns": 0}
    noise = [10.0, 10.1, 9.9, 10.05] * 50
    live_job.steps(noise, **quiet)
    acting.look(time.time_ns())
    live_job.steps([14.0, 14.1] * 10, **{**quiet, "delay_ns": 4 * 10**6})
    acting.look(time.time_ns())
    first = live_job.control.request()
    assert first is not None
    live_job.steps([40.0, 40.1] * 10, **{**quiet, "data_ns": 30 * 10**6})
    acting.look(time.time_ns())
    assert len(acting.alarms) == 2
    assert live_job.control.request() == first
    pid, started_ns = own_identity()
    live_job.control.say(0, Slot(rank=0, pid=pid, started=started_ns, epoch=first[0], state="finished", text="x"))
    acting.look(time.time_ns())
    second = live_job.control.request()
    assert second is not None
    assert second[0] > first[0]
    assert "waiting for input" in second[1].reason
    about = json.loads((min(live_job.job.captures.iterdir()) / "capture.json").read_text())["about"]
    assert about["cause"] == "CPU contention"
    acting.close(patience_s=0)


def test_a_capture_of_single_slow_steps_begins_with_the_next_where_they_come_evenly(live_job: LiveJob) -> None:
    live_job.steps(([10.0] * 19 + [200.0]) * 12)
    asked = request_capture_of_job(live_job.job, replace(WISH, automatic=True, long=True), now_ns=NOW)
    assert asked.request.start_step % 20 == 0


@pytest.mark.parametrize(("period", "grows", "steps"), [(5, True, 5), (5, False, 2), (20, True, 2)])
def test_a_capture_of_no_given_number_of_steps_holds_one_that_is_evenly_longer(
    live_job: LiveJob, period: int, grows: bool, steps: int
) -> None:
    live_job.steps(([100.0] * (period - 1) + [600.0]) * 12)
    asked = request_capture_of_job(live_job.job, replace(WISH, grows=grows), now_ns=NOW)
    assert asked.request.steps == steps


@pytest.mark.parametrize(
    ("wall_ms", "grows", "steps"), [(8.0, True, 10), (30.0, True, 4), (60.0, True, 2), (8.0, False, 2)]
)
def test_a_capture_of_no_given_number_of_short_steps_takes_more_of_them(
    live_job: LiveJob, wall_ms: float, grows: bool, steps: int
) -> None:
    live_job.steps([wall_ms] * 30)
    asked = request_capture_of_job(live_job.job, replace(WISH, grows=grows), now_ns=NOW)
    assert asked.request.steps == steps


def test_a_capture_of_uneven_slow_steps_is_long_enough_to_hold_one(live_job: LiveJob) -> None:
    dice = random.Random(3)
    walls = [200.0 if dice.random() < 0.05 else 10.0 for _ in range(400)]
    rows = [unpack(record(at, step=at, wall_ns=int(wall * 10**6))) for at, wall in enumerate(walls, start=1)]
    steps = steps_to_hold_a_long_one([row for row in rows if row is not None])
    assert 40 <= steps <= 60
    held = [any(wall > 100 for wall in walls[at : at + steps]) for at in range(0, 400 - steps)]
    assert sum(held) / len(held) > 0.9


def test_a_capture_that_is_refused_points_to_the_one_under_way_and_its_report(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 40)
    running = request_capture_of_job(live_job.job, replace(WISH, automatic=True), now_ns=time.time_ns())
    pid, started_ns = own_identity()
    slot = Slot(rank=0, pid=pid, started=started_ns, epoch=running.epoch, state="started", text="")
    live_job.control.say(0, slot)
    with pytest.raises(HermesError) as refused:
        request_capture_of_job(live_job.job, WISH, now_ns=time.time_ns())
    hint = say(refused.value.hint)
    assert str(running.folder) in hint
    assert f"reports/{running.folder.name}/report.html" in hint


@pytest.mark.live
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise SystemError('no such thing')", "the analysis failed: SystemError: no such thing"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "the analysis failed: its process was killed, perhaps because memory ran out",
        ),
        ("import os; os.kill(os.getpid(), 11)", "the analysis failed: ended by SIGSEGV"),
    ],
)
def test_an_analysis_that_failed_says_why(tmp_path: Path, program: str, said: str) -> None:
    with (tmp_path / "analysis.log").open("wb") as log:
        child = subprocess.Popen([sys.executable, "-c", program], stderr=log)
        child.wait()
    assert say(outcome(child, tmp_path)).startswith(said)
    assert outcome(child, tmp_path, stopped=True) == ANALYSIS_STOPPED


def _die_at(fatal: int, live: LiveJob) -> int:
    """Request a capture in a child that dies at that call made by the request; returns how the child ended."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    passed = 0

    def count(frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal passed
        if frame.f_code.co_name in ("ask", request_capture_of_job.__name__):
            passed += 1
            if passed == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.setprofile(count)
        request_capture_of_job(live.job, WISH, now_ns=time.time_ns())
    finally:
        os._exit(0)


@pytest.mark.slow
def test_a_watcher_that_is_killed_at_any_call_leaves_a_job_that_the_next_can_ask(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 44)
    said: list[str] = []
    rank = Captures(live_job.control, 0, 0, said.append)
    ended, fatal = 1, 1
    while ended:
        ended = _die_at(fatal, live_job)
        fatal += 1
        rank.poll(44, 1)
        cancel(live_job.job)
        rank.poll(44, 1)
        asked = request_capture_of_job(live_job.job, WISH, now_ns=time.time_ns())
        rank.poll(44, 1)
        assert answers_of_ranks(asked)[0].state == "accepted"
        cancel(live_job.job)
        rank.poll(44, 1)
    assert fatal > 20
    assert said == []


@pytest.mark.parametrize(
    ("text", "mfu"),
    [('{"flops": 4000000000}', 0.4), ('{"flops": null}', None), ("[]", None), ("{", None), (None, None)],
)
def test_flops_that_the_rank_counted_after_its_log_began_give_the_mfu(
    live_job: LiveJob, text: str | None, mfu: float | None
) -> None:
    live_job.ring.path.unlink()
    open_ring(live_job.job, 0, {"flops": None}).add(record(1, step=1, wall_ns=10_000_000))
    if text is not None:
        (live_job.job.folder / "rank0.json").write_text(text)
    seen = Overview(
        live_job.environment, name="train", preset="robust", capture=False, peak_flops=1e12, say=lambda _: None
    )
    (view,) = seen.look()
    assert view.ranks[0].mfu == (mfu if mfu is None else pytest.approx(mfu))
    seen.close()


def test_what_a_rank_counted_is_read_again_when_its_file_changes_and_only_then(live_job: LiveJob) -> None:
    live_job.ring.path.unlink()
    open_ring(live_job.job, 0, {"flops": None}).add(record(1, step=1, wall_ns=10_000_000))
    path = live_job.job.folder / "rank0.json"
    path.write_text('{"flops": 4000000000}')
    seen = Overview(
        live_job.environment, name="train", preset="robust", capture=False, peak_flops=1e12, say=lambda _: None
    )
    assert seen.look()[0].ranks[0].mfu == pytest.approx(0.4)
    at = path.stat().st_mtime_ns
    path.write_text('{"flops": 6000000000}')
    os.utime(path, ns=(at, at))
    assert seen.look()[0].ranks[0].mfu == pytest.approx(0.4)
    os.utime(path, ns=(at + 1, at + 1))
    assert seen.look()[0].ranks[0].mfu == pytest.approx(0.6)
    seen.close()


def test_captures_are_counted_over_all_watchers_of_a_job(live_job: LiveJob) -> None:
    now = time.time()
    for hours in (3, 2, 1):
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now - 3600 * hours))
        (live_job.job.captures / f"auto_profiling_dump_{stamp}-000").mkdir(parents=True)
    (live_job.job.captures / "manual_profiling_dump_20200101-170000-000").mkdir()
    assert [round((now - ns / 1e9) / 3600) for ns in automatic(live_job.job)] == [3, 2, 1]
    acting = watcher(live_job, capture=True)
    live_job.steps([*ARMED, *[11.0] * 4])
    acting.look(time.time_ns())
    assert (
        live_job.lines[-1] == "No capture: the automatic captures are used up; the next capture may be made in 5 hours"
    )
    live_job.steps([*ARMED[-1:] * 30, *[11.0] * 4])
    acting.look(time.time_ns())
    assert live_job.lines[-1].startswith("rank 0: steps far slower")
    assert live_job.control.request() is None
    acting.close(patience_s=0)


def test_a_capture_of_an_earlier_watcher_cools_down_this_one(live_job: LiveJob) -> None:
    hour_ago = time.strftime("%Y%m%d-%H%M%S", time.gmtime(time.time() - 3600))
    (live_job.job.captures / f"auto_profiling_dump_{hour_ago}-000").mkdir(parents=True)
    acting = watcher(live_job, capture=True)
    live_job.steps([*ARMED, *[11.0] * 4])
    acting.look(time.time_ns())
    assert live_job.lines[-1] == "No capture: the last automatic capture was 60 minutes ago"
    acting.close(patience_s=0)


def test_the_picture_has_the_score_and_the_state_of_the_known_algorithm(live_job: LiveJob) -> None:
    live_job.steps(ARMED[:-1])
    seen = Overview(live_job.environment, name="", preset="ksigma", capture=False, peak_flops=None, say=lambda _: None)
    (view,) = seen.look()
    assert (view.state, view.ranks[0].score) == ("baseline", None)
    live_job.steps([ARMED[-1], 10.3])
    (view,) = seen.look()
    assert (view.state, view.ranks[0].score) == ("watching", pytest.approx(3.0))
    console = Console(width=200, record=True, file=StringIO())
    console.print(draw((view,)))
    text = console.export_text()
    assert f"{live_job.job.id}: {say(JobState.WATCHING.message)}" in text
    assert "│   3.0 │" in text
    (live_job.job.captures / "auto_profiling_dump_20200101-000000-000").mkdir(parents=True)
    assert seen.look()[0].state == "at risk"
    seen.close()


def test_a_capture_is_asked_for_once_steps_are_known_and_its_folder_says_who_asked(live_job: LiveJob) -> None:
    with pytest.raises(InputError, match="no step is known yet"):
        request_capture_of_job(live_job.job, WISH, now_ns=NOW)
    live_job.steps(ARMED)
    by_hand = request_capture_of_job(live_job.job, WISH, now_ns=1_600_000_000_123_000_000)
    assert by_hand.folder == live_job.job.captures / "manual_profiling_dump_20200913-122640-123"
    cancel(live_job.job)
    by_itself = request_capture_of_job(live_job.job, replace(WISH, automatic=True), now_ns=1_600_000_000_123_000_000)
    assert by_itself.folder.name == "auto_profiling_dump_20200913-122640-123"
    assert automatic(live_job.job) == [1_600_000_000_123_000_000]


def test_a_capture_that_all_ranks_had_passed_is_asked_for_again_farther_ahead(live_job: LiveJob) -> None:
    live_job.steps([160.0] * 20)
    rank, starts = Captures(live_job.control, 0, 0, live_job.said.append), []

    def soon(asked: RequestedCapture) -> None:
        starts.append(asked.request.start_step)
        # The steps are short now: the rank hears of it when the first one is over.
        rank.poll(26, 1)
        if len(starts) == 2:
            cancel(live_job.job)
            rank.poll(27, 1)

    asked, said = ask_until_taken(live_job.job, WISH, asked=soon, tell=lambda slot: None, pause_s=0.01)
    assert starts == [26, 80]
    assert asked.request.start_step == 80
    assert said[0].state == "cancelled"
    assert [*live_job.job.captures.iterdir()] == [asked.folder]
