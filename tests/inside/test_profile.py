"""Captures of a running job with real PyTorch: the asked steps, the same on all ranks, and an answer from each."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.inside.conftest import Column, Place
from tests.inside.launch.conftest import beside
from tests.patience import PATIENCE_S, until

from hermes.base.errors import HermesError
from hermes.inside.wire.rundir import Job, running
from hermes.inside.wire.step_record import FLAGS
from hermes.jobs.request_capture import (
    CaptureWish,
    RequestedCapture,
    answers_of_ranks,
    cancel,
    find_job,
    is_finished,
    progress_of_ranks,
    request_capture_of_job,
)

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("with_torch")]

TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
from torch import nn
ranks = int(os.environ.get("WORLD_SIZE", "1"))
torch.manual_seed(0)
torch.set_num_threads(1)
if ranks > 1:
    dist.init_process_group("gloo")
if os.environ.get("ONE_LINE"):
    import hermes.inside
    hermes.inside.start()
model = nn.Linear(32, 8)
if ranks > 1:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 32)
for step in range(int(os.environ["STEPS"])):
    time.sleep(0.004)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
out = os.environ.get("RESULT")
if out:
    rank = os.environ.get("RANK", "0")
    open(f"{out}.{rank}", "w").write(str([p.detach().numpy().tobytes().hex() for p in model.parameters()]))
if ranks > 1:
    # Gloo sometimes aborts when the interpreter tears it down: leave without that.
    dist.barrier()
    getattr(sys.modules.get("hermes.inside"), "stop", lambda: None)()
    os._exit(0)
"""
HERMES = "from hermes.cli import command; command()"


@pytest.fixture
def train(place: Place) -> Path:
    path = place.folder / "train.py"
    path.write_text(TRAIN)
    return path


