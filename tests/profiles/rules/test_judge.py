"""The verdict, the order of findings, and what must not change any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profiles.rules.given import Given
from tests.profiles.rules.test_code_rules import ROW

from hermes.base.say import say
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.host_measures import HostSide
from hermes.model.measures import HostStall, PeerWait, StepSplit
from hermes.model.memory_measures import Recompute
from hermes.model.path_measures import PathPart, StepPath
from hermes.model.report import Verdict
from hermes.model.service_measures import Requests
from hermes.profiles.rules.judge import Grounds, find_all, judge

Make = Callable[..., Given]
Split = Callable[..., StepSplit]
Wait = Callable[..., PeerWait]
MakeHeld = Callable[..., HostStall]

# Fixtures here only hold functions: they carry nothing from one example to the next.
PROPERTY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
PART = st.integers(0, 250)
STEPS = st.lists(st.tuples(st.integers(0, 2), PART, PART, PART), min_size=1, max_size=9)


def judged_of(splits: Sequence[StepSplit], findings: tuple[Loss, ...] = ()) -> Verdict:
    return judge(Grounds(splits=tuple(splits), problems=findings))


def said(findings: tuple[Loss, ...]) -> list[tuple[str, float, int, int, tuple[int, ...], tuple[str, ...]]]:
    """What a user acts on, in the order of the report."""
    return [(one.code, one.share, one.cost_ns, one.gain.high_ns, one.ranks, one.blames) for one in findings]


def job(steps: list[tuple[int, int, int, int]], split: Split) -> list[StepSplit]:
    return [
        split(rank, number, exposed=exposed, copy=copy, free=free, window=1_000 + number, host=1_000)
        for number, (rank, exposed, copy, free) in enumerate(steps)
    ]


@pytest.mark.parametrize(
    ("part", "bound"), [("exposed", "communication"), ("free", "host"), ("copy", "copy"), (None, "compute")]
)
def test_the_largest_part_of_the_step_bounds_it(part: str | None, bound: str, split: Split) -> None:
    judged = judged_of([split(3, 7, **({part: 900} if part else {}))])
    assert (judged.bound, judged.rank, judged.step) == (bound, 3, 7)


def test_the_slowest_rank_is_judged(split: Split) -> None:
    judged = judged_of([split(0, free=900), split(1, window=2_000, exposed=1_900)])
    assert (judged.bound, judged.rank) == ("communication", 1)


def blind(window: int = 1_000, rank: int = 0) -> StepSplit:
    return StepSplit(
        rank=rank, step=4, window_kind="host", start_ns=0, window_ns=window, compute_ns=None, comm_ns=None,
        exposed_comm_ns=None, overlapped_comm_ns=None, copy_ns=None, copy_exposed_ns=None, free_ns=None,
        preparing_ns=None, host_ns=window,
    )  # fmt: skip


def test_without_a_step_nothing_is_claimed() -> None:
    judged = judged_of(())
    assert (judged.bound, judged.rank) == ("unknown", None)
    assert "cannot be said" in say(judged.message)


def test_without_device_tasks_the_longest_step_of_the_host_is_judged_and_it_is_said() -> None:
    judged = judged_of([blind(), blind(9_000_000, rank=2)])
    assert (judged.bound, judged.rank, judged.step) == ("host", 2, 4)
    assert say(judged.message).startswith("Step 9.00 ms: the host works all of it")
    assert "no device task was recorded" in say(judged.message)


def test_a_step_without_a_loss_is_said_to_be_spent_in_the_function_that_takes_most_of_it() -> None:
    line = replace(ROW, rank=2, place="train.py:36", function="distances", own_ns=4_000_000, backward_ns=3_000_000)
    small = replace(line, function="small", own_ns=1_000_000, backward_ns=0)
    waits = replace(line, function="average", own_ns=9_000_000, wait_ns=8_000_000, backward_ns=0)
    grounds = Grounds(splits=(blind(10_000_000, rank=2),), lines=(small, waits, line))
    assert say(judge(grounds).message).startswith(
        "Step 10.0 ms: 70% is train.py:36 `distances` with the operators it calls; "
    )
    assert "the host works all of it" in say(judge(replace(grounds, lines=(small,))).message)


def test_gains_of_a_step_without_its_profiler_are_shares_of_that(measures: Make) -> None:
    row = Recompute(rank=0, step=4, ops=1, host_ns=2_000_000, device_ns=None, compute_ns=None)
    given_ = measures([blind(10_000_000)], host=HostSide(recompute=(row,)))
    problems = tuple(find_all(given_))
    sentence = say(judge(Grounds(splits=given_.splits, problems=problems, unprofiled_ns=8_000_000)).message)
    assert sentence.startswith("Step 8.00 ms (10.0 ms as captured): 25% is lost to recomputation")


def test_a_small_loss_stands_behind_what_bounds_the_step(measures: Make, split: Split, wait: Wait) -> None:
    given_ = measures([split(exposed=800)], waits=[wait(0, 5, 700)])
    (large,) = find_all(given_)[:1]
    small = replace(large, gain=replace(large.gain, low_ns=10, high_ns=400, basis="replayed"))
    sentence = say(judged_of(given_.splits, (small,)).message)
    assert "80% is communication that nothing hides; 1% is waiting for rank 5" in sentence


def test_a_range_whose_least_is_much_is_said_as_one(measures: Make) -> None:
    row = Recompute(rank=0, step=4, ops=1, host_ns=6_000_000, device_ns=None, compute_ns=None)
    given_ = measures([blind(10_000_000)], host=HostSide(recompute=(row,)))
    (first, *_) = find_all(given_)
    ranged = replace(first, gain=replace(first.gain, low_ns=2_000_000, high_ns=6_000_000, basis="bound"))
    sentence = say(judge(Grounds(splits=given_.splits, problems=(ranged,))).message)
    assert sentence.startswith("Step 10.0 ms: 20% to 60% is lost to recomputation")


def test_the_sentence_names_the_rank_that_others_wait_for(measures: Make, split: Split, wait: Wait) -> None:
    given_ = measures([split(exposed=800)], waits=[wait(0, 5, 700)])
    assert "70% is waiting for rank 5" in say(judged_of(given_.splits, find_all(given_)).message)


def test_a_step_without_findings_is_said_to_have_none(split: Split) -> None:
    assert "no rule found a loss" in say(judged_of([split()]).message)


def path(*parts: tuple[str, str, int]) -> StepPath:
    return StepPath(
        rank=0, step=0, stretch="window", across=True, start_ns=0, window_ns=1_000,
        parts=tuple(PathPart(rank=0, component=what, reason=why, ns=ns) for what, why, ns in parts),
        stretches=(), near_critical=(),
    )  # fmt: skip


def test_the_wait_for_a_rank_that_was_not_profiled_is_the_answer(split: Split) -> None:
    grounds = Grounds(
        splits=(split(0, window=124_000_000, exposed=100_000_000),),
        path=replace(path(("wait", "rank 5", 95_480_000)), window_ns=124_000_000), expected=8,
    )  # fmt: skip
    assert (
        say(judge(grounds).message) == "Step 124 ms: 77% waits for rank 5, which was not profiled (from 1 of 8 ranks)"
    )


def test_a_wait_for_a_rank_that_was_profiled_is_not_called_unknown(split: Split) -> None:
    grounds = Grounds(splits=(split(0, exposed=800), split(5)), path=path(("wait", "rank 5", 700)))
    assert "not profiled" not in say(judge(grounds).message)


def test_communication_that_may_be_waiting_is_not_called_a_loss_to_anything(measures: Make, split: Split) -> None:
    given_ = measures([split(exposed=700, free=200)])
    # In the order of the plan: what it is must be known before anything else is worth doing.
    exposed, *others = sorted(find_all(given_), key=lambda one: one.code != "COM001")
    said = say(judged_of(given_.splits, (exposed, *others)).message)
    assert "70% is communication that nothing hides, and how much of it is waiting was not recorded" in said


def test_a_finding_shows_on_each_rank_that_it_concerns(measures: Make, split: Split, wait: Wait) -> None:
    given_ = measures(
        [split(0, exposed=800), split(1, exposed=800), split(5)], waits=[wait(0, 5, 700), wait(1, 5, 600)]
    )
    found = next(one for one in find_all(given_) if one.code == "COM002")
    # Those that wait where they wait longest, and the rank that they wait for in the same step.
    assert [(at.rank, at.whole) for at in found.moments] == [(0, False), (1, False), (5, True)]
    assert found.at == found.moments[0] == found.evidence[0].at


def test_a_finding_of_whole_steps_shows_in_the_same_step_of_every_rank(measures: Make, split: Split) -> None:
    windows = {(0, 3): 1_000, (0, 4): 1_500, (0, 5): 1_200, (1, 3): 1_001, (1, 4): 1_002, (1, 5): 1_003}
    splits = [
        replace(split(rank, step, window=window, free=300), start_ns=10_000 * step + rank)
        for (rank, step), window in windows.items()
    ]
    found = next(one for one in find_all(measures(splits)) if one.code == "CPU001")
    first, second = found.moments
    assert {first.rank, second.rank} == {0, 1}
    assert first.start_ns // 10_000 == second.start_ns // 10_000


def test_a_short_wait_is_not_the_answer(split: Split) -> None:
    grounds = Grounds(splits=(split(0),), path=path(("wait", "rank 5", 40)), noise_ns=10)
    assert "no loss above the noise" in say(judge(grounds).message)


def test_a_bound_is_called_one(measures: Make, split: Split) -> None:
    given_ = measures([split(0, free=300)])
    assert "up to 30% is lost to" in say(judged_of(given_.splits, find_all(given_)).message)


def test_where_little_is_lost_it_comes_after_what_the_device_does(measures: Make, split: Split, wait: Wait) -> None:
    given_ = measures([split(exposed=90)], waits=[wait(0, 5, 90)])
    said = say(judged_of(given_.splits, find_all(given_)).message)
    assert said == "Step 1.00 us: the device computes for 91% of it; up to 9% is waiting for rank 5"


def test_findings_come_by_the_most_they_promise(measures: Make, split: Split, wait: Wait) -> None:
    found = find_all(measures([split(exposed=300, free=200, copy=100)], waits=[wait(0, 5, 250)]))
    assert [one.code for one in found] == ["COM002", "CPU001", "MEM001", "COM001"]


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
    held: MakeHeld,
) -> None:
    splits = job(steps, split)
    ranks = sorted({one.rank for one in splits})
    count = {rank: sum(one.rank == rank for one in splits) for rank in ranks}

    def times(number: int) -> Given:
        return measures(
            splits * number,
            waits=[
                wait(rank, 7, wait_ns, total=wait_ns * count[rank] * number, waits=count[rank] * number)
                for rank in ranks
            ],
            held=[held("read back", item * count[rank] * number, rank=rank) for rank in ranks]
            + [held("compilation", compile_ns * count[rank] * number, rank=rank) for rank in ranks],
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
    shuffled = measures(data.draw(st.permutations(splits)), waits=data.draw(st.permutations(waits)))
    first, second = measures(splits, waits=waits), shuffled
    assert said(find_all(first)) == said(find_all(second))
    assert judged_of(first.splits, find_all(first)) == judged_of(second.splits, find_all(second))


def test_equal_waits_blame_the_same_rank_in_any_order(measures: Make, split: Split, wait: Wait) -> None:
    waits = [wait(0, 5, 300), wait(0, 4, 300)]
    first, second = (find_all(measures([split()], waits=given_)) for given_ in (waits, waits[::-1]))
    assert said(first) == said(second)


@PROPERTY
@given(steps=STEPS)
def test_renamed_inputs_change_nothing_but_the_places(
    steps: list[tuple[int, int, int, int]], measures: Make, split: Split
) -> None:
    one = measures(job(steps, split))
    other = replace(one, inputs={rank: f"/elsewhere/renamed-{rank}" for rank in one.inputs})
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


def test_the_verdict_names_what_an_untrusted_rule_sees_where_it_counts_the_mistake_itself(split: Split) -> None:
    one = split(0, 1)
    untrusted = Loss(
        message="t", ranks=(0,), blames=(), cost_ns=one.window_ns // 2, share=0.5,
        gain=Gain(low_ns=0, high_ns=one.window_ns // 2, method="m"), confidence=0.5, evidence=(), actions=(),
        fault=Fault.PADDING, lines=("train.py:3 `f`",), state="preview", direct=True,
    )  # fmt: skip
    said = say(judge(Grounds(splits=(one,), untrusted=(untrusted,))).message)
    assert "a rule in preview sees padding at train.py:3 `f`: up to 50%" in said
    for quiet in (replace(untrusted, direct=False), replace(untrusted, gain=Gain(low_ns=0, high_ns=1, method="m"))):
        assert "preview" not in say(judge(Grounds(splits=(one,), untrusted=(quiet,))).message)


def test_what_gives_little_stands_behind_the_function_that_takes_much(split: Split) -> None:
    one = replace(split(0, 1, host=1_000), compute_ns=None, free_ns=None)
    little = Loss(
        message="t", ranks=(0,), blames=(), cost_ns=50, share=0.05, gain=Gain(low_ns=0, high_ns=50, method="m"),
        confidence=0.5, evidence=(), actions=(), fault=Fault.CASTS, lines=("train.py:3 `f`",),
    )  # fmt: skip
    row = replace(ROW, own_ns=one.window_ns * 9 // 10, operator_ns=one.window_ns * 9 // 10)
    found = say(judge(Grounds(splits=(one,), problems=(little,), lines=(row,))).message)
    assert "90% is train.py:24 `features` with the operators it calls; " in found
    assert found.index("90% is") < found.index("is lost to casts")
    assert "with the operators" not in say(judge(Grounds(splits=(one,), problems=(little,))).message)


def test_of_a_service_alone_the_verdict_says_where_its_requests_spend_their_time() -> None:
    base = dict.fromkeys(field.name for field in fields(Requests))
    row = Requests(**base | {"rank": 0, "requests": 40, "took_ns": 2_000_000_000, "first_token_ns": 500_000_000})  # type: ignore[arg-type]
    queued, quick = replace(row, queue_share=0.6), replace(row, queue_share=0.1)
    assert say(judge(Grounds(splits=(), requests=(queued,))).message).endswith("60% of their time is waiting in queues")
    assert say(judge(Grounds(splits=(), requests=(quick,))).message) == (
        "Requests take 2.00 s in the median: 25% until the first token, 10% of their time in queues"
    )
    assert "cannot be said" in say(judge(Grounds(splits=())).message)
