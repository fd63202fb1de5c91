"""`hermes profile` says which steps it captures, and what is special about them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hermes.cli.profile import _asked
from hermes.inside.wire.control import Request
from hermes.inside.wire.rundir import Job
from hermes.jobs.request_capture import RequestedCapture


@pytest.mark.parametrize(("first", "said"), [(6, True), (10, True), (11, False)])
def test_a_capture_of_the_first_steps_says_that_they_warm_up(
    capsys: pytest.CaptureFixture[str], first: int, said: bool
) -> None:
    request = Request(action="profile", start_step=first, steps=2, level="light", reason="", out="", options={})
    job = cast("Job", SimpleNamespace(id="train-7"))
    _asked(RequestedCapture(job=job, epoch=1, request=request, folder=Path()))
    assert ("first ten steps" in capsys.readouterr().out) is said
