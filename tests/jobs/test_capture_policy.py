"""Which alarms start a capture: how often, of what, and that three bursts do not use up what is left for two weeks."""

from __future__ import annotations

from hermes.jobs.capture_policy import CapturePolicy, StartedCapture, Trouble
from hermes.jobs.messages import captured_lately, captures_spent, refused_lately

HOUR = 3600 * 10**9
INPUT = Trouble(cause="data wait", more=0.5)


def test_two_hours_between_captures_of_one_trouble_three_at_once_and_one_more_each_eight_hours() -> None:
    policy = CapturePolicy()
    assert policy.refusal(100 * HOUR, INPUT) is None
    policy.started(100 * HOUR, INPUT)
    assert policy.refusal(100 * HOUR + 1, INPUT) == captured_lately(n=0)
    assert policy.refusal(102 * HOUR - 1, INPUT)
    assert policy.refusal(102 * HOUR, INPUT) is None
    policy.started(102 * HOUR, INPUT)
    policy.started(104 * HOUR, INPUT)
    assert policy.refusal(106 * HOUR, INPUT) == captures_spent(n=2)
    assert policy.refusal(108 * HOUR, INPUT) is None


def test_three_bursts_on_the_first_day_leave_captures_for_two_weeks() -> None:
    policy = CapturePolicy()
    for hour in (0, 3, 6):
        policy.started(hour * HOUR, INPUT)
    made = 0
    for hour in range(24, 14 * 24, 12):
        if policy.refusal(hour * HOUR, INPUT) is None:
            policy.started(hour * HOUR, INPUT)
            made += 1
    assert made == 26


def test_another_cause_gets_a_capture_of_its_own_and_so_does_one_many_times_worse() -> None:
    policy = CapturePolicy()
    policy.started(100 * HOUR, Trouble(cause="CPU contention", more=0.46))
    assert policy.refusal(100 * HOUR + 1, Trouble(cause="CPU contention", more=0.6))
    assert policy.refusal(100 * HOUR + 1, Trouble(cause="CPU contention", more=2.7)) is None
    assert policy.refusal(100 * HOUR + 1, Trouble(cause="data wait", more=0.3)) is None


def test_the_last_capture_is_kept_for_what_is_many_times_worse() -> None:
    policy = CapturePolicy()
    policy.started(100 * HOUR, Trouble(cause="CPU contention", more=0.4))
    policy.started(100 * HOUR + 1, Trouble(cause="host compute", more=0.5))
    assert policy.refusal(100 * HOUR + 2, Trouble(cause="garbage collection", more=0.6)) == captured_lately(n=0)
    assert policy.refusal(100 * HOUR + 2, Trouble(cause="data wait", more=2.7)) is None


def test_of_a_capture_whose_reason_nobody_knows_none_is_different() -> None:
    policy = CapturePolicy()
    policy.restore([StartedCapture(at_ns=100 * HOUR, about=Trouble())])
    assert policy.refusal(101 * HOUR, INPUT) == captured_lately(n=60)


def test_a_capture_that_was_refused_spends_nothing_and_is_asked_for_again_after_five_minutes() -> None:
    policy = CapturePolicy()
    policy.started(100 * HOUR, INPUT)
    policy.started(102 * HOUR, INPUT)
    policy.refused(102 * HOUR)
    assert policy.captures == 1
    assert policy.refusal(102 * HOUR + 60 * 10**9, INPUT) == refused_lately(n=1)
    assert policy.refusal(102 * HOUR + 300 * 10**9, INPUT) is None


def test_captures_of_all_watchers_of_a_job_are_counted_once() -> None:
    policy = CapturePolicy()
    policy.started(100 * HOUR + 7, INPUT)
    policy.restore([StartedCapture(at_ns=99 * HOUR, about=INPUT), StartedCapture(at_ns=100 * HOUR, about=Trouble())])
    assert policy.captures == 2


def test_an_alarm_that_may_not_start_a_capture_lengthens_nothing() -> None:
    policy = CapturePolicy()
    policy.started(100 * HOUR, INPUT)
    assert policy.refusal(101 * HOUR, INPUT)
    assert policy.refusal(102 * HOUR, INPUT) is None
