"""What changed before an alarm: the parts that grew, the work, and what may explain them."""

from __future__ import annotations

import numpy as np
import pytest

from hermes.base.say import say
from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.causes import Spent
from hermes.jobs.detect.changed_step_parts import LEAVES, ChangedSteps, sentence, what_changed
from hermes.jobs.detect.explain_alarm import changed_since
from hermes.jobs.detect.read_step_logs import Steps, from_walls

MS = 1_000_000
BEFORE = {"cpu_ns": 8 * MS, "delay_ns": 0, "data_ns": MS, "data_cpu_ns": 0, "gc_ns": 0, "save_ns": 0}


def steps(wall: int, count: int = 100, **each: int) -> Steps:
    return from_walls(np.full(count, wall), **{name: np.full(count, value) for name, value in each.items()})


def alarm(since: int = 40) -> Alarm:
    return Alarm(rank=0, kind=AlarmKind.SHIFT, step=60, since=since, before_ns=10 * MS, after_ns=30 * MS, score=9.0)


def changed(**each: int) -> ChangedSteps:
    found = what_changed(steps(10 * MS, **BEFORE), steps(30 * MS, **{**BEFORE, **each}), alarm())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("part", "each"),
    [
        (Spent.DATA_WAIT, {"data_ns": 21 * MS}),
        (Spent.GARBAGE_COLLECTION, {"gc_ns": 20 * MS, "cpu_ns": 28 * MS}),
        (Spent.CPU_CONTENTION, {"delay_ns": 20 * MS}),
        (Spent.HOST_COMPUTE, {"cpu_ns": 28 * MS}),
        (Spent.BLOCKED, {}),
    ],
)
def test_the_part_that_grew_comes_first(part: Spent, each: dict[str, int]) -> None:
    found = changed(**each)
    assert found.part is part
    assert say(sentence(found, None)).startswith("Since step 40 a step takes 30.0 ms, 10.0 ms before: ")


def test_collectives_and_page_faults_are_parts_of_their_own_where_they_are_counted() -> None:
    before, after = steps(10 * MS, **BEFORE, comm_ns=MS), steps(30 * MS, **BEFORE, comm_ns=21 * MS)
    found = what_changed(before, after, alarm())
    assert found is not None
    assert found.part is Spent.COLLECTIVES
    before = steps(10 * MS, **BEFORE, minor_faults=10)
    found = what_changed(before, steps(30 * MS, **{**BEFORE, "cpu_ns": 28 * MS}, minor_faults=30_000), alarm())
    assert found is not None
    assert found.part is Spent.PAGE_FAULTS


def test_who_computes_more_on_a_busy_host_waits_more_for_a_core_and_that_is_no_contention() -> None:
    before = {**BEFORE, "cpu_ns": 10 * MS, "delay_ns": 20 * MS}
    after = {**BEFORE, "cpu_ns": 60 * MS, "delay_ns": 130 * MS}
    found = what_changed(steps(31 * MS, **before), steps(191 * MS, **after), alarm())
    assert found is not None
    assert found.part is Spent.HOST_COMPUTE
    after = {**BEFORE, "cpu_ns": 12 * MS, "delay_ns": 130 * MS}
    found = what_changed(steps(31 * MS, **before), steps(143 * MS, **after), alarm())
    assert found is not None
    assert found.part is Spent.CPU_CONTENTION


def test_single_slow_steps_are_held_against_the_others() -> None:
    walls, data = np.full(100, 10 * MS), np.full(100, MS)
    walls[9::10], data[9::10] = 40 * MS, 31 * MS
    of = from_walls(walls, data_ns=data, data_cpu_ns=np.zeros(100, int), cpu_ns=np.full(100, 8 * MS))
    turns = Alarm(rank=0, kind=AlarmKind.TURNS, step=99, since=0, before_ns=10 * MS, after_ns=13 * MS, score=9.0)
    found = changed_since(of, turns)
    assert found is not None
    assert found.part is Spent.DATA_WAIT
    assert say(sentence(found, None)).startswith(
        "Since step 0 single steps take 40.0 ms, the other steps 10.0 ms: waiting"
    )


def test_longer_sequences_are_told_as_more_tokens() -> None:
    before = steps(10 * MS, **BEFORE, tokens=1024)
    found = what_changed(before, steps(30 * MS, **{**BEFORE, "cpu_ns": 28 * MS}, tokens=2048), alarm())
    assert found is not None
    assert say(sentence(found, None)).endswith("; tokens in a step 1,024 → 2,048")


def test_where_no_part_is_counted_nothing_is_made_up() -> None:
    found = what_changed(steps(10 * MS), steps(30 * MS), alarm())
    assert found is not None
    assert (found.part, found.grown) == (None, ())
    assert "no measured part of a step grew" in say(sentence(found, None))


def test_the_steps_before_an_alarm_are_held_against_those_since_it_began() -> None:
    walls = np.concatenate([np.full(40, 10 * MS), np.full(21, 30 * MS)])
    cpu = walls - 2 * MS
    found = changed_since(from_walls(walls, cpu_ns=cpu, delay_ns=np.zeros(61, int)), alarm())
    assert found is not None
    assert (found.before_ns, found.after_ns, found.part) == (10 * MS, 30 * MS, Spent.HOST_COMPUTE)


def test_each_part_that_is_told_has_leaves_that_may_explain_it() -> None:
    assert {part for part in Spent if part is not Spent.PERIODIC} == set(LEAVES)
