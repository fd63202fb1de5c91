"""The default preset on drawn series: it finds what is there, is silent where nothing is, and says since when."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest
from benchmarks.detection import CHANGE, FAMILIES
from tests.each import sampled

from hermes.inside.wire.step_record import FLAGS
from hermes.jobs.detect.alarm import Alarm
from hermes.jobs.detect.ranksum import autocorrelation_time, rank_sum_z
from hermes.jobs.detect.read_step_logs import from_walls
from hermes.jobs.detect.replay_detector import detect
from hermes.jobs.detect.robust_detector import Robust

Floats = npt.NDArray[np.float64]


def alarms(times: Floats, **columns: Iterable[int]) -> tuple[Alarm, ...]:
    return detect(from_walls(times * 1e8, **columns), Robust)


def series(family: str, seed: int) -> Floats:
    return FAMILIES[family](np.random.default_rng(seed))


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("seed", sampled([1, 2, 3], 1))
def test_a_job_that_goes_on_as_ever_raises_no_alarm(family: str, seed: int) -> None:
    assert alarms(series(family, seed)) == ()


@pytest.mark.parametrize("family", ["3 % lognormal", "2 % with spikes and checkpoints", "heavy tails (t3, 2 %)"])
@pytest.mark.parametrize(("factor", "within"), [(1.06, 60), (1.10, 30), (1.30, 12)])
def test_a_lasting_change_is_found_once_and_soon(family: str, factor: float, within: int) -> None:
    times = series(family, 5)
    times[CHANGE:] *= factor
    (alarm,) = alarms(times)
    assert CHANGE <= alarm.step < CHANGE + within
    assert alarm.ratio == pytest.approx(factor, rel=0.06)
    assert alarm.since == pytest.approx(CHANGE, abs=40)


def test_a_second_change_is_found_too_and_a_repair_is_no_alarm() -> None:
    times = series("3 % lognormal", 7)
    times[1000:2000] *= 1.2
    times[3000:] *= 1.2
    assert [1000 <= alarm.step < 1100 or 3000 <= alarm.step < 3100 for alarm in alarms(times)] == [True, True]


def test_a_drift_is_called_one() -> None:
    times = series("3 % lognormal", 11)
    times[CHANGE:] *= 1 + 2e-4 * np.arange(len(times) - CHANGE)
    first, *_ = alarms(times)
    assert first.kind in ("drift", "shift")
    assert first.step < CHANGE + 400


def test_longer_batches_are_no_slow_steps() -> None:
    dice = np.random.default_rng(1)
    tokens = dice.integers(1000, 8000, 3000)
    times = tokens / 4000 * np.exp(dice.normal(0, 0.02, 3000))
    assert alarms(times, tokens=tokens) == ()
    times[2000:] *= 1.1
    (alarm,) = alarms(times, tokens=tokens)
    assert 2000 <= alarm.step < 2060


def test_a_new_batch_size_is_a_new_baseline() -> None:
    dice = np.random.default_rng(2)
    samples = np.where(np.arange(3000) < 1500, 32, 64)
    # Twice the samples take 2.4 times as long: 20 % more for each, and no fault.
    times = np.where(samples == 32, 1.0, 2.4) * np.exp(dice.normal(0, 0.02, 3000))
    assert [alarm.step for alarm in alarms(times, samples=samples) if alarm.step > 1600] == []


@pytest.mark.parametrize("flag", ["profiled", "checkpoint", "evaluation", "foreign_profiler"])
def test_steps_that_have_an_excuse_are_left_out(flag: str) -> None:
    times = series("3 % lognormal", 4)
    flags = np.zeros(len(times), dtype=np.int64)
    times[1000:1030] *= 3
    flags[1000:1030] = FLAGS[flag]
    assert alarms(times, flags=flags) == ()
    assert len(alarms(times)) > 0


def test_a_resumed_job_is_compared_with_itself() -> None:
    times = series("3 % lognormal", 4)
    times[2000:] *= 2
    flags = np.zeros(len(times), dtype=np.int64)
    flags[2000] = FLAGS["resumed"]
    assert alarms(times, flags=flags) == ()


def test_a_million_steps_need_no_more_memory_than_a_thousand() -> None:
    detector = Robust(0)
    dice = np.random.default_rng(3)
    for step, wall in enumerate((np.exp(dice.normal(0, 0.03, 20_000)) * 1e6).astype(int).tolist()):
        assert detector.feed(step, wall, 0, 0) is None
    assert len(detector._values) < 10_000


def test_the_rank_sum_is_that_of_the_textbook() -> None:
    # Lehmann, Nonparametrics (1975), p. 7: ranks of a treatment of 3 among 7, all above.
    z = rank_sum_z(np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0]))
    assert z == pytest.approx((12 - 6) / np.sqrt(3 * 4 * 8 / 12))
    assert rank_sum_z(np.array([1.0, 1.0]), np.array([1.0, 1.0])) == 0


def test_the_autocorrelation_time_is_that_of_the_model() -> None:
    dice = np.random.default_rng(9)
    assert autocorrelation_time(dice.normal(size=1000)) < 1.5
    level = np.zeros(20_000)
    noise = dice.normal(size=20_000)
    for step in range(1, 20_000):
        level[step] = 0.9 * level[step - 1] + noise[step]
    assert autocorrelation_time(level) == pytest.approx(19, rel=0.25)
    assert autocorrelation_time(np.ones(100)) >= 1
