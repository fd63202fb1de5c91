"""What is said before a capture is asked for."""

from __future__ import annotations

import time

import pytest
from tests.jobs.live_job import LiveJob, record

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.inside.wire.recovery import open_ring
from hermes.jobs.check_capture_request import check_capture_request


def test_metrics_that_are_none_are_refused_with_those_that_are(live_job: LiveJob) -> None:
    with pytest.raises(InputError, match="no metrics 'Foo'") as refused:
        check_capture_request(live_job.job, {"aic_metrics": "Foo"})
    assert "PipeUtilization" in say(refused.value.hint)


def test_options_of_npus_are_refused_for_a_job_without_one(live_job: LiveJob) -> None:
    live_job.ring.path.unlink()
    ring = open_ring(live_job.job, 0, {"frameworks": {"torch": "2.13"}})
    ring.add(record(1, step=1, end_ns=time.time_ns(), wall_ns=1))
    with pytest.raises(InputError, match="--mstx need an NPU, and the job has loaded torch"):
        check_capture_request(live_job.job, {"mstx": "yes"})
    assert check_capture_request(live_job.job, {}) is None


def test_a_job_that_stands_still_is_said_before_its_capture_is_waited_for(live_job: LiveJob) -> None:
    live_job.ring.add(record(1, step=1, wall_ns=5, end_ns=time.time_ns() - 30 * 10**9))
    said = check_capture_request(live_job.job, {})
    assert said is not None
    assert say(said).startswith("No step has ended for 30.")
