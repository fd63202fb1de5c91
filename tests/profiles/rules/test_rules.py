"""Each rule fires beyond its limit, stays silent at it, and blames the right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hermes.base.say import say
from hermes.model.comm_measures import SlowRank
from hermes.model.finding import Loss
from hermes.model.job import JobMeasures
from hermes.model.leaf_time import LeafTime
from hermes.model.step_measures import ExposedOp, PeerWait, StepSplit
from hermes.profiles.rules import ALL
from hermes.profiles.rules.communication import com001_exposed_communication as com001
from hermes.profiles.rules.communication.com002_straggler import in_collectives as com002
from hermes.profiles.rules.environment import env005_first_calls as env005
from hermes.profiles.rules.host import cpu002_recompilation as cpu002
from hermes.profiles.rules.host.cpu003_host_waits import reading_tensors_back as cpu003
from hermes.profiles.rules.memory.mem001_exposed_copies import any_exposed_copies as mem001
from hermes.profiles.rules.rule import Finder

Make = Callable[..., JobMeasures]
Split = Callable[..., StepSplit]
Wait = Callable[..., PeerWait]
MakeIdle = Callable[..., list[LeafTime]]
MakeHeld = Callable[..., LeafTime]


def found(rule: Finder, measures: JobMeasures) -> Loss:
    (finding,) = rule.find(measures)
    return finding


def silent(rule: Finder, measures: JobMeasures) -> bool:
    return not list(rule.find(measures))


# The two rules of a component ------------------------------------------------------------------------------------

COMPONENT = pytest.mark.parametrize(
    ("rule", "part", "limit"),
    [
        (com001.exposed_communication, "exposed", 20),
        (mem001.exposed_copies, "copy", 50),
    ],
    ids=["COM001", "MEM001"],
)


@COMPONENT
def test_a_component_beyond_its_limit_is_found_with_its_cost(
    rule: Finder, part: str, limit: int, measures: Make, split: Split
) -> None:
    finding = found(rule, measures([split(**{part: limit + 1})]))
    assert (finding.code, finding.cost_ns, finding.ranks) == (rule.code, limit + 1, (0,))
    assert finding.share == pytest.approx((limit + 1) / 1_000)
    assert finding.gain.high_ns == limit + 1


@COMPONENT
def test_a_component_at_its_limit_is_no_finding(
    rule: Finder, part: str, limit: int, measures: Make, split: Split
) -> None:
    assert silent(rule, measures([split(**{part: limit})]))


@COMPONENT
def test_all_ranks_beyond_the_limit_are_in_one_finding_of_the_worst(
    rule: Finder, part: str, limit: int, measures: Make, split: Split
) -> None:
    rows = [split(0, **{part: limit + 7}), split(1, **{part: limit}), split(2, **{part: limit + 9})]
    finding = found(rule, measures(rows))
    assert (finding.ranks, finding.cost_ns) == ((0, 2), limit + 9)
    assert "rank 2" in finding.evidence[0].where


@COMPONENT
def test_one_odd_step_of_many_is_no_finding(rule: Finder, part: str, limit: int, measures: Make, split: Split) -> None:
    rows = [split(step=0, window=5_000, **{part: 4_000}), *(split(step=number) for number in range(1, 6))]
    assert silent(rule, measures(rows))


@COMPONENT
def test_steps_that_were_not_measured_are_no_finding(rule: Finder, part: str, limit: int, measures: Make) -> None:
    blind = StepSplit(
        rank=0, step=0, window_kind="host", start_ns=0, window_ns=1_000, compute_ns=None, comm_ns=None,
        exposed_comm_ns=None,
        overlapped_comm_ns=None, copy_ns=None, copy_exposed_ns=None, free_ns=None, preparing_ns=None, host_ns=1_000,
    )  # fmt: skip
    assert silent(rule, measures([blind]))


def test_a_window_without_length_is_no_finding(measures: Make, split: Split) -> None:
    for rule in ALL:
        assert silent(rule, measures([split(window=0)]))


def test_no_measures_give_no_findings(measures: Make) -> None:
    for rule in ALL:
        assert silent(rule, measures([]))


def test_exposed_communication_names_the_operations_that_make_it(measures: Make, split: Split) -> None:
    by_op = {"all_gather": 40, "all_reduce": 160, "broadcast": 0}
    rows = [ExposedOp(rank=0, op=op, exposed_ns=ns) for op, ns in by_op.items()]
    steps = [split(step=0, exposed=100), split(step=1, exposed=100)]
    finding = found(com001.exposed_communication, measures(steps, *rows))
    told = [(part.what.identifier, part.what["op"], part.value) for part in finding.evidence[2:]]
    assert told == [("com001.operation", "all_reduce", 80.0), ("com001.operation", "all_gather", 20.0)]


def test_what_is_waiting_for_a_rank_cannot_be_hidden(measures: Make, split: Split, wait: Wait) -> None:
    finding = found(com001.exposed_communication, measures([split(exposed=300)], wait(0, 5, 250)))
    assert (finding.gain.low_ns, finding.gain.high_ns) == (0, 50)


def test_waits_that_exceed_the_exposed_time_leave_no_gain(measures: Make, split: Split, wait: Wait) -> None:
    assert found(com001.exposed_communication, measures([split(exposed=300)], wait(0, 5, 900))).gain.high_ns == 0


def test_only_compute_that_hides_nothing_yet_can_hide(measures: Make, split: Split, wait: Wait) -> None:
    # 900 of 1000 is exposed: the 100 of compute can hide 100 at most.
    assert found(com001.exposed_communication, measures([split(exposed=900)], wait(0, 5, 1))).gain.high_ns == 100


def test_exposed_time_of_unknown_waits_is_said_with_less_confidence(measures: Make, split: Split, wait: Wait) -> None:
    known = found(com001.exposed_communication, measures([split(exposed=300)], wait(0, 5, 1)))
    unknown = found(com001.exposed_communication, measures([split(exposed=300)]))
    assert (known.confidence, unknown.confidence) == (0.9, 0.5)
    assert (known.message["doubt"], unknown.message["doubt"].identifier) == (None, "com001.unrecorded")
    assert say(unknown.message) == (
        "30% of the step is exposed communication, with nothing computed beside it; "
        "the capture does not record how much of the communication is waiting for a rank"
    )
    assert say(unknown.message, "zh") == "步的 30% 为未被计算掩盖的通信；其中等待其他卡的部分没有记录"


# A slow rank -------------------------------------------------------------------------------------------------------


def test_the_rank_that_others_wait_for_is_blamed_though_not_collected(measures: Make, split: Split, wait: Wait) -> None:
    finding = found(
        com002.straggler,
        measures([split(0, exposed=400), split(1, exposed=400)], wait(0, 5, 300), wait(1, 5, 200)),
    )
    assert (finding.blames, finding.ranks, finding.cost_ns, finding.share) == (("rank 5",), (0, 1), 300, 0.3)
    assert "not collected" in say(finding.message)


def test_a_collected_slow_rank_is_not_called_missing(measures: Make, split: Split, wait: Wait) -> None:
    finding = found(
        com002.straggler,
        measures([split(0, exposed=400), split(1, exposed=400)], wait(0, 1, 300, collected=True)),
    )
    assert "not collected" not in say(finding.message)


def test_waits_up_to_the_limit_are_no_finding(measures: Make, split: Split, wait: Wait) -> None:
    assert silent(com002.straggler, measures([split(exposed=400)], wait(0, 5, 50)))


def test_waits_on_several_planes_at_once_are_not_added(measures: Make, split: Split, wait: Wait) -> None:
    assert silent(com002.straggler, measures([split(exposed=400)], wait(0, 5, 50, total=400, waits=8)))


def test_shorter_waits_beside_the_longest_blame_nobody_else(measures: Make, split: Split, wait: Wait) -> None:
    finding = found(com002.straggler, measures([split(exposed=400)], wait(0, 5, 300), wait(0, 4, 290), wait(0, 3, 100)))
    assert finding.blames == ("rank 5",)


@pytest.mark.parametrize(
    ("often", "noise", "by_chance"), [(1.0, 0.01, True), (1.0, 0.001, False), (0.001, 0.5, False), (1.0, None, False)]
)
def test_a_rank_that_is_last_by_chance_alone_is_told_as_noise(
    often: float, noise: float | None, by_chance: bool, measures: Make, split: Split, wait: Wait
) -> None:
    late = SlowRank(
        rank=1, collected=True, operations=8, last=3, blocks=4, blocks_last=2, held_ns=300, median_lead_ns=100,
        own_wait_ns=0, error_ns=0, p_value=often, noise_p_value=noise,
    )  # fmt: skip
    given = measures([split(0, exposed=400), split(1, exposed=400)], wait(0, 1, 300, collected=True), late)
    assert found(com002.straggler, given).by_chance is by_chance


def test_a_rank_that_was_not_collected_computes_on_what_the_others_do(measures: Make, split: Split, wait: Wait) -> None:
    assert not found(com002.straggler, measures([split(0, exposed=400)], wait(0, 5, 300))).by_chance


def test_two_slow_ranks_are_two_findings(measures: Make, split: Split, wait: Wait) -> None:
    waits = [wait(0, 5, 300), wait(1, 7, 200)]
    assert [
        one.blames for one in com002.straggler.find(measures([split(0, exposed=400), split(1, exposed=400)], *waits))
    ] == [
        ("rank 5",),
        ("rank 7",),
    ]


def test_of_a_wait_that_compute_hides_only_the_exposed_part_counts(measures: Make, split: Split, wait: Wait) -> None:
    assert found(com002.straggler, measures([split(exposed=120)], wait(0, 5, 300))).cost_ns == 120
    assert silent(com002.straggler, measures([split(exposed=0)], wait(0, 5, 300)))


def test_waits_that_do_not_overlap_are_added(measures: Make, split: Split, wait: Wait) -> None:
    waits = [wait(0, 1, 50, total=300, waits=6, collected=True, disjoint=True)]
    assert found(com002.straggler, measures([split(exposed=400)], *waits)).cost_ns == 300


# Calls on the host -------------------------------------------------------------------------------------------------


def test_compilation_is_found_by_the_idle_time_it_leaves(measures: Make, split: Split, idle: MakeIdle) -> None:
    finding = found(cpu002.recompilation, measures([split()], *idle(compiling=96)))
    assert (finding.cost_ns, finding.share) == (96, 0.096)


def test_a_little_compilation_is_no_finding(measures: Make, split: Split, idle: MakeIdle) -> None:
    assert silent(cpu002.recompilation, measures([split()], *idle(compiling=10)))


def test_other_idle_leaves_are_no_compilation(measures: Make, split: Split, idle: MakeIdle) -> None:
    assert silent(cpu002.recompilation, measures([split()], *idle(synchronisation=900)))


def test_idle_time_is_told_of_the_worst_rank(measures: Make, split: Split, idle: MakeIdle) -> None:
    rows = [split(rank, step) for rank in (0, 1) for step in range(5)]
    finding = found(cpu002.recompilation, measures(rows, *idle(0, compiling=100), *idle(1, compiling=200)))
    assert (finding.cost_ns, finding.ranks) == (200, (0, 1))


def test_reading_a_tensor_back_is_found(measures: Make, split: Split, held: MakeHeld) -> None:
    finding = found(cpu003.tensor_to_host, measures([split()], held("aten::item", 320)))
    assert (finding.cost_ns, finding.share, finding.gain.high_ns) == (320, 0.32, 320)


def test_reading_back_up_to_the_limit_is_no_finding(measures: Make, split: Split, held: MakeHeld) -> None:
    assert silent(cpu003.tensor_to_host, measures([split()], held("aten::item", 20)))


def test_calls_on_a_rank_without_a_measured_step_have_no_share(measures: Make, split: Split, held: MakeHeld) -> None:
    assert silent(cpu003.tensor_to_host, measures([split()], held("aten::item", 500, rank=1)))


def test_first_calls_are_named_by_what_takes_most(measures: Make, split: Split, idle: MakeIdle) -> None:
    (row,) = idle(first_call=400)
    rows = [replace(row, what="cudaFree", total_ns=300), replace(row, what="cudaLaunchKernel", total_ns=100)]
    finding = found(env005.first_calls, measures([split()], *rows))
    assert finding.blames == ("cudaFree", "cudaLaunchKernel")
    assert say(finding.message).endswith("cudaFree sets up a context or a library")
    assert silent(env005.first_calls, measures([split()], *idle(first_call=100, dispatch=800)))
