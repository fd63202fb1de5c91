"""The thread that steps is seen at its lines, and nothing that it is asked can end the job."""

from __future__ import annotations

import select
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import hermes.inside
from hermes.inside.profile.sample_lines import Lines, calls_expected, own_code


def wait_here(seconds: float) -> None:
    # Tests replace `time.sleep` by a function of their own, which would be the innermost frame.
    select.select([], [], [], seconds)


@pytest.fixture
def seen() -> Iterator[Lines]:
    lines = Lines(threading.get_ident(), every_s=0.002)
    lines.start()
    yield lines
    lines.end()
    lines.join(5)


@pytest.mark.live
def test_the_function_in_which_the_thread_waits_is_seen(seen: Lines) -> None:
    wait_here(0.3)
    told = seen.told()
    stacks, samples = told["stacks"], told["samples"]
    assert isinstance(stacks, list)
    assert isinstance(samples, list)
    inside = [stacks[number] for _, number in samples if "wait_here" in stacks[number][0]]
    assert inside
    assert "test_sample_lines.py" in inside[0][0]


@pytest.mark.live
def test_a_thread_that_waits_is_not_in_python(seen: Lines) -> None:
    wait_here(0.3)
    assert seen.python is not None
    assert seen.python < 0.5


def test_a_thread_that_is_gone_ends_it() -> None:
    lines = Lines(-1, every_s=0.001)
    lines.start()
    lines.join(5)
    assert not lines.is_alive()
    assert lines.told()["samples"] == []


def test_libraries_are_not_the_users_code() -> None:
    found = own_code()
    assert not {"pytest", "threading", "hermes", "polars"} & set(found)


def test_files_of_hermes_are_not_the_users_code_however_they_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The folder with this file stands on the path of the job, before all others.
    boot = Path(hermes.inside.__file__).parent / "boot"
    monkeypatch.syspath_prepend(boot)
    waiting = ModuleType("hermes_waits_to_watch")
    waiting.__file__ = str(boot / "hermes_waits_to_watch.py")
    monkeypatch.setitem(sys.modules, waiting.__name__, waiting)
    assert not {"hermes", "hermes_waits_to_watch"} & set(own_code())


@pytest.mark.parametrize(
    ("python", "step_ns", "expected"), [(0.5, 10**9, 1_000_000), (None, 10**9, 2_000_000), (1, None, 0)]
)
def test_calls_of_python_are_reckoned_from_what_was_seen(
    python: float | None, step_ns: int | None, expected: int
) -> None:
    assert calls_expected(python, step_ns, 2) == expected


@pytest.mark.live
def test_a_thread_beside_that_runs_python_is_seen_and_one_that_waits_is_not(seen: Lines) -> None:
    over, woken = threading.Event(), threading.Event()

    def poll_here() -> None:
        while not over.is_set():
            pass

    threads = [threading.Thread(target=poll_here, name="poller"), threading.Thread(target=woken.wait, name="waiter")]
    for thread in threads:
        thread.start()
    wait_here(0.4)
    seen.end()
    over.set()
    woken.set()
    told = seen.told()
    for thread in threads:
        thread.join()
    others = {one["name"]: one for one in told["threads"]}  # type: ignore[attr-defined]
    # A thread may be on a core once more before it waits.
    assert others.get("waiter", {"cpu_ns": 0})["cpu_ns"] < 0.01 * told["wall_ns"]  # type: ignore[operator]
    poller = others["poller"]
    assert sum(count for _, count in poller["seen"]) > 0.5 * told["looks"]  # type: ignore[operator]
    assert poller["cpu_ns"] > 0.1 * told["wall_ns"]  # type: ignore[operator]
    assert any("poll_here" in line for stack, _ in poller["seen"] for line in stack)


@pytest.mark.live
def test_a_thread_that_gets_the_number_of_one_that_ended_has_its_own_name_and_lines(seen: Lines) -> None:
    def poll() -> None:
        # On a busy machine a thread of a wall-clock time may never run.
        while time.thread_time() < 0.4:
            pass

    def number_of(name: str) -> int | None:
        thread = threading.Thread(target=poll, name=name)
        thread.start()
        thread.join()
        return thread.ident

    # The system need not give a number again at once.
    last = number_of("thread 0")
    for attempt in range(1, 50):
        before, last = last, number_of(f"thread {attempt}")
        if last == before:
            break
    assert last == before
    seen.end()
    told = {one["name"] for one in seen.told()["threads"]}  # type: ignore[attr-defined]
    assert {f"thread {attempt - 1}", f"thread {attempt}"} <= told
