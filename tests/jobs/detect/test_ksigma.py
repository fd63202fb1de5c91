"""The preset `ksigma`, line by line: what the public description says, then what it leaves open and we decided."""

from __future__ import annotations

import pytest

from hermes.base.errors import InputError
from hermes.inside.wire.step_record import FLAGS
from hermes.jobs.detect.alarm import Alarm
from hermes.jobs.detect.alarm_thresholds import KSigmaSettings
from hermes.jobs.detect.ksigma import KSigma

HOUR = 3600 * 10**9
# Mean 1000, population deviation 10.
BASELINE = [990, 1010] * 10


def feed(detector: KSigma, walls: list[int], first: int = 0) -> list[Alarm]:
    found = (detector.feed(first + step, wall, 0, 0) for step, wall in enumerate(walls))
    return [alarm for alarm in found if alarm]


def armed(settings: KSigmaSettings | None = None) -> KSigma:
    detector = KSigma(0, settings)
    assert feed(detector, [9999] * 20 + BASELINE) == []
    assert detector.armed
    return detector


def test_defaults_are_those_of_the_description() -> None:
    assert KSigmaSettings.of({}) == KSigmaSettings(skip=20, baseline=20, k=5.0, consecutive=4)


def test_the_environment_sets_all_four() -> None:
    names = ("PERF_BASELINE_SKIP_STEPS", "PERF_BASELINE_STEPS", "PERF_KSIGMA", "PERF_MIN_SPIKE_CONSEC")
    given = dict(zip(names, ("3", "7", "2.5", "1"), strict=True))
    assert KSigmaSettings.of(given) == KSigmaSettings(skip=3, baseline=7, k=2.5, consecutive=1)


@pytest.mark.parametrize("text", ["five", "-1", "nan", "1e99", "1.5"])
def test_a_value_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match="PERF_BASELINE_STEPS"):
        KSigmaSettings.of({"PERF_BASELINE_STEPS": text})


def test_the_first_steps_do_not_enter_the_baseline() -> None:
    assert armed().score(1050) == pytest.approx(5.0)


def test_nothing_is_noticed_before_there_is_a_baseline() -> None:
    assert feed(KSigma(0), [1] * 20 + [10**9] * 20) == []


def test_a_score_of_k_counts_and_one_below_does_not() -> None:
    assert len(feed(armed(), [1050] * 4)) == 1
    assert feed(armed(), [1049] * 100) == []


def test_only_steps_in_a_row_count() -> None:
    assert feed(armed(), [1060, 1060, 1060, 1000] * 50) == []
    (alarm,) = feed(armed(), [1000, 1060, 1060, 1060, 1060])
    assert (alarm.since, alarm.step, alarm.before_ns, alarm.after_ns) == (1, 4, 1000, 1060)


def test_faster_steps_are_no_spikes() -> None:
    assert feed(armed(), [100] * 100) == []


def test_new_thresholds_restart_the_count_and_keep_the_baseline() -> None:
    detector = armed()
    assert feed(detector, [1060] * 3) == []
    detector.change(KSigmaSettings(k=6.0))
    assert feed(detector, [1060] * 3) == []
    assert len(feed(detector, [1060])) == 1


def test_after_an_alarm_the_count_begins_anew_so_a_slow_job_is_told_again() -> None:
    assert [alarm.step for alarm in feed(armed(), [1060] * 12)] == [3, 7, 11]


def test_spikes_inside_the_baseline_raise_the_threshold_as_published() -> None:
    detector = KSigma(0)
    feed(detector, [1000] * 20 + [1000] * 19 + [3000])
    assert feed(detector, [2500] * 100) == []


def test_a_baseline_without_deviation_has_a_floor() -> None:
    detector = KSigma(0)
    feed(detector, [1000] * 40)
    assert detector.score(1005) == pytest.approx(5.0)


def test_drift_is_noticed_late_since_the_baseline_is_frozen() -> None:
    alarms = feed(armed(), [1000 + step // 10 for step in range(1000)])
    assert alarms[0].step == 503


def test_steps_of_a_capture_are_no_samples() -> None:
    detector = armed()
    found = [detector.feed(step, 9000, 0, FLAGS["profiled"]) for step in range(50)]
    assert found == [None] * 50


def test_a_resumed_job_takes_a_new_baseline() -> None:
    detector = armed()
    detector.feed(0, 5000, 0, FLAGS["resumed"])
    assert not detector.armed
    assert feed(detector, [5000] * 39) == []
