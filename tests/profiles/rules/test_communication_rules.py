"""Rules about communication: each fires beyond its limits, stays silent at them, and names whom it blames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.profiles.rules.rows import (
    balance,
    beside_transfers,
    computed,
    computing,
    fit,
    group_op,
    link,
    only,
    operator,
    pipeline,
    silent,
    stall,
)

from hermes.base.say import say
from hermes.knowledge.advice_conditions import JobKind, fitted_actions
from hermes.model.code_measures import CodeLine
from hermes.model.comm_measures import Alignment
from hermes.model.finding import Loss
from hermes.model.host_measures import Before
from hermes.model.job import JobMeasures
from hermes.model.step_measures import PeerWait, StepSplit
from hermes.profiles.rules.communication import com001_exposed_communication as com001
from hermes.profiles.rules.communication import com005_unaligned_sizes as com005
from hermes.profiles.rules.communication import com006_contention as com006
from hermes.profiles.rules.communication.com002_straggler import in_collectives as com002
from hermes.profiles.rules.communication.com004_small_collectives import many_small_collectives as com004
from hermes.profiles.rules.communication.com008_slow_transfers import slow_links as com008
from hermes.profiles.rules.communication.com008_slow_transfers import stalled_transfers as com007

Make = Callable[..., JobMeasures]
Split = Callable[..., StepSplit]
Wait = Callable[..., PeerWait]


@pytest.fixture
def two(measures: Make, split: Split) -> JobMeasures:
    """Two ranks of an Ascend job with a step of 1000 ns each, 400 of them exposed communication of one group."""
    return measures([split(0, exposed=400), split(1, exposed=400)], group_op(), vendors={0: "ascend", 1: "ascend"})


def in_function(rank: int, place: str, function: str, ns: int) -> CodeLine:
    return CodeLine(
        rank=rank, place=place, function=function, calls=1, total_ns=ns, own_ns=ns, python_ns=0, framework_ns=0,
        operator_ns=ns, launch_ns=0, wait_ns=0, backward_ns=0, device_ns=0, growth=None, caller="", loop="", names=(),
        lines=(), within="", source="frames",
    )  # fmt: skip


# What is exposed ---------------------------------------------------------------------------------------------------


def test_exposed_transfers_are_told_by_dimension_and_the_cure_fits_the_largest(two: JobMeasures) -> None:
    groups = (group_op(transfer_ns=200), group_op("all_gather", group="tp", parallel="tp", transfer_ns=600))
    finding = only(com001.exposed_communication, two.with_rows(groups))
    told = [(part.what.identifier, part.what["group"], part.value) for part in finding.evidence[2:]]
    assert told == [("com001.dimension", "tp", 300.0), ("com001.dimension", "dp", 100.0)]
    assert finding.actions[0].title.identifier == "com001.tensor"


def test_each_library_has_its_own_way_to_hide_communication_and_any_job_has_one(two: JobMeasures) -> None:
    finding = only(com001.exposed_communication, two.with_rows([group_op(transfer_ns=200)]))

    def ways(*libraries: str, trains: bool = True) -> list[str]:
        job = JobKind(chips=("cuda",), libraries=libraries, trains=trains)
        return [one.do.identifier.removeprefix("com001.do_") for one in fitted_actions(finding.actions, job)]

    assert ways() == ["gradients"]
    assert ways("ddp") == ["ddp"]
    assert ways("fsdp", "megatron") == ["fsdp", "megatron"]
    assert ways("ddp", trains=False) == ["any"]


def test_hidden_transfers_are_not_called_exposed(two: JobMeasures) -> None:
    finding = only(com001.exposed_communication, two.with_rows([group_op(transfer_ns=200, hidden_ns=200)]))
    assert len(finding.evidence) == 2


def test_what_other_stages_are_waited_for_cannot_be_hidden(two: JobMeasures) -> None:
    line = pipeline(500, 500, bubbles=(300, 300))
    finding = only(com001.exposed_communication, two.with_rows([line]))
    assert finding.gain.high_ns == 100


# A slow rank that was collected ------------------------------------------------------------------------------------


def slow_rank(measures: Make, split: Split, wait: Wait, computes: int, free: int = 0) -> JobMeasures:
    """Rank 0 computes or is free longer than its peers; they wait 300 for it."""
    own = replace(split(0), compute_ns=computes, free_ns=free)
    others = [computed(split(rank, exposed=300), 600) for rank in (1, 2)]
    return measures([own, *others], *[wait(rank, 0, 300, collected=True, disjoint=True) for rank in (1, 2)])


def test_a_collected_rank_that_computes_longer_is_told_so(measures: Make, split: Split, wait: Wait) -> None:
    finding = only(com002.straggler, slow_rank(measures, split, wait, 900, free=100))
    assert "computes longer" in say(finding.message)
    assert ("computes longer", 300.0) in [(say(part.what), part.value) for part in finding.evidence]
    assert not any("Collect" in say(action.do) for action in finding.actions)


def test_a_rank_is_blamed_with_less_confidence_if_the_members_of_its_groups_are_inferred(
    measures: Make, split: Split, wait: Wait
) -> None:
    given = slow_rank(measures, split, wait, 900)
    told, inferred = (group_op(ranks=(0, 1, 2), members_source=source) for source in ("recorded", "inferred"))
    assert only(com002.straggler, given.with_rows([told])).confidence == 0.8
    assert only(com002.straggler, given.with_rows([inferred])).confidence == 0.7
    assert only(com002.straggler, given.with_rows([told, inferred])).confidence == 0.8


def test_a_collected_rank_whose_device_is_free_longer_is_told_so(measures: Make, split: Split, wait: Wait) -> None:
    finding = only(com002.straggler, slow_rank(measures, split, wait, 600, free=400))
    assert "host" in say(finding.message)
    assert say(finding.actions[0].title) == "Look at the host of rank 0"


def test_a_rank_that_shares_its_processor_is_late_by_chance_unless_one_function_makes_it_so(
    measures: Make, blind: Split, wait: Wait
) -> None:
    waits = [wait(0, 1, 300, collected=True, disjoint=True)]

    def two(extra_ns: int) -> Loss:
        lines = [in_function(rank, "train.py:3", "forward", 1_000 + 250 * rank) for rank in (0, 1)]
        lines += [in_function(rank, "train.py:9", "write", 100 + (25 + extra_ns) * rank) for rank in (0, 1)]
        return only(com002.straggler, measures([blind(0), blind(1)], *waits, *lines))

    assert two(0).by_chance
    assert not two(400).by_chance


def test_a_rank_with_more_to_compute_is_told_so_and_its_work_may_have_to_go_elsewhere(
    measures: Make, blind: Split, wait: Wait
) -> None:
    waits = [wait(0, 1, 300, collected=True, disjoint=True)]
    row = balance("operations", 0.5, ranks=(1, 0), late=160)
    given = measures([blind(0), blind(1)], *waits)
    finding = only(com002.straggler, given.with_rows([row]))
    assert say(finding.message) == "1 of 2 ranks wait for rank 1, which has more to compute"
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (300, 80, 300)
    assert say(finding.actions[0].title) == "Give rank 1 no more work than the other ranks"
    for other in (balance("operations", 0.5, ranks=(0, 1)), balance("operations", 0.05, ranks=(1, 0)),
                  balance("operations", 0.5, 0.8, ranks=(1, 0)), balance("tokens", 0.5, ranks=(1, 0))):  # fmt: skip
        plain = only(com002.straggler, given.with_rows([other]))
        assert (say(plain.message), plain.gain.low_ns) == ("1 of 2 ranks wait for rank 1", 300)


def test_without_a_device_waiting_is_that_share_of_the_step_without_the_profiler(
    measures: Make, blind: Split, split: Split, wait: Wait
) -> None:
    given = measures([blind(0), blind(1)], wait(0, 1, 300, collected=True, disjoint=True))
    counted = dict.fromkeys(
        ("gc_ns", "data_ns", "data_cpu_ns", "save_ns", "optimizer_ns", "minor_faults", "fault_ns", "spread_ns",
         "captured_faults")
    )  # fmt: skip
    known = Before(rank=0, calls=50, steps=90, step_ns=500, **counted)  # type: ignore[arg-type]
    finding = only(com002.straggler, given.with_rows([known]))
    assert (finding.cost_ns, finding.gain.high_ns, finding.gain.before) == (300, 150, True)
    # With a device neither that nor its operations change what is said: the device tells more.
    device = slow_rank(measures, split, wait, 900, free=100)
    more = device.with_rows([replace(known, rank=1), balance("operations", 0.5, late=160)])
    assert only(com002.straggler, more) == only(com002.straggler, device)


def test_a_rank_that_was_not_collected_is_blamed_where_the_others_have_devices(
    measures: Make, split: Split, wait: Wait
) -> None:
    waits = [wait(rank, 7, 300, collected=False) for rank in (0, 1)]
    assert not only(com002.straggler, measures([split(0, exposed=300), split(1, exposed=300)], *waits)).by_chance


def test_what_explains_no_half_of_the_waiting_is_no_explanation(measures: Make, split: Split, wait: Wait) -> None:
    finding = only(com002.straggler, slow_rank(measures, split, wait, 740, free=100))
    assert say(finding.message) == "2 of 3 ranks wait for rank 0"
    assert "Compare" in say(finding.actions[0].title)


def test_waiting_for_another_stage_is_no_slow_rank(measures: Make, split: Split, wait: Wait) -> None:
    given = measures([split(0), split(1, exposed=300)], wait(1, 0, 300, collected=True), pipeline(500, 500))
    assert silent(com002.straggler, given)


def test_waiting_for_another_stage_hides_no_slow_rank_of_the_same(measures: Make, split: Split, wait: Wait) -> None:
    line = pipeline(500, 500)
    line = replace(line, stages=(line.stages[0], replace(line.stages[1], ranks=(1, 2))))
    waits = [wait(1, 0, 300, collected=True), wait(1, 2, 200, collected=True)]
    given = measures([split(0), split(1, exposed=300), split(2)], *waits, line)
    assert only(com002.straggler, given).blames == ("rank 2",)


# Links and transfers -----------------------------------------------------------------------------------------------

SLOW = {"ratio": 5.0, "slower": 18, "p_value": 1e-4, "excess_ns": 150}


def test_both_directions_of_a_slow_link_are_one_finding(two: JobMeasures) -> None:
    given = two.with_rows([link(0, 1, **SLOW), link(1, 0, **SLOW), link(0, 2), link(1, 2)])
    finding = only(com008.slow_links, given)
    assert (finding.blames, finding.cost_ns) == (("HCCS link 0-1",), 150)
    assert finding.replay == ("comm:all_reduce=0.2",)
    assert finding.ranks == (0, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"ratio": 1.04},
        {"p_value": 0.06, "slower": 12},
        {"p_value": 0.06, "ratio": 1.4},
        {"p_value": 0.5, "slower": 2, "compared": 2},
        {"excess_ns": 10},
        {"ratio": None},
    ],
)
def test_a_link_that_is_hardly_or_by_chance_slower_is_no_finding(change: dict[str, Any], two: JobMeasures) -> None:
    assert silent(com008.slow_links, two.with_rows([link(0, 1, **(SLOW | change))]))


def test_a_link_that_is_far_slower_in_all_of_few_sizes_is_found(two: JobMeasures) -> None:
    few = SLOW | {"p_value": 0.9, "slower": 3, "compared": 3}
    assert only(com008.slow_links, two.with_rows([link(0, 1, **few)])).cost_ns == 150


def test_a_slow_link_behind_compute_costs_nothing(two: JobMeasures) -> None:
    hidden = group_op(transfer_ns=2_000, hidden_ns=2_000)
    assert silent(com008.slow_links, two.with_rows([link(0, 1, **SLOW), hidden]))


def test_the_fixed_part_of_small_collectives_is_found(two: JobMeasures) -> None:
    finding = only(com004.small_collectives, two.with_rows([fit(0.3, 120)]))
    assert (finding.cost_ns, finding.replay) == (120, ("comm:all_reduce=0.7",))
    assert say(finding.message).startswith("32 small collectives a step")


def test_a_small_fixed_part_is_no_finding(two: JobMeasures) -> None:
    assert silent(com004.small_collectives, two.with_rows([fit(0.2, 120)]))
    assert silent(com004.small_collectives, two.with_rows([fit(0.9, 10)]))


def aligned(time: int, odd: int, speed: float | None, odd_speed: float | None) -> Alignment:
    return Alignment(
        what="operations", counted=4, unaligned=2, time_ns=time, unaligned_time_ns=odd, gb_per_s=speed,
        unaligned_gb_per_s=odd_speed,
    )  # fmt: skip


def test_unaligned_sizes_cost_what_aligned_ones_would_save(two: JobMeasures) -> None:
    finding = only(com005.unaligned_sizes, two.with_rows([aligned(1_000, 600, 40.0, 20.0)]))
    assert (finding.cost_ns, finding.confidence, finding.replay) == (150, 0.6, ("comm:*=0.7",))


def test_without_aligned_sizes_only_a_bound_is_said(two: JobMeasures) -> None:
    finding = only(com005.unaligned_sizes, two.with_rows([aligned(600, 600, 0.001, 20.0)]))
    assert (finding.cost_ns, finding.confidence, finding.replay) == (300, 0.3, ())


def test_a_ragged_last_slice_and_other_vendors_are_no_finding(two: JobMeasures, measures: Make) -> None:
    assert silent(com005.unaligned_sizes, two.with_rows([aligned(1_000, 200, 40.0, 20.0)]))
    rows = group_op(), aligned(1_000, 600, 40.0, 20.0)
    assert silent(com005.unaligned_sizes, measures(two.job.steps.every, *rows, vendors={0: "nvidia", 1: "nvidia"}))


def overlapping(measures: Make, split: Split, *rows: object) -> JobMeasures:
    """Two ranks that compute beside 300 ns of the communication of each step."""
    steps = [replace(split(rank, exposed=400), overlapped_comm_ns=300) for rank in (0, 1)]
    return measures(steps, group_op(), *rows)


def test_kernels_beside_transfers_are_found_by_what_they_lose(measures: Make, split: Split) -> None:
    rows = beside_transfers(1.5, 100), *computing(operator("MatMul", "matmul", 400, ranks=(0, 1)))
    finding = only(com006.contention, overlapping(measures, split, *rows))
    assert (finding.cost_ns, finding.blames, finding.replay) == (50, ("MatMul",), ("op:MatMul=0.75",))


def test_kernels_that_hardly_slow_down_or_collectives_are_no_finding(measures: Make, split: Split) -> None:
    rows = (beside_transfers(1.2, 100), beside_transfers(3.0, 100, "communication"), beside_transfers(1.5, 10))
    assert silent(com006.contention, overlapping(measures, split, *rows))


def test_stalled_transfers_are_found_on_all_ranks_that_wait_for_them(two: JobMeasures) -> None:
    finding = only(com007.stalled_transfers, two.with_rows([stall(300)]))
    assert (finding.cost_ns, finding.ranks, finding.blames) == (300, (0, 1), ("rank 0 ROCE",))
    assert "retransmission" not in say(finding.message)
    longer = only(com007.stalled_transfers, two.with_rows([stall(300, longest=5 * 10**9)]))
    assert "retransmission" in say(longer.message)


def test_a_stall_in_one_of_many_steps_counts_by_its_share(measures: Make, split: Split) -> None:
    steps = [split(0, number, exposed=400) for number in range(50)]
    given = measures(steps, group_op(ranks=(0,)), stall(400))
    assert silent(com007.stalled_transfers, given)
    assert only(com007.stalled_transfers, given.with_rows([stall(40_000)])).cost_ns == 400


def test_what_a_stall_exposes_in_few_steps_counts_in_the_mean(measures: Make, split: Split) -> None:
    steps = [split(0, number, exposed=exposed) for number, exposed in enumerate((100, 100, 700))]
    given = measures(steps, group_op(ranks=(0,)), stall(600))
    assert only(com007.stalled_transfers, given).cost_ns == 200


def test_stalls_without_a_rank_are_of_the_operation(two: JobMeasures) -> None:
    finding = only(com007.stalled_transfers, two.with_rows([stall(300, None)]))
    assert (finding.blames, finding.confidence) == (("ROCE",), 0.5)


def test_collectives_far_below_their_links_are_found(two: JobMeasures) -> None:
    group = group_op(of_link=0.4, link_gb_per_s=10.0, link_limit_gb_per_s=25.0, transfer_ns=400)
    finding = only(com008.slow_links, two.with_rows([group]))
    assert (finding.cost_ns, finding.blames) == (100, ("all_reduce of dp",))
    assert "40%" in say(finding.message)


@pytest.mark.parametrize(
    "change", [{"of_link": 0.8}, {"of_link": None}, {"of_link": 0.4, "bytes": 999_999}, {"of_link": 0.75}]
)
def test_collectives_near_their_links_or_small_ones_are_no_finding(change: dict[str, Any], two: JobMeasures) -> None:
    assert silent(com008.slow_links, two.with_rows([group_op(transfer_ns=400, **change)]))


def test_of_collectives_that_one_slow_link_holds_up_only_the_link_is_told(two: JobMeasures) -> None:
    group = group_op(of_link=0.4, link_gb_per_s=10.0, link_limit_gb_per_s=25.0, transfer_ns=400)
    finding = only(com008.slow_links, two.with_rows([group, link(0, 1, **SLOW)]))
    assert (finding.fault, finding.state) == ("slow_link", "stable")


def test_ranks_of_one_host_that_use_the_network_are_found(two: JobMeasures) -> None:
    given = two.with_rows([link(0, 1, "ROCE", gb_per_s=2.5, time_ns=400, bytes=1_000), link(1, 0)])
    finding = only(com008.slow_links, given)
    assert (finding.cost_ns, finding.blames, finding.state) == (300, ("ROCE link 0-1",), "preview")
    assert "ROCE" in say(finding.message)


@pytest.mark.parametrize("change", [{"same_host": False}, {"same_host": None}])
def test_the_network_between_hosts_is_no_finding(change: dict[str, Any], two: JobMeasures) -> None:
    assert silent(
        com008.slow_links,
        two.with_rows([link(0, 1, "ROCE", gb_per_s=2.5, time_ns=400, **change), link(1, 0)]),
    )


def test_without_direct_links_the_network_is_no_finding(two: JobMeasures) -> None:
    assert silent(com008.slow_links, two.with_rows([link(0, 1, "PCIE", gb_per_s=2.5, time_ns=400)]))
