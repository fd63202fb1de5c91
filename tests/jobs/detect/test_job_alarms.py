"""A whole job: one alarm a cause, its end, the rank that others wait for, the unit of steps, and live as in replay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from hermes.base.say import say
from hermes.inside.wire.step_record import FLAGS, NULL
from hermes.jobs.detect.causes import Spent, split, what_costs
from hermes.jobs.detect.job_alarms import JobDetector, Notice, replay
from hermes.jobs.detect.read_step_logs import Steps, from_walls
from hermes.jobs.detect.robust_detector import Robust
from hermes.jobs.notice_findings import finding_of

MS = 1_000_000
Floats = npt.NDArray[np.float64]


def noise(count: int, seed: int = 1) -> Floats:
    return np.exp(np.random.default_rng(seed).normal(0, 0.03, count))


def job(factor: Floats, ranks: int = 8, late: int = -1) -> list[Steps]:
    """Ranks in step: each takes as long as the slowest; the late one computes, the others are blocked."""
    walls = noise(len(factor)) * factor * 10 * MS
    made = []
    for rank in range(ranks):
        own = walls * 0.9 if rank == late else np.minimum(walls * 0.9, 9 * MS)
        columns = {
            "cpu_ns": own.astype(int), "delay_ns": np.zeros(len(walls), int), "comm_ns": (walls - own).astype(int),
        }  # fmt: skip
        made.append(from_walls(walls * (1 + rank * 1e-5), rank=rank, **columns))
    return made


def slow(count: int, first: int, end: int, factor: float = 1.5) -> Floats:
    made = np.ones(count)
    made[first:end] = factor
    return made


def said(ranks: Sequence[Steps]) -> list[Notice]:
    return [notice for notice in replay(ranks, Robust) if notice.kind != "again"]


def test_eight_ranks_that_become_slower_together_are_one_alarm_and_one_end() -> None:
    alarm, over = said(job(slow(800, 300, 600)))
    assert (alarm.kind, alarm.ranks) == ("alarm", tuple(range(8)))
    assert alarm.since == pytest.approx(300, abs=5)
    assert (over.kind, over.ranks) == ("recovered", tuple(range(8)))
    assert 600 <= over.step < 650


def test_the_same_slowness_that_comes_back_is_found_as_fast_as_the_first_time() -> None:
    kinds = [(notice.kind, notice.step) for notice in said(job(slow(2000, 500, 900) * slow(2000, 1200, 1600), ranks=1))]
    assert [kind for kind, _ in kinds] == ["alarm", "recovered", "alarm", "recovered"]
    assert 1200 <= kinds[2][1] < 1215


def test_steps_that_become_slower_once_more_are_a_second_alarm() -> None:
    factor = slow(1200, 400, 800, 1.5) * slow(1200, 800, 1200, 3.0)
    assert [notice.kind for notice in said(job(factor, ranks=2))] == ["alarm", "alarm"]


def test_a_rank_that_becomes_a_straggler_half_way_is_named_live_and_in_the_sum() -> None:
    ranks = job(slow(1000, 750, 1000, 1.2), ranks=4, late=2)
    (late,) = [notice for notice in said(ranks) if notice.kind == "straggler"]
    assert late.ranks == (2,)
    assert 730 <= late.since <= 770
    first = what_costs(ranks)[0]
    assert (first.name, first.rank) == ("straggler", 2)
    assert first.note is not None
    assert first.note["since"] == pytest.approx(750, abs=3)


def test_a_straggler_that_catches_up_is_told_too() -> None:
    notices = said(job(slow(1000, 300, 600, 1.5), ranks=4, late=1))
    assert [notice.kind for notice in notices if notice.alarm is None] == ["straggler", "caught up"]


def epochs(*, text: bool, count: int = 20, length: int = 120) -> Steps:
    """As loops that fetch one batch ahead: the first step of an epoch takes two, the last none."""
    dice = np.random.default_rng(5)
    walls = noise(count * length, 7) * 20 * MS
    batches = np.ones(count * length, dtype=int)
    batches[::length], batches[length - 1 :: length] = 2, 0
    samples = np.where(batches > 0, batches * 16, NULL)
    tokens = np.where(batches > 0, batches * 16 * dice.integers(250, 260, len(batches)), NULL)
    return from_walls(walls, batches=batches, samples=samples, **({"tokens": tokens} if text else {}))


@pytest.mark.parametrize("text", [False, True])
def test_steps_without_a_batch_at_the_end_of_each_epoch_raise_no_alarm(*, text: bool) -> None:
    assert replay([epochs(text=text)], Robust) == []


@pytest.mark.parametrize("length", [100, 300])
@pytest.mark.parametrize("warm", [5, 20])
def test_epochs_with_an_evaluation_and_a_warm_up_raise_no_alarm(length: int, warm: int) -> None:
    times = noise(12 * length) * 10 * MS
    flags = np.zeros(len(times), dtype=int)
    for begin in range(0, len(times), length):
        times[begin : begin + warm] *= np.linspace(3, 1.3, warm)
        times[begin + length - 1] *= 40
        flags[begin + length - 1] = FLAGS["evaluation"]
    assert said([from_walls(times, flags=flags)]) == []


def test_slow_from_step_50_on_is_found() -> None:
    times = noise(400) * 10 * MS
    times[50:] *= 1.3
    (alarm,) = said([from_walls(times)])
    assert (alarm.since, alarm.step < 120) == (50, True)


@pytest.mark.parametrize(("every", "factor"), [(4, 2), (4, 3), (4, 5), (4, 13), (10, 5), (0, 20)])
def test_slowness_by_turns_is_found(every: int, factor: int) -> None:
    found = 0
    for seed in range(8):
        times = noise(1500, seed) * 10 * MS
        dice = np.random.default_rng(100 + seed)
        picked = np.arange(1500) % every == 0 if every else dice.random(1500) < 0.05
        times[1100:][picked[1100:]] *= factor
        first, *_ = [notice.alarm for notice in said([from_walls(times)]) if notice.alarm] or [None]
        found += first is not None and first.kind == "turns" and first.step >= 1100 and first.period == every
    assert found >= 7


@pytest.mark.parametrize("begin", [0, 1500])
@pytest.mark.parametrize("every", [30, 50, 80])
def test_every_nth_step_that_takes_ten_times_as_long_is_one_alarm_with_what_it_cost(every: int, begin: int) -> None:
    times = noise(3000) * 10 * MS
    times[begin + every - 1 :: every] *= 10
    (alarm,) = said([from_walls(times)])
    assert alarm.alarm is not None
    assert (alarm.alarm.kind, alarm.alarm.period) == ("turns", every)
    assert alarm.alarm.step - begin <= 8 * every
    count = (alarm.alarm.step - begin + 1) // every
    assert alarm.lost is not None
    assert alarm.lost.ns == pytest.approx(count * 90 * MS, rel=0.1)
    assert "lost in all" in say(finding_of(alarm).message)


def test_steps_at_an_even_distance_that_cost_little_or_come_unevenly_are_no_alarm() -> None:
    times = noise(4000) * 10 * MS
    times[99::100] *= 4
    assert said([from_walls(times)]) == []
    times = noise(4000) * 10 * MS
    times[np.random.default_rng(4).random(4000) < 0.02] *= 10
    assert said([from_walls(times)]) == []


@pytest.mark.parametrize("begin", [0, 2000])
def test_steps_that_grow_by_a_fiftieth_of_a_percent_are_told_with_all_that_was_lost(begin: int) -> None:
    growth = 1.0002 ** np.clip(np.arange(8000) - begin, 0, 4966)
    notices = said([from_walls(noise(8000) * growth * 10 * MS)])
    last = notices[-1]
    assert last.kind == "alarm"
    assert last.lost is not None
    assert last.alarm is not None
    assert last.alarm.after_ns > 1.9 * last.lost.usual_ns
    truth = float((growth[last.lost.since : last.alarm.step + 1] - last.lost.usual_ns / (10 * MS)).sum()) * 10 * MS
    assert last.lost.ns == pytest.approx(truth, rel=0.1)
    assert f"lost in all since step {last.lost.since}" in say(finding_of(last).message)


def test_bursts_are_told_with_their_end_and_what_each_has_cost() -> None:
    factor = slow(3000, 600, 680, 3) * slow(3000, 1500, 1580, 3) * slow(3000, 2400, 2480, 3)
    notices = said([from_walls(noise(3000) * factor * 10 * MS)])
    assert [notice.kind for notice in notices] == ["alarm", "recovered"] * 3
    for notice in notices[1::2]:
        assert notice.lost is not None
        assert notice.lost.ns == pytest.approx(80 * 20 * MS, rel=0.1)


def test_a_slowdown_of_another_cause_is_an_alarm_of_its_own_however_slow_a_burst_was_before() -> None:
    count = 900
    walls, delay, data = noise(count) * 10 * MS, np.zeros(count, int), np.zeros(count, int)
    walls[300:306] += 90 * MS
    delay[300:306] += 90 * MS
    walls[306:] += 3 * MS
    delay[306:] += 3 * MS
    walls[450:] += 20 * MS
    data[450:] += 20 * MS
    each = {"cpu_ns": np.full(count, 9 * MS), "data_cpu_ns": np.zeros(count, int)}
    notices = said([from_walls(walls, delay_ns=delay, data_ns=data, **each)])
    causes = [notice.cause.name for notice in notices if notice.kind == "alarm" and notice.cause is not None]
    assert causes[0] is Spent.CPU_CONTENTION
    assert causes[-1] is Spent.DATA_WAIT


def test_steps_that_become_many_times_worse_right_behind_an_alarm_are_another_one() -> None:
    factor = slow(900, 400, 900, 1.4)
    first, *_ = said([from_walls(noise(900) * factor * 10 * MS)])
    factor[first.step + 20 :] *= 3
    notices = said([from_walls(noise(900) * factor * 10 * MS)])
    assert [notice.kind for notice in notices] == ["alarm", "alarm"]
    assert notices[1].step == first.step + 23


def test_what_is_said_live_is_what_the_logs_say() -> None:
    ranks = job(slow(1000, 400, 700), ranks=2, late=1)
    ranks.append(Steps(rank=3, columns=epochs(text=False, count=9).part(0, 1000).columns))
    dice = np.random.default_rng(3)
    live = JobDetector(Robust)
    for steps in ranks:
        live.add(steps.rank, [])
    told: list[Notice] = []
    rows = {steps.rank: steps.rows() for steps in ranks}
    while any(rows.values()):
        rank = int(dice.choice([one for one, left in rows.items() if left]))
        count = int(dice.integers(1, 60))
        live.add(rank, rows[rank][:count])
        rows[rank] = rows[rank][count:]
        told += live.notices()
    told += live.notices(end=True)
    assert told == replay(ranks, Robust)
    assert {notice.kind for notice in told} >= {"alarm", "recovered", "straggler"}


def locked(*, about: dict[str, object] | None = None, **columns: object) -> float:
    """What is named interpreter lock, ns a step, of steps of 10 ms that stand still for 8."""
    usual = {"cpu_ns": 2 * MS, "delay_ns": 0, "backward_ns": MS}
    each = {name: np.broadcast_to(value, 400) for name, value in (usual | columns).items()}  # type: ignore[call-overload]
    made = from_walls(np.full(400, 10 * MS), **each)
    parts = split(Steps(rank=0, columns=made.columns, about=about or {}))
    assert parts is not None
    return parts[Spent.INTERPRETER_LOCK]


def test_a_thread_that_holds_the_interpreter_is_named() -> None:
    assert locked(process_cpu_ns=10 * MS, voluntary=4) == pytest.approx(7 * MS)


def test_threads_of_collectives_that_nobody_timed_are_not_called_the_interpreter_lock() -> None:
    assert locked(process_cpu_ns=10 * MS, voluntary=4, about={"world": 2}) == 0


def test_one_long_wait_is_not_for_the_interpreter() -> None:
    assert locked(process_cpu_ns=10 * MS, voluntary=0) == 0


def test_a_single_thread_is_not_kept_from_the_interpreter_by_itself() -> None:
    # Each 25th record has what the process computed since the record that had it before: the first is of steps before.
    whole = np.full(400, NULL)
    whole[20::25] = 25 * 2 * MS
    whole[20] = 500 * MS
    assert locked(process_cpu_ns=whole) == pytest.approx(0, abs=0.01 * MS)
