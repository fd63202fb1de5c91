"""Whatever in `hermes.inside` raises, the job goes on: every function is made to raise, in a job that calls it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.inside.error_guard import Border

ROOT = Path(__file__).resolve().parents[2]


def broken(*options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.inside.border_pass", *options], cwd=ROOT, capture_output=True, text=True,
        timeout=3000, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.live
@pytest.mark.usefixtures("with_torch")
@pytest.mark.parametrize("job", ["watch", "record"])
def test_a_few_functions_that_raise_do_not_reach_the_job(job: str) -> None:
    broken("--only", job, "--each", "60", "--offset", "7")


@pytest.mark.slow
@pytest.mark.usefixtures("with_torch")
def test_no_function_that_raises_reaches_the_job() -> None:
    # Each function once takes most of an hour: `python -m tests.inside.border_pass`.
    broken("--each", "25", "--offset", "4")


@pytest.fixture
def told() -> list[Exception]:
    return []


@pytest.fixture
def border(told: list[Exception]) -> Border:
    return Border(told.append)


def fail(*_: object, **__: object) -> Any:
    raise LookupError("ours")


def test_a_border_keeps_what_ours_raises_and_tells_it(border: Border, told: list[Exception]) -> None:
    assert border.call(fail) is None
    assert border.entry(fail)(1) is None
    assert border.tap(fail)(2) == 2
    assert border.around(int, fail, fail)("3") == 3
    assert border.around(int, lambda *_: True, fail)("4") == 4
    assert border.through(fail, lambda: 5) == 5
    assert len(told) == 6
    assert Border(fail).call(fail) is None


@pytest.mark.parametrize("ours", [lambda call: call(), fail, lambda call: (call(), fail())])
def test_the_call_of_the_job_is_made_once_and_what_it_raises_goes_through(border: Border, ours: Any) -> None:
    calls = []

    def own() -> int:
        calls.append(1)
        raise KeyError("the job's")

    with pytest.raises(KeyError, match="the job's"):
        border.through(ours, own)
    with pytest.raises(KeyError, match="the job's"):
        border.around(own, lambda *_: True, fail)()
    assert len(calls) == 2
    assert border.through(lambda call: (call(), call(), fail()), lambda: calls.append(1)) is None
    assert len(calls) == 3


def test_what_a_handler_of_a_signal_raises_while_ours_runs_is_the_jobs(border: Border, told: list[Exception]) -> None:
    def too_long(*_: object) -> None:
        raise TimeoutError("the job's own limit")

    before = signal.signal(signal.SIGUSR1, too_long)
    try:
        with pytest.raises(TimeoutError, match="own limit"):
            border.call(signal.raise_signal, signal.SIGUSR1)
        assert told == []
    finally:
        signal.signal(signal.SIGUSR1, before)