def begin(place: Place, *command: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=place.environment | environment, cwd=place.folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def stop(process: subprocess.Popen[str]) -> str:
    """Kill the process and all below it: the workers of torchrun are in sessions of their own, and outlive it."""
    for pid in [*below(process.pid), process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return process.communicate(timeout=PATIENCE_S)[1]


def below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *below(child)]
    return found


def stepping(place: Place, ranks: int = 1) -> Job:
    (job,) = until(
        lambda: [job for job in place.jobs() if running(job) and len(progress_of_ranks(job)) == ranks], PATIENCE_S
    )
    return job


def wish(**changes: object) -> CaptureWish:
    return CaptureWish(**({"steps": 3, "level": "light", "options": {}, "largest_bytes": 10_000_000} | changes))  # type: ignore[arg-type]


def answered(asked: RequestedCapture, seconds: float = PATIENCE_S) -> dict[int, str]:
    until(lambda: [1] if answers_of_ranks(asked) and is_finished(answers_of_ranks(asked)) else [], seconds)
    return {rank: slot.state for rank, slot in answers_of_ranks(asked).items()}


def marks(path: Path) -> list[tuple[int, float]]:
    """Step number and start of each mark in a trace."""
    trace = json.loads(path.read_bytes())
    named = [(re.fullmatch(r"ProfilerStep#(\d+)", str(event.get("name"))), event) for event in trace["traceEvents"]]
    base = trace.get("baseTimeNanoseconds", 0) / 1e3
    return sorted((int(match[1]), base + event["ts"]) for match, event in named if match and event["ph"] == "X")


@pytest.mark.parametrize("level", ["light", "standard", "full"])
@pytest.mark.slow
def test_the_asked_steps_are_captured_and_the_job_goes_on(
    place: Place, train: Path, column: Column, level: str
) -> None:
    process = begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000")
    job = stepping(place)
    asked = request_capture_of_job(job, wish(level=level), now_ns=time.time_ns())
    assert answered(asked) == {0: "finished"}
    first = asked.request.start_step
    assert [step for step, _ in marks(asked.folder / "rank0.pt.trace.json")] == [first, first + 1, first + 2]
    assert [path.name for path in asked.folder.iterdir()] == ["rank0.pt.trace.json"]
    # What the steps before it were like: each sleeps for 4 ms.
    earlier = json.loads((asked.folder / "rank0.pt.trace.json").read_text())["hermes"]["before"]
    assert 1 <= earlier["steps"] <= first
    assert earlier["step_ns"] > 4_000_000
    assert earlier["gc_ns"] >= 0
    ended = json.loads((asked.folder / "rank0.pt.trace.json").read_text())["hermes_end"]
    assert 0 <= ended["minor_faults"] < 10_000
    before = progress_of_ranks(job)[0][0]
    until(lambda: [1] if progress_of_ranks(job)[0][0] > before + 100 else [])
    said = stop(process)
    assert "hermes:" not in said
    assert "Warning" not in said
    profiled = [step for step, flag in zip(*(_column(column, job, name) for name in ("step", "flags"))) if flag & 2]  # noqa: B905
    # The steps after the last run beside the writing.
    assert {first, first + 1, first + 2, first + 3} <= {*profiled}


@pytest.mark.parametrize("level", ["light", "standard"])
def test_what_a_capture_costs_is_flagged_and_told(place: Place, train: Path, column: Column, level: str) -> None:
    process = begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000")
    job = stepping(place)
    until(lambda: progress_of_ranks(job)[0][0] > 150, PATIENCE_S)
    asked = request_capture_of_job(job, wish(level=level), now_ns=time.time_ns())
    assert answered(asked) == {0: "finished"}
    told = re.fullmatch(r"steps (\d+)-\d+, held the job for (\d+) ms: .*", answers_of_ranks(asked)[0].text)
    assert told
    ended = progress_of_ranks(job)[0][0]
    until(lambda: progress_of_ranks(job)[0][0] > ended + 50, PATIENCE_S)
    stop(process)
    steps, walls, flags = (_column(column, job, name) for name in ("step", "wall_ns", "flags"))
    flagged = [at for at, flag in enumerate(flags) if flag & FLAGS["profiled"]]
    # The first is that after which it was heard of, many ahead; then some ahead of the captured ones, these, and those
    # beside the writing.
    accepted, first = flagged[0], steps.index(int(told[1]))
    assert accepted < first - 10
    assert flagged[-1] > first + 2
    # How long the step after the last word is, nobody knew then.
    usual = json.loads((asked.folder / "rank0.pt.trace.json").read_bytes())["hermes"]["before"]["middle_ns"]
    lost_ms = sum(walls[at] - usual for at in flagged[:-1]) / 1e6
    assert int(told[2]) == pytest.approx(lost_ms, abs=1)


def _column(column: Column, job: Job, name: str) -> list[int]:
    from hermes.inside.wire.recovery import recover

    recover(job)
    return column(job.log_path(0), name)  # type: ignore[return-value]


@pytest.mark.smoke
@pytest.mark.slow
def test_two_ranks_under_torchrun_capture_the_same_steps_at_once(place: Place, train: Path) -> None:
    process = _torchrun(place, train, STEPS="100000")
    job = stepping(place, ranks=2)
    asked = request_capture_of_job(job, wish(level="standard"), now_ns=time.time_ns())
    assert answered(asked) == {0: "finished", 1: "finished"}
    first, second = (marks(asked.folder / f"rank{rank}.pt.trace.json") for rank in (0, 1))
    wanted = [asked.request.start_step + number for number in range(3)]
    assert [step for step, _ in first] == [step for step, _ in second] == wanted
    a_step_us = first[1][1] - first[0][1]
    assert abs(first[0][1] - second[0][1]) < max(a_step_us, 50_000)
    assert len(place.jobs()) == 1
    stop(process)


@pytest.mark.smoke
def test_only_the_ranks_that_were_named_capture(place: Place, train: Path) -> None:
    process = _torchrun(place, train, STEPS="100000")
    job = stepping(place, ranks=2)
    asked = request_capture_of_job(job, wish(ranks=(1,)), now_ns=time.time_ns())
    assert answered(asked) == {1: "finished"}
    assert sorted(path.name for path in asked.folder.iterdir()) == ["rank1.pt.trace.json"]
    stop(process)


@pytest.mark.slow
def test_training_of_two_ranks_gives_the_same_bits_with_hermes_run_and_without(place: Place, train: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(train)]
    ours = begin(place, sys.executable, "-c", HERMES, "run", "--no-capture", "--", *launcher, STEPS="60", RESULT="ours")
    out, err = ours.communicate(timeout=200)
    assert ours.returncode == 0, err
    theirs = begin(place, *launcher, STEPS="60", RESULT="theirs")
    out, err = theirs.communicate(timeout=200)
    assert theirs.returncode == 0, out + err
    for rank in (0, 1):
        assert (place.folder / f"ours.{rank}").read_text() == (place.folder / f"theirs.{rank}").read_text()
    (job,) = place.jobs()
    assert all(job.log_path(rank).exists() for rank in (0, 1))
    until(lambda: not list(place.memory.iterdir()), PATIENCE_S)


@pytest.mark.slow
def test_a_capture_can_be_cancelled_and_a_second_is_refused_meanwhile(place: Place, train: Path) -> None:
    process = begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000")
    job = stepping(place)
    asked = request_capture_of_job(job, wish(steps=90), now_ns=time.time_ns())
    until(lambda: [1] if answers_of_ranks(asked)[0].state in ("accepted", "started") else [])
    with pytest.raises(HermesError, match="under way on rank 0"):
        request_capture_of_job(job, wish(), now_ns=time.time_ns())
    cancel(job)
    # A cancellation is a request of its own, so the rank answers under the epoch of what it ended.
    assert answered(asked) == {0: "cancelled"}
    again = request_capture_of_job(job, wish(), now_ns=time.time_ns())
    assert answered(again) == {0: "finished"}
    stop(process)


@pytest.mark.slow
def test_a_disk_without_room_and_a_trace_too_large_are_said_and_cost_nothing(place: Place, train: Path) -> None:
    process = begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000")
    job = stepping(place)
    asked = request_capture_of_job(job, wish(largest_bytes=10**17), now_ns=time.time_ns())
    assert answered(asked) == {0: "refused"}
    assert "GB free" in answers_of_ranks(asked)[0].text
    asked = request_capture_of_job(job, wish(largest_bytes=1000), now_ns=time.time_ns())
    assert answered(asked) == {0: "failed"}
    assert "more than the 1000 allowed when compressed" in answers_of_ranks(asked)[0].text
    assert list(asked.folder.iterdir()) == []
    assert process.poll() is None
    stop(process)


def test_a_trace_above_the_bound_is_compressed_and_can_be_read(place: Place, train: Path) -> None:
    process = begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000")
    job = stepping(place)
    first = request_capture_of_job(job, wish(), now_ns=time.time_ns())
    assert answered(first) == {0: "finished"}
    size = (first.folder / "rank0.pt.trace.json").stat().st_size
    asked = request_capture_of_job(job, wish(largest_bytes=size // 2), now_ns=time.time_ns())
    assert answered(asked) == {0: "finished"}
    (made,) = asked.folder.iterdir()
    assert made.name == "rank0.pt.trace.json.gz"
    assert made.stat().st_size <= size // 2
    assert len(json.loads(gzip.decompress(made.read_bytes()))["traceEvents"]) > 10
    stop(process)


def test_a_capture_under_way_when_the_job_ends_keeps_the_steps_that_it_has(place: Place, train: Path) -> None:
    # The job ends itself some steps behind the first of the capture, of which it sees the answer.
    train.write_text(
        TRAIN.replace("    time.sleep(0.004)\n", "    time.sleep(0.02)\n    if os.path.exists('end'): break\n")
    )
    process = begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000")
    job = stepping(place)
    asked = request_capture_of_job(job, wish(steps=100), now_ns=time.time_ns())
    until(lambda: [1] if progress_of_ranks(job)[0][0] > asked.request.start_step else [], PATIENCE_S)
    (place.folder / "end").touch()
    _, err = process.communicate(timeout=PATIENCE_S)
    trace = asked.folder / "rank0.pt.trace.json"
    assert trace.exists(), err
    steps = [step for step, _ in marks(trace)]
    assert steps[0] == asked.request.start_step
    assert 1 <= len(steps) < 100
    assert [path.name for path in asked.folder.iterdir()] == [trace.name]


@pytest.mark.slow
def test_a_rank_that_is_killed_in_its_capture_is_told_as_gone(place: Place, train: Path) -> None:
    process = begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000")
    job = stepping(place)
    asked = request_capture_of_job(job, wish(steps=90), now_ns=time.time_ns())
    until(lambda: [1] if answers_of_ranks(asked)[0].state == "started" else [])
    stop(process)
    assert answered(asked) == {0: "gone"}


@pytest.mark.slow
def test_a_profiler_of_the_job_is_left_alone(place: Place, train: Path) -> None:
    train.write_text(TRAIN.replace("for step in", "torch.profiler.profile().start()\nfor step in"))
    process = begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000")
    job = stepping(place)
    asked = request_capture_of_job(job, wish(), now_ns=time.time_ns())
    assert answered(asked) == {0: "refused"}
    assert "another profiler" in answers_of_ranks(asked)[0].text
    stop(process)


COLLECTED = """
import gc, os, time
import torch
import hermes.inside
hermes.inside.start()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen = set()
def step():
    time.sleep(0.004)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    seen.add((torch.autograd.profiler._is_profiler_enabled, sum(hasattr(one, "__code__") for one in gc.callbacks)))
while not gc.callbacks:
    step()
seen.clear()
if os.environ.get("OWN"):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True):
        step()
    step()
while not os.environ.get("OWN") and not os.path.exists("enough"):
    step()
print(sorted(seen))
"""


def test_no_callback_of_python_follows_collections_while_a_profiler_of_the_job_records(place: Place) -> None:
    # A collection in the profiler's work on another thread would run the callback: the profiler fails, or the job dies.
    out, said = begin(place, sys.executable, "-c", COLLECTED, OWN="1").communicate(timeout=PATIENCE_S)
    assert out == "[(False, 1), (True, 0)]\n", said


def test_no_callback_of_python_follows_collections_while_a_capture_records(place: Place) -> None:
    process = begin(place, sys.executable, "-c", COLLECTED)
    asked = request_capture_of_job(stepping(place), wish(level="standard"), now_ns=time.time_ns())
    assert answered(asked) == {0: "finished"}, answers_of_ranks(asked)
    (place.folder / "enough").write_text("")
    out, said = process.communicate(timeout=PATIENCE_S)
    assert out == "[(False, 1), (True, 0)]\n", said


@pytest.mark.slow
def test_two_jobs_do_not_see_each_others_requests(place: Place, train: Path) -> None:
    both = [begin(place, sys.executable, str(train), ONE_LINE="1", STEPS="100000") for _ in range(2)]
    alive = lambda: [job for job in place.jobs() if running(job) and progress_of_ranks(job)]  # noqa: E731
    found = until(lambda: alive() if len(alive()) == 2 else [], PATIENCE_S)
    with pytest.raises(HermesError, match="is the name of several jobs"):
        find_job("train", place.environment)
    asked = request_capture_of_job(find_job(found[0].id, place.environment), wish(), now_ns=time.time_ns())
    assert answered(asked) == {0: "finished"}
    assert not found[1].captures.exists()
    for process in both:
        stop(process)


def _torchrun(place: Place, train: Path, **environment: str) -> subprocess.Popen[str]:
    return begin(
        place, sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(train),
        ONE_LINE="1", **environment,
    )  # fmt: skip


@pytest.mark.smoke
@pytest.mark.slow
def test_hermes_run_notices_captures_and_analyses_without_a_change_to_the_code(place: Place, train: Path) -> None:
    # Slow from step 250 on, and no end before its capture was analysed, however late the watcher gets a CPU.
    slow = TRAIN.replace("time.sleep(0.004)", "time.sleep(0.03 if step > 250 else 0.01)\n    if captured(step): break")
    head = """from pathlib import Path
def captured(step):
    told = Path(sys.argv[1]).glob("*/events.jsonl")
    return step % 20 == 0 and any('"kind": "finding"' in events.read_text() for events in told)
"""
    train.write_text(head + slow)
    command = (sys.executable, str(train), str(place.root))
    process = begin(place, sys.executable, "-c", HERMES, "run", "--", *command, STEPS="20000")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    (job,) = place.jobs()
    events = [json.loads(line) for line in (job.folder / "events.jsonl").read_text().splitlines()]
    # On a busy machine steps may be slow before step 250 too: tests of `jobs.detect` hold the step to its number.
    assert [event["since"] for event in events if event["kind"] == "alarm"]
    assert next(event for event in events if event["kind"] == "capture")["states"] == {"0": "finished"}
    finding = next(event for event in events if event["kind"] == "finding")
    assert Path(finding["report"]).is_file()
    assert f"Finding: {finding['message']['text']}" in err
    assert f"run directory: {job.folder}" in err
    until(lambda: not list(place.memory.iterdir()), PATIENCE_S)


@pytest.mark.smoke
def test_hermes_run_ends_as_its_command_does(place: Place) -> None:
    ends = {"import sys; sys.exit(7)": 7, "import os; os.kill(os.getpid(), 9)": -9}
    for script, code in ends.items():
        done = begin(place, sys.executable, "-c", HERMES, "run", "--", sys.executable, "-c", script)
        done.communicate(timeout=PATIENCE_S)
        assert done.returncode == code
    script = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(3)); print('up', flush=True); time.sleep(60)"
    )
    process = begin(place, sys.executable, "-c", HERMES, "run", "--", sys.executable, "-c", script)
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3


@pytest.mark.slow
def test_a_killed_watcher_leaves_the_job_running(place: Place, train: Path) -> None:
    process = begin(place, sys.executable, "-c", HERMES, "run", "--", sys.executable, str(train), STEPS="100000")
    job = stepping(place)
    for pid in beside("hermes.inside.launch.companion", job.folder):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not beside("hermes.jobs.watcher_process", job.folder), PATIENCE_S)
    before = progress_of_ranks(job)[0][0]
    until(lambda: [1] if progress_of_ranks(job)[0][0] > before + 50 else [])
    asked = request_capture_of_job(job, wish(), now_ns=time.time_ns())
    assert answered(asked) == {0: "finished"}
    assert answers_of_ranks(asked)[0].pid == process.pid
    process.kill()
    process.communicate(timeout=PATIENCE_S)


