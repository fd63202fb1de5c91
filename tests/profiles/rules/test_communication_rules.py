"""Rules about communication: each fires beyond its limits, stays silent at them, and names whom it blames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.profiles.rules.given import Given
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
    talking,
)

from hermes.knowledge.fits import JobKind, fitted_actions
from hermes.model.code_measures import CodeLine
from hermes.model.comm_measures import Alignment
from hermes.model.finding import Loss
from hermes.model.host_measures import Before
from hermes.model.measures import PeerWait, StepSplit
from hermes.model.structure_measures import Structure
from hermes.profiles.rules.communication import com001_exposed_communication as com001
from hermes.profiles.rules.communication import com002_straggler as com002
from hermes.profiles.rules.communication import com003_slow_link as com003
from hermes.profiles.rules.communication import com004_small_collectives as com004
from hermes.profiles.rules.communication import com005_unaligned_sizes as com005
from hermes.profiles.rules.communication import com006_contention as com006
from hermes.profiles.rules.communication import com007_stalled_transfers as com007
from hermes.profiles.rules.communication import com008_low_bandwidth as com008
from hermes.profiles.rules.communication import com009_network_inside_host as com009

Make = Callable[..., Given]
Split = Callable[..., StepSplit]
Wait = Callable[..., PeerWait]


@pytest.fixture
def two(measures: Make, split: Split) -> Given:
    """Two ranks of an Ascend job with a step of 1000 ns each, 400 of them exposed communication."""
    made = measures([split(0, exposed=400), split(1, exposed=400)])
    return replace(made, vendors={0: "ascend", 1: "ascend"})


def saying(given: Given, **parts: Any) -> Given:
    return replace(given, communication=talking(**parts))


def in_function(rank: int, place: str, function: str, ns: int) -> CodeLine:
    return CodeLine(
        rank=rank, place=place, function=function, calls=1, total_ns=ns, own_ns=ns, python_ns=0, framework_ns=0,
        operator_ns=ns, launch_ns=0, wait_ns=0, backward_ns=0, device_ns=0, growth=None, caller="", loop="", names=(),
        lines=(), within="", source="frames",
    )  # fmt: skip


# What is exposed ---------------------------------------------------------------------------------------------------


def test_exposed_transfers_are_told_by_dimension_and_the_cure_fits_the_largest(two: Given) -> None:
    groups = (group_op(transfer_ns=200), group_op("all_gather", group="tp", parallel="tp", transfer_ns=600))
    finding = only(com001.exposed_communication, saying(two, groups=groups))
    told = [(part.what.identifier, part.what["group"], part.value) for part in finding.evidence[2:]]
    assert told == [("com001.dimension", "tp", 300.0), ("com001.dimension", "dp", 100.0)]
    assert finding.actions[0].title.identifier == "com001.tensor"


def test_each_library_has_its_own_way_to_hide_communication_and_any_job_has_one(two: Given) -> None:
    finding = only(com001.exposed_communication, saying(two, groups=(group_op(transfer_ns=200),)))

    def ways(*libraries: str, trains: bool = True) -> list[str]:
        job = JobKind(chips=("cuda",), libraries=libraries, trains=trains)
        return [one.do.identifier.removeprefix("com001.do_") for one in fitted_actions(finding.actions, job)]

    assert ways() == ["gradients", "any"]
    assert ways("ddp") == ["ddp", "gradients", "any"]
    assert ways("fsdp", "megatron") == ["fsdp", "megatron", "gradients", "any"]
    assert ways("ddp", trains=False) == ["any"]


def test_hidden_transfers_are_not_called_exposed(two: Given) -> None:
    finding = only(com001.exposed_communication, saying(two, groups=(group_op(transfer_ns=200, hidden_ns=200),)))
    assert len(finding.evidence) == 2


def test_what_other_stages_are_waited_for_cannot_be_hidden(two: Given) -> None:
    line = pipeline(500, 500, bubbles=(300, 300))
    finding = only(com001.exposed_communication, replace(saying(two), structure=Structure(pipeline=line)))
    assert finding.gain.high_ns == 100


# A slow rank that was collected ------------------------------------------------------------------------------------


def slow_rank(measures: Make, split: Split, wait: Wait, computes: int, free: int = 0) -> Given:
    """Rank 0 computes or is free longer than its peers; they wait 300 for it."""
    own = replace(split(0), compute_ns=computes, free_ns=free)
    others = [computed(split(rank, exposed=300), 600) for rank in (1, 2)]
    return measures([own, *others], waits=[wait(rank, 0, 300, collected=True, disjoint=True) for rank in (1, 2)])


def test_a_collected_rank_that_computes_longer_is_told_so(measures: Make, split: Split, wait: Wait) -> None:
    finding = only(com002.straggler, slow_rank(measures, split, wait, 900, free=100))
    assert "computes longer" in finding.message
    assert ("computes longer", 300.0) in [(part.what, part.value) for part in finding.evidence]
    assert not any("Collect" in action.do for action in finding.actions)


def test_a_collected_rank_whose_device_is_free_longer_is_told_so(measures: Make, split: Split, wait: Wait) -> None:
    finding = only(com002.straggler, slow_rank(measures, split, wait, 600, free=400))
    assert "host" in finding.message
    assert finding.actions[0].title == "Look at the host of rank 0"


def test_a_rank_that_shares_its_processor_is_late_by_chance_unless_one_function_makes_it_so(
    measures: Make, blind: Split, wait: Wait
) -> None:
    waits = [wait(0, 1, 300, collected=True, disjoint=True)]

    def two(extra_ns: int) -> Loss:
        lines = [in_function(rank, "train.py:3", "forward", 1_000 + 250 * rank) for rank in (0, 1)]
        lines += [in_function(rank, "train.py:9", "write", 100 + (25 + extra_ns) * rank) for rank in (0, 1)]
        return only(com002.straggler, replace(measures([blind(0), blind(1)], waits=waits), more=tuple(lines)))

    assert two(0).by_chance
    assert not two(400).by_chance


def test_a_rank_with_more_to_compute_is_told_so_and_its_work_may_have_to_go_elsewhere(
    measures: Make, blind: Split, wait: Wait
) -> None:
    waits = [wait(0, 1, 300, collected=True, disjoint=True)]
    row = balance("operations", 0.5, ranks=(1, 0), late=160)
    given = measures([blind(0), blind(1)], waits=waits)
    finding = only(com002.straggler, replace(given, structure=Structure(balances=(row,))))
    assert finding.message == "1 of 2 ranks wait for rank 1, which has more to compute"
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (300, 80, 300)
    assert finding.actions[0].title == "Give rank 1 no more work than the others"
    for other in (balance("operations", 0.5, ranks=(0, 1)), balance("operations", 0.05, ranks=(1, 0)),
                  balance("operations", 0.5, 0.8, ranks=(1, 0)), balance("tokens", 0.5, ranks=(1, 0))):  # fmt: skip
        plain = only(com002.straggler, replace(given, structure=Structure(balances=(other,))))
        assert (plain.message, plain.gain.low_ns) == ("1 of 2 ranks wait for rank 1", 300)


def test_without_a_device_waiting_is_that_share_of_the_step_without_the_profiler(
    measures: Make, blind: Split, split: Split, wait: Wait
) -> None:
    given = measures([blind(0), blind(1)], waits=[wait(0, 1, 300, collected=True, disjoint=True)])
    counted = dict.fromkeys(
        ("gc_ns", "data_ns", "data_cpu_ns", "save_ns", "optimizer_ns", "minor_faults", "fault_ns", "spread_ns",
         "captured_faults")
    )  # fmt: skip
    known = Before(rank=0, calls=50, steps=90, step_ns=500, **counted)  # type: ignore[arg-type]
    finding = only(com002.straggler, replace(given, more=(known,)))
    assert (finding.cost_ns, finding.gain.high_ns, finding.gain.before) == (300, 150, True)
    # With a device neither that nor its operations change what is said: the device tells more.
    device = slow_rank(measures, split, wait, 900, free=100)
    said = replace(known, rank=1), balance("operations", 0.5, late=160)
    more = replace(device, more=said[:1], structure=Structure(balances=said[1:]))
    assert only(com002.straggler, more) == only(com002.straggler, device)


def test_a_rank_that_was_not_collected_is_blamed_where_the_others_have_devices(
    measures: Make, split: Split, wait: Wait
) -> None:
    waits = [wait(rank, 7, 300, collected=False) for rank in (0, 1)]
    assert not only(com002.straggler, measures([split(0, exposed=300), split(1, exposed=300)], waits=waits)).by_chance


def test_what_explains_no_half_of_the_waiting_is_no_explanation(measures: Make, split: Split, wait: Wait) -> None:
    finding = only(com002.straggler, slow_rank(measures, split, wait, 740, free=100))
    assert finding.message == "2 of 3 ranks wait for rank 0"
    assert "Compare" in finding.actions[0].title


def test_waiting_for_another_stage_is_no_slow_rank(measures: Make, split: Split, wait: Wait) -> None:
    given = measures([split(0), split(1, exposed=300)], waits=[wait(1, 0, 300, collected=True)])
    assert silent(com002.straggler, replace(given, structure=Structure(pipeline=pipeline(500, 500))))


def test_waiting_for_another_stage_hides_no_slow_rank_of_the_same(measures: Make, split: Split, wait: Wait) -> None:
    line = pipeline(500, 500)
    line = replace(line, stages=(line.stages[0], replace(line.stages[1], ranks=(1, 2))))
    waits = [wait(1, 0, 300, collected=True), wait(1, 2, 200, collected=True)]
    given = measures([split(0), split(1, exposed=300), split(2)], waits=waits)
    assert only(com002.straggler, replace(given, structure=Structure(pipeline=line))).blames == ("rank 2",)


# Links and transfers -----------------------------------------------------------------------------------------------

SLOW = {"ratio": 5.0, "slower": 18, "p_value": 1e-4, "excess_ns": 150}


def test_both_directions_of_a_slow_link_are_one_finding(two: Given) -> None:
    given = saying(two, links=(link(0, 1, **SLOW), link(1, 0, **SLOW), link(0, 2), link(1, 2)))
    finding = only(com003.slow_link, given)
    assert (finding.blames, finding.cost_ns, finding.within) == (("HCCS link 0-1",), 150, "COM001")
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
def test_a_link_that_is_hardly_or_by_chance_slower_is_no_finding(change: dict[str, Any], two: Given) -> None:
    assert silent(com003.slow_link, saying(two, links=(link(0, 1, **(SLOW | change)),)))


def test_a_link_that_is_far_slower_in_all_of_few_sizes_is_found(two: Given) -> None:
    few = SLOW | {"p_value": 0.9, "slower": 3, "compared": 3}
    assert only(com003.slow_link, saying(two, links=(link(0, 1, **few),))).cost_ns == 150


def test_a_slow_link_behind_compute_costs_nothing(two: Given) -> None:
    hidden = group_op(transfer_ns=2_000, hidden_ns=2_000)
    assert silent(com003.slow_link, saying(two, links=(link(0, 1, **SLOW),), groups=(hidden,)))


def test_the_fixed_part_of_small_collectives_is_found(two: Given) -> None:
    finding = only(com004.small_collectives, saying(two, fits=(fit(0.3, 120),)))
    assert (finding.cost_ns, finding.replay, finding.within) == (120, ("comm:all_reduce=0.7",), "COM001")
    assert finding.message.startswith("32 small collectives a step")


def test_a_small_fixed_part_is_no_finding(two: Given) -> None:
    assert silent(com004.small_collectives, saying(two, fits=(fit(0.2, 120),)))
    assert silent(com004.small_collectives, saying(two, fits=(fit(0.9, 10),)))


def aligned(time: int, odd: int, speed: float | None, odd_speed: float | None) -> Alignment:
    return Alignment(
        what="operations", counted=4, unaligned=2, time_ns=time, unaligned_time_ns=odd, gb_per_s=speed,
        unaligned_gb_per_s=odd_speed,
    )  # fmt: skip


def test_unaligned_sizes_cost_what_aligned_ones_would_save(two: Given) -> None:
    finding = only(com005.unaligned_sizes, saying(two, alignment=(aligned(1_000, 600, 40.0, 20.0),)))
    assert (finding.cost_ns, finding.confidence, finding.replay) == (150, 0.6, ("comm:*=0.7",))


def test_without_aligned_sizes_only_a_bound_is_said(two: Given) -> None:
    finding = only(com005.unaligned_sizes, saying(two, alignment=(aligned(600, 600, 0.001, 20.0),)))
    assert (finding.cost_ns, finding.confidence, finding.replay) == (300, 0.3, ())


def test_a_ragged_last_slice_and_other_vendors_are_no_finding(two: Given) -> None:
    assert silent(com005.unaligned_sizes, saying(two, alignment=(aligned(1_000, 200, 40.0, 20.0),)))
    cuda = replace(saying(two, alignment=(aligned(1_000, 600, 40.0, 20.0),)), vendors={0: "nvidia", 1: "nvidia"})
    assert silent(com005.unaligned_sizes, cuda)


def test_kernels_beside_transfers_are_found_by_what_they_lose(two: Given) -> None:
    overlapped = replace(two, splits=tuple(replace(split, overlapped_comm_ns=300) for split in two.splits))
    given = replace(
        saying(overlapped, contention=(beside_transfers(1.5, 100),)),
        compute=computing(operator("MatMul", "matmul", 400, ranks=(0, 1))),
    )
    finding = only(com006.contention, given)
    assert (finding.cost_ns, finding.blames, finding.replay) == (50, ("MatMul",), ("op:MatMul=0.75",))


def test_kernels_that_hardly_slow_down_or_collectives_are_no_finding(two: Given) -> None:
    overlapped = replace(two, splits=tuple(replace(split, overlapped_comm_ns=300) for split in two.splits))
    rows = (beside_transfers(1.2, 100), beside_transfers(3.0, 100, "communication"), beside_transfers(1.5, 10))
    assert silent(com006.contention, saying(overlapped, contention=rows))


def test_stalled_transfers_are_found_on_all_ranks_that_wait_for_them(two: Given) -> None:
    finding = only(com007.stalled_transfers, saying(two, stalls=(stall(300),)))
    assert (finding.cost_ns, finding.ranks, finding.blames) == (300, (0, 1), ("rank 0 ROCE",))
    assert "retransmission" not in finding.message
    assert (
        "retransmission" in only(com007.stalled_transfers, saying(two, stalls=(stall(300, longest=5 * 10**9),))).message
    )


def test_a_stall_in_one_of_many_steps_counts_by_its_share(measures: Make, split: Split) -> None:
    steps = [split(0, number, exposed=400) for number in range(50)]
    given = saying(measures(steps), groups=(group_op(ranks=(0,)),), stalls=(stall(400),))
    assert silent(com007.stalled_transfers, given)
    assert (
        only(
            com007.stalled_transfers, saying(given, groups=given.communication.groups, stalls=(stall(40_000),))
        ).cost_ns
        == 400
    )


def test_what_a_stall_exposes_in_few_steps_counts_in_the_mean(measures: Make, split: Split) -> None:
    steps = [split(0, number, exposed=exposed) for number, exposed in enumerate((100, 100, 700))]
    given = saying(measures(steps), groups=(group_op(ranks=(0,)),), stalls=(stall(600),))
    assert only(com007.stalled_transfers, given).cost_ns == 200


def test_stalls_without_a_rank_are_of_the_operation(two: Given) -> None:
    finding = only(com007.stalled_transfers, saying(two, stalls=(stall(300, None),)))
    assert (finding.blames, finding.confidence) == (("ROCE",), 0.5)


def test_collectives_far_below_their_links_are_found(two: Given) -> None:
    group = group_op(of_link=0.4, link_gb_per_s=10.0, link_limit_gb_per_s=25.0, transfer_ns=400)
    finding = only(com008.low_bandwidth, saying(two, groups=(group,)))
    assert (finding.cost_ns, finding.blames) == (100, ("all_reduce of dp",))
    assert "40%" in finding.message


@pytest.mark.parametrize(
    "change", [{"of_link": 0.8}, {"of_link": None}, {"of_link": 0.4, "bytes": 999_999}, {"of_link": 0.75}]
)
def test_collectives_near_their_links_or_small_ones_are_no_finding(change: dict[str, Any], two: Given) -> None:
    assert silent(com008.low_bandwidth, saying(two, groups=(group_op(transfer_ns=400, **change),)))


def test_collectives_that_one_slow_link_holds_up_are_left_to_its_rule(two: Given) -> None:
    group = group_op(of_link=0.4, link_gb_per_s=10.0, link_limit_gb_per_s=25.0, transfer_ns=400)
    assert silent(com008.low_bandwidth, saying(two, groups=(group,), links=(link(0, 1, **SLOW),)))


def test_ranks_of_one_host_that_use_the_network_are_found(two: Given) -> None:
    given = saying(two, links=(link(0, 1, "ROCE", gb_per_s=2.5, time_ns=400, bytes=1_000), link(1, 0)))
    finding = only(com009.network_inside_host, given)
    assert (finding.cost_ns, finding.blames) == (300, ("ROCE link 0-1",))
    assert "ROCE" in finding.message


@pytest.mark.parametrize("change", [{"same_host": False}, {"same_host": None}])
def test_the_network_between_hosts_is_no_finding(change: dict[str, Any], two: Given) -> None:
    assert silent(
        com009.network_inside_host,
        saying(two, links=(link(0, 1, "ROCE", gb_per_s=2.5, time_ns=400, **change), link(1, 0))),
    )


def test_without_direct_links_the_network_is_no_finding(two: Given) -> None:
    assert silent(com009.network_inside_host, saying(two, links=(link(0, 1, "PCIE", gb_per_s=2.5, time_ns=400),)))
