"""The order of findings, and what must not change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.model.finding import Loss
from hermes.model.job import JobMeasures
from hermes.model.leaf_time import LeafTime
from hermes.model.step_measures import PeerWait, StepSplit
from hermes.profiles.rules.run_rules import find_all

Make = Callable[..., JobMeasures]
Split = Callable[..., StepSplit]
Wait = Callable[..., PeerWait]
MakeIdle = Callable[..., list[LeafTime]]

# Fixtures here only hold functions: they carry nothing from one example to the next.
PROPERTY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
PART = st.integers(0, 250)
STEPS = st.lists(st.tuples(st.integers(0, 2), PART, PART, PART), min_size=1, max_size=9)


def said(findings: tuple[Loss, ...]) -> list[tuple[str, float, int, int, tuple[int, ...], tuple[str, ...]]]:
    """What a user acts on, in the order of the report."""
    return [(one.code, one.share, one.cost_ns, one.gain.high_ns, one.ranks, one.blames) for one in findings]


def job(steps: list[tuple[int, int, int, int]], split: Split) -> list[StepSplit]:
    return [
        split(rank, number, exposed=exposed, copy=copy, free=free, window=1_000 + number, host=1_000)
        for number, (rank, exposed, copy, free) in enumerate(steps)
    ]


def test_a_finding_shows_on_each_rank_that_it_concerns(measures: Make, split: Split, wait: Wait) -> None:
    given_ = measures([split(0, exposed=800), split(1, exposed=800), split(5)], wait(0, 5, 700), wait(1, 5, 600))
    found = next(one for one in find_all(given_) if one.code == "COM002")
    # Those that wait where they wait longest, and the rank that they wait for in the same step.
    assert [(at.rank, at.whole) for at in found.moments] == [(0, False), (1, False), (5, True)]
    assert found.at == found.moments[0] == found.evidence[0].at


def test_a_finding_of_whole_steps_shows_in_the_same_step_of_every_rank(measures: Make, split: Split) -> None:
    windows = {(0, 3): 1_000, (0, 4): 1_500, (0, 5): 1_200, (1, 3): 1_001, (1, 4): 1_002, (1, 5): 1_003}
    splits = [
        replace(split(rank, step, window=window, exposed=300), start_ns=10_000 * step + rank)
        for (rank, step), window in windows.items()
    ]
    found = next(one for one in find_all(measures(splits)) if one.code == "COM001")
    first, second = found.moments
    assert {first.rank, second.rank} == {0, 1}
    assert first.start_ns // 10_000 == second.start_ns // 10_000


def test_findings_come_by_the_most_they_promise(measures: Make, split: Split, wait: Wait) -> None:
    found = find_all(measures([split(exposed=300, free=200, copy=100)], wait(0, 5, 250)))
    assert [one.code for one in found] == ["COM002", "MEM001", "COM001"]


def test_what_is_missing_lowers_every_confidence(measures: Make, split: Split) -> None:
    whole, partial = (find_all(measures([split(exposed=300, free=200)], certainty=value))[0] for value in (1.0, 0.7))
    assert 0 < partial.confidence < whole.confidence <= 1


@PROPERTY
@given(steps=STEPS, item=st.integers(0, 400), compile_ns=st.integers(0, 400), wait_ns=st.integers(0, 90))
def test_the_same_steps_132_times_change_no_finding(
    steps: list[tuple[int, int, int, int]],
    item: int,
    compile_ns: int,
    wait_ns: int,
    measures: Make,
    split: Split,
    wait: Wait,
    idle: MakeIdle,
) -> None:
    splits = job(steps, split)
    ranks = sorted({one.rank for one in splits})
    count = {rank: sum(one.rank == rank for one in splits) for rank in ranks}

    def times(number: int) -> JobMeasures:
        return measures(
            splits * number,
            *[
                wait(rank, 7, wait_ns, total=wait_ns * count[rank] * number, waits=count[rank] * number)
                for rank in ranks
            ],
            *[row for rank in ranks for row in idle(rank, synchronisation=item, compiling=compile_ns)],
        )

    assert said(find_all(times(132))) == said(find_all(times(1)))


@PROPERTY
@given(data=st.data(), steps=STEPS, waiting=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), max_size=4))
def test_the_order_of_ranks_and_steps_changes_no_finding(
    data: st.DataObject,
    steps: list[tuple[int, int, int, int]],
    waiting: list[tuple[int, int]],
    measures: Make,
    split: Split,
    wait: Wait,
) -> None:
    splits = job(steps, split)
    waits = [wait(rank, 4 + place, ns) for place, (rank, ns) in enumerate(waiting)]
    shuffled = measures(data.draw(st.permutations(splits)), *data.draw(st.permutations(waits)))
    first, second = measures(splits, *waits), shuffled
    assert said(find_all(first)) == said(find_all(second))


def test_equal_waits_blame_the_same_rank_in_any_order(measures: Make, split: Split, wait: Wait) -> None:
    waits = [wait(0, 5, 300), wait(0, 4, 300)]
    first, second = (find_all(measures([split()], *given_)) for given_ in (waits, waits[::-1]))
    assert said(first) == said(second)


@PROPERTY
@given(steps=STEPS)
def test_renamed_inputs_change_nothing_but_the_places(
    steps: list[tuple[int, int, int, int]], measures: Make, split: Split
) -> None:
    one = measures(job(steps, split))
    renamed = {rank: f"/elsewhere/renamed-{rank}" for rank in one.job.inputs}
    other = JobMeasures(replace(one.job, inputs=renamed))
    assert said(find_all(one)) == said(find_all(other))


@PROPERTY
@given(steps=STEPS, factor=st.integers(2, 10**6))
def test_a_slower_clock_changes_no_share(
    steps: list[tuple[int, int, int, int]], factor: int, measures: Make, split: Split
) -> None:
    splits = job(steps, split)
    slower = [
        split(
            one.rank, one.step, window=one.window_ns * factor, exposed=(one.exposed_comm_ns or 0) * factor,
            copy=(one.copy_exposed_ns or 0) * factor, free=(one.free_ns or 0) * factor,
            host=(one.host_ns or 0) * factor,
        )
        for one in splits
    ]  # fmt: skip
    first, second = find_all(measures(splits)), find_all(measures(slower))
    assert [(one.code, one.cost_ns * factor, one.ranks) for one in first] == [
        (one.code, one.cost_ns, one.ranks) for one in second
    ]
    assert [one.share for one in first] == pytest.approx([one.share for one in second])


@PROPERTY
@given(steps=STEPS)
def test_no_finding_promises_more_than_it_costs(
    steps: list[tuple[int, int, int, int]], measures: Make, split: Split
) -> None:
    for finding in find_all(measures(job(steps, split))):
        assert 0 <= finding.gain.low_ns <= finding.gain.high_ns <= finding.cost_ns
        assert 0 < finding.confidence <= 1
        assert 0 < finding.share <= 1
