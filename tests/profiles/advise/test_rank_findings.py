"""Causes come before what they cause, no loss is counted twice, and noise is no problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.path_measures import PathPart, StepPath
from hermes.model.plan import NoiseFloor
from hermes.model.step_measures import StepSplit
from hermes.profiles.advise.noise import noise_floor
from hermes.profiles.advise.rank_findings import Replay, rank, weight

Make = Callable[..., Loss]
Replaying = Callable[[Mapping[str, int]], Replay]


def codes(found: tuple[Loss, ...]) -> list[str]:
    return [one.code for one in found]


def test_a_part_comes_before_the_broader_finding(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    broad, part = finding("CPU004", low=300, high=300), finding("ENV005", low=200, high=200)
    found = rank([broad, part], replaying({"CPU004": 300, "ENV005": 200}), floor)
    assert codes(found.findings) == ["ENV005", "CPU004"]


def test_hiding_communication_counts_for_what_such_cures_gave(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    """Three quarters of what its replay says, in the median: a surer cure of a little less comes first."""
    hidden = replace(finding("COM001", low=400, high=400, layer="communication"), replay=("comm:overlap",))
    for low, order in ((310, ["CPU002", "COM001"]), (290, ["COM001", "CPU002"])):
        other = replace(finding("CPU002", low=low, high=low), confidence=hidden.confidence)
        assert codes(rank([hidden, other], replaying({}), floor).findings) == order


def test_what_chance_may_have_made_is_told_as_noise_whatever_it_costs(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    lucky, sure = replace(finding("COM002", low=400, high=400), by_chance=True), finding("CPU002", low=200, high=200)
    found = rank([lucky, sure], replaying({"COM002": 400, "CPU002": 200}), floor)
    assert (codes(found.findings), codes(found.minor)) == (["CPU002"], ["COM002"])


def test_a_part_of_a_part_is_one_of_the_whole(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    waits = finding("COM001", low=400, high=400, layer="communication")
    stages = finding("PAR001", low=200, high=400, ranks=(1,))
    found = rank([waits, stages], replaying({"COM001": 400, "PAR001": 200}), floor)
    assert codes(found.findings) == ["PAR001", "COM001"]


def test_a_broader_finding_claims_what_a_replay_gives_beyond_its_parts(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    broad, part = finding("CPU004", low=300, high=320), finding("ENV005", low=200, high=200)
    _, left = rank([broad, part], replaying({"CPU004": 300, "ENV005": 200}), floor).findings
    assert (left.gain.low_ns, left.gain.high_ns, left.explained_by) == (100, 120, ("ENV005",))


def test_a_part_on_other_ranks_explains_nothing(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    broad = finding("CPU004", low=300, high=300, ranks=(0,))
    part = finding("ENV005", low=200, high=200, ranks=(3,))
    assert all(not one.explained_by for one in rank([broad, part], replaying({}), floor).findings)


def test_a_cause_on_another_rank_explains_exposed_communication(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    exposed = finding("COM001", low=300, high=300, ranks=(1, 2), layer="communication")
    stage = finding("PAR001", low=200, high=200, ranks=(0,), layer="parallelism")
    found = rank([exposed, stage], replaying({"COM001": 300, "PAR001": 200}), floor)
    assert codes(found.findings) == ["PAR001", "COM001"]


def test_the_cause_on_the_awaited_rank_explains_the_wait(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    wait = finding("COM002", low=500, high=500, ranks=(0, 1, 2), blames=["rank 5"], cause="straggler",
                   layer="communication")  # fmt: skip
    cause = finding("CPU002", low=480, high=490, ranks=(5,))
    found = rank([wait, cause], replaying({"COM002": 500, "CPU002": 480}), floor)
    assert codes(found.findings) == ["CPU002", "COM002"]
    assert found.findings[1].gain.low_ns == 20


def test_what_strikes_all_ranks_alike_makes_none_of_them_late(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    wait = finding("COM002", low=500, high=500, ranks=(0, 1), blames=["rank 5"], cause="straggler",
                   layer="communication")  # fmt: skip
    everywhere = finding("CPU002", low=480, high=490, ranks=(0, 1, 5))
    assert codes(rank([wait, everywhere], replaying({}), floor).findings) == ["COM002", "CPU002"]


def test_a_wait_that_is_explained_is_no_problem_of_its_own(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    wait = finding("COM002", low=500, high=500, ranks=(0, 1), blames=["rank 5"], cause="straggler",
                   layer="communication")  # fmt: skip
    cause = finding("CPU002", low=499, high=500, ranks=(5,))
    found = rank([wait, cause], replaying({"COM002": 500, "CPU002": 499}), floor)
    assert codes(found.problems) == ["CPU002"]
    assert codes(found.findings) == ["CPU002", "COM002"]


def test_what_is_explained_for_the_most_part_stands_behind_every_cause(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    broad, part = finding("CPU004", low=300, high=300), finding("ENV005", low=200, high=200)
    small = finding("CMP003", low=20, high=20)
    # A third of it is left, and would be more than the other cause.
    found = rank([broad, part, small], replaying({"CPU004": 300, "ENV005": 200}), floor)
    assert codes(found.findings) == ["ENV005", "CMP003", "CPU004"]


def test_what_is_left_for_the_most_part_keeps_its_place(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    broad, part = finding("CPU004", low=300, high=300), finding("ENV005", low=100, high=100)
    found = rank([broad, part, finding("CMP003", low=20, high=20)], replaying({"CPU004": 300, "ENV005": 100}), floor)
    assert codes(found.findings) == ["ENV005", "CPU004", "CMP003"]


def test_without_a_replay_a_wait_is_explained_by_what_takes_most_of_it(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    wait = replace(
        finding("COM002", low=400, high=400, ranks=(0,), blames=["rank 1"], cause="straggler", layer="communication"),
        replay=(),
    )
    wait = replace(wait, gain=replace(wait.gain, basis="replayed"))
    half, less = (finding("CPU002", low=ns, high=ns, ranks=(1,)) for ns in (wait.cost_ns // 2, wait.cost_ns // 2 - 1))
    assert codes(rank([wait, less], lambda _: None, floor).findings) == ["COM002", "CPU002"]
    found = rank([wait, half], lambda _: None, floor)
    assert [one.explained_by for one in found.findings if one.code == "COM002"] == [("CPU002",)]
    found = rank([wait, replace(half, assumed=True)], lambda _: None, floor)
    assert [one.explained_by for one in found.findings if one.code == "COM002"] == [()]


def test_a_wait_that_something_else_gives_back_is_explained_by_it(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    wait = finding("COM002", low=300, high=400, blames=["rank 1"], cause="straggler", layer="communication")
    stall = finding("COM008", low=310, high=320, layer="communication", confidence=0.5)
    same = replaying({"COM002": 300, "COM008": 310})
    assert codes(rank([wait, stall], same, floor).findings) == ["COM008", "COM002"]
    apart = replaying({"COM002": 300, "COM008": 310, "COM002+COM008": 600})
    assert codes(rank([wait, stall], apart, floor).findings) == ["COM002", "COM008"]


def hot(found: Loss, line: str) -> Loss:
    return replace(found, fault=Fault.HOT_FUNCTION, lines=(line,))


def test_a_function_that_takes_long_claims_nothing_of_what_is_known_of_it(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    function = hot(finding("HOT001", high=400), "train.py:50 `main`")
    known = replace(finding("CPU006", low=300, high=380), lines=("train.py:52 `main`",))
    found = rank([function, known], replaying({"CPU006": 300}), floor)
    assert [(one.code, one.gain.high_ns, one.explained_by) for one in found.findings] == [
        ("CPU006", 380, ()),
        ("HOT001", 20, ("CPU006",)),
    ]
    elsewhere = replace(known, lines=("train.py:9 `other`",))
    assert rank([function, elsewhere], replaying({"CPU006": 300}), floor).findings[1].gain.high_ns == 400


def test_nothing_is_explained_by_what_costs_a_small_part_of_it(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    loading = replace(finding("IO001", low=600, high=600), fault=Fault.DATA_LOADING, lines=("train.py:50 `main`",))
    pause = replace(finding("CPU006", low=20, high=20), fault=Fault.GARBAGE_COLLECTION, lines=("train.py:50 `main`",))
    found = rank([loading, pause], replaying({"IO001": 600, "CPU006": 20}), floor)
    first = found.findings[0]
    assert (first.code, first.explained_by) == ("IO001", ())


def test_a_cause_that_is_assumed_does_not_stand_before_what_it_may_explain(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    broad = finding("COM001", low=300, high=400, layer="communication")
    guess = replace(finding("COM005", high=200, layer="communication", confidence=0.3), assumed=True)
    found = rank([broad, guess], replaying({"COM001": 300}), floor)
    assert codes(found.findings) == ["COM001", "COM005"]


def test_what_ends_the_job_comes_first_and_is_no_noise(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    leak = replace(finding("MEM004", low=0, high=0), endangers=True)
    found = rank([finding("CPU002", low=300, high=300), leak], replaying({}), floor)
    assert codes(found.problems) == ["MEM004", "CPU002"]


def test_less_than_the_noise_is_listed_apart(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    found = rank([finding("CPU002", high=4), finding("CPU003", high=5)], replaying({}), floor)
    assert (codes(found.findings), codes(found.minor)) == (["CPU003"], ["CPU002"])


def test_without_findings_there_is_nothing(replaying: Replaying, floor: NoiseFloor) -> None:
    assert rank([], replaying({}), floor).findings == ()


def test_half_of_a_bound_counts_against_a_replay(finding: Make) -> None:
    replayed, bound = finding("CPU002", low=60, high=60), finding("CPU003", high=100)
    assert weight(replayed) > weight(bound)


@given(confidence=st.floats(0.01, 1.0))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_no_confidence_decides_what_explains_what(
    confidence: float, finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    wait = finding("COM002", low=500, high=500, blames=["rank 5"], cause="straggler", layer="communication")
    cause = finding("CPU002", low=480, high=490, ranks=(5,), confidence=confidence)
    stall = finding("COM008", low=310, high=320, layer="communication", confidence=confidence)
    host = finding("CPU004", low=300, high=300)
    part = finding("ENV005", low=200, high=200, confidence=confidence)
    replay = replaying({"COM002": 500, "CPU002": 480, "COM008": 310, "CPU004": 300, "ENV005": 200})
    found = {one.code: one for one in rank([wait, cause, stall, host, part], replay, floor).findings}
    assert found["COM002"].explained_by
    assert "CPU002" in found["COM002"].explained_by
    assert (found["CPU004"].explained_by, found["CPU004"].gain.low_ns) == (("ENV005",), 100)


def test_doubt_lowers_a_finding(finding: Make, replaying: Replaying, floor: NoiseFloor) -> None:
    sure, unsure = finding("CPU002", low=60, high=60), finding("CPU003", low=80, high=80, confidence=0.5)
    assert codes(rank([unsure, sure], replaying({}), floor).findings) == ["CPU002", "CPU003"]


PARTS = (Fault.COMPILATION, Fault.FIRST_CALLS, Fault.SMALL_COLLECTIVES)
"""A part of neither, of dispatch, and of communication."""
GAINS = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(PARTS)), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data(), gains=GAINS)
def test_the_order_of_rules_changes_nothing_and_no_part_stands_behind_what_it_explains(
    data: st.DataObject, gains: list[tuple[int, Fault]], finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    broad = [finding("CPU004", low=300, high=300), finding("COM001", high=400, layer="communication")]
    parts = [finding(f"X{at}", low=low, high=low + 5, fault=fault) for at, (low, fault) in enumerate(gains)]
    replay = replaying({"CPU004": 300} | {f"X{at}": low for at, (low, _) in enumerate(gains)})
    found = rank([*broad, *parts], replay, floor)
    assert rank(data.draw(st.permutations([*broad, *parts])), replay, floor) == found
    for place, one in enumerate(found.findings):
        before = {other.code for other in found.findings[:place]}
        assert not one.explained_by or before & {*one.explained_by}
        assert 0 <= one.gain.low_ns <= one.gain.high_ns


def step(rank_: int, number: int, window: int) -> StepSplit:
    return StepSplit(
        rank=rank_, step=number, window_kind="device", start_ns=0, window_ns=window, compute_ns=window, comm_ns=0,
        exposed_comm_ns=0, overlapped_comm_ns=0, copy_ns=0, copy_exposed_ns=0, free_ns=0, preparing_ns=0, host_ns=0,
    )  # fmt: skip


def test_the_floor_is_the_spread_of_steps_and_one_slow_step_does_not_lift_it() -> None:
    even = [step(0, number, window) for number, window in enumerate((1_000, 1_010, 990, 1_000, 5_000))]
    found = noise_floor(even, ())
    # 1.4826 times 10, over the root of five steps, and the median is moved 1.2533 times as far as a mean.
    # The floor is half a percent of the mean step.
    assert (found.of, found.spread_ns, found.ns) == ("steps", 8, 9)


def test_of_one_step_the_ranks_tell_the_spread() -> None:
    found = noise_floor([step(rank_, 0, 1_000 + 100 * rank_) for rank_ in range(3)], ())
    assert (found.of, found.spread_ns) == ("ranks", 148)


def test_of_one_step_of_one_rank_the_spread_is_not_measured() -> None:
    found = noise_floor([step(0, 0, 1_000)], ())
    assert (found.spread_ns, found.ns, found.least_ns) == (None, 5, 5)


def test_what_the_path_cannot_explain_is_said_and_is_no_noise() -> None:
    parts = tuple(
        PathPart(rank=0, component=what, reason="", ns=ns) for what, ns in (("compute", 900), ("unexplained", 100))
    )
    path = StepPath(rank=0, step=0, across=True, start_ns=0, window_ns=1_000, parts=parts,
                    stretches=(), near_critical=())  # fmt: skip
    found = noise_floor([step(0, 0, 1_000)], (path,))
    assert (found.ns, found.unexplained_ns) == (5, 100)


def test_without_steps_there_is_no_floor() -> None:
    assert noise_floor((), ()).ns == 0


def test_longer_steps_are_explained_by_what_another_rule_says_of_their_cause_or_their_function(
    finding: Make, replaying: Replaying, floor: NoiseFloor
) -> None:
    long = replace(finding("HOT005", high=600), fault=Fault.CHECKPOINT_OR_LOGGING, lines=("train.py:50 `main`",))
    saving = replace(finding("IO006", high=500), layer="io", fault=Fault.CHECKPOINT_OR_LOGGING, lines=("log.py:3 `w`",))
    pause = replace(finding("CPU006", high=500), lines=("gc.py:1 `f`", "train.py:52 `main`"))
    assert all(not one.explained_by for one in rank([long, pause], replaying({}), floor).findings)
    for part, of_cause in ((saving, Fault.CHECKPOINT_OR_LOGGING), (pause, Fault.LONG_STEPS)):
        long = replace(long, fault=of_cause)
        found = rank([long, part], replaying({}), floor)
        assert [(one.code, one.explained_by) for one in found.findings] == [(part.code, ()), ("HOT005", (part.code,))]
        # A place to look that is explained is a finding, and asks for nothing to be done.
        assert codes(found.problems) == [part.code]
    elsewhere = replace(pause, lines=("gc.py:1 `f`",))
    assert all(not one.explained_by for one in rank([long, elsewhere], replaying({}), floor).findings)