@pytest.mark.slow
def test_a_package_of_the_job_called_hermes_is_not_shadowed(place: Place, train: Path) -> None:
    (place.folder / "hermes.py").write_text("mine = 1\n")
    train.write_text("import hermes\nassert hermes.mine\n" + TRAIN)
    boot = "import sys; sys.path.insert(0, sys.argv.pop(1)); " + HERMES
    source = place.environment["PYTHONPATH"]
    process = begin(
        place, sys.executable, "-c", boot, source, "run", "--", sys.executable, str(train), STEPS="5", PYTHONPATH=""
    )
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "capture is off: the job has another package called hermes" in err


STALL = """
import json, os, sys, threading, time
from pathlib import Path
import torch
from torch import nn
import hermes.inside
from hermes.inside.profile.backends.torch import TorchBackend
torch.set_num_threads(1)
hermes.inside.start()
model = nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, rows, held = torch.randn(16, 32), [], []
save, writing = TorchBackend.save, threading.Event()
def slow(self):
    writing.set()
    held.append(threading.current_thread() is threading.main_thread())
    first = len(rows)
    # A step that looks at `writing` as it is set does not count yet.
    while len(rows) < first + 51:
        time.sleep(0.01)
    made = save(self)
    writing.clear()
    return made
TorchBackend.save = slow
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
for step in range(200_000):
    time.sleep(0.002)
    before = time.thread_time_ns()
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    states = hermes.inside._agent._captures
    rows.append((states._state, writing.is_set(), time.thread_time_ns() - before, resident()))
    if step % 20 == 0 and Path("seen").exists():
        break
Path("told.json").write_text(json.dumps({"rows": rows, "held": held}))
"""


def test_a_light_capture_takes_no_memory_ahead_and_is_written_beside_the_steps(place: Place) -> None:
    # What a step that hears of a capture did once: fill a quarter of a gigabyte of the heap, for a fifth of a second.
    process = begin(place, sys.executable, "-c", STALL)
    job = stepping(place)
    asked = request_capture_of_job(job, wish(steps=1), now_ns=time.time_ns())
    assert answered(asked) == {0: "finished"}
    (place.folder / "seen").touch()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    told = json.loads((place.folder / "told.json").read_text())
    # The writing waits for fifty steps, which end meanwhile: on the thread that trains it would wait for ever.
    assert told["held"] == [False]
    states = [state for state, *_ in told["rows"]]
    ahead = states.index("accepted")
    bare = [row for row in told["rows"][:ahead]]
    waiting = [row for row in told["rows"] if row[0] == "accepted"]
    assert max(cpu_ns for _, _, cpu_ns, _ in waiting) < 30_000_000
    assert max(resident for *_, resident in waiting) - bare[-1][-1] < 16_000_000
    assert sum(writing for _, writing, *_ in told["rows"]) >= 50
