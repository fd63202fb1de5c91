"""Rules of the input: each fires beyond its limit and stays silent at it; the step is 1,000 ns long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hermes.base.message import Message
from hermes.base.say import say
from hermes.model.finding import Loss
from hermes.model.host_measures import Before, SettingValues
from hermes.model.input_measures import InputCopies, InputQueue, InputRates
from hermes.model.job import JobMeasures
from hermes.model.overlap_measures import OverlapPart, StepOverlap
from hermes.profiles.rules.input import io006_saving_blocks as io006
from hermes.profiles.rules.input.io001_waiting_for_input import no_workers as io001
from hermes.profiles.rules.input.io001_waiting_for_input import slow_sample as io004
from hermes.profiles.rules.input.io001_waiting_for_input import slow_workers as io002
from hermes.profiles.rules.input.io001_waiting_for_input import workers_started_anew as io003
from hermes.profiles.rules.memory.mem001_exposed_copies import any_exposed_copies as mem001
from hermes.profiles.rules.memory.mem001_exposed_copies import batch_copies as io005
from hermes.profiles.rules.rule import Finder

Make = Callable[..., Any]


def found(rule: Finder, measures: JobMeasures) -> Loss:
    (finding,) = rule.find(measures)
    return finding


def silent(rule: Finder, measures: JobMeasures) -> bool:
    return not list(rule.find(measures))


def values(finding: Loss) -> dict[str, float]:
    return {say(one.what): one.value for one in finding.evidence}


def rates(**more: Any) -> InputRates:
    known: dict[str, Any] = {
        "rank": 0, "demand": None, "supply": None, "fetching": None, "workers_needed": None, "cores_free": None,
        "cores": None,
    }  # fmt: skip
    return InputRates(**(known | more))


LOADERS = pytest.mark.parametrize(
    ("rule", "kind"),
    [(io001.no_workers, "main process"), (io002.slow_workers, "workers"), (io002.slow_workers, "not told")],
)


@LOADERS
def test_waiting_for_batches_beyond_the_limit_is_found(
    rule: Finder, kind: str, measures: Make, split: Make, fetches: Make
) -> None:
    finding = found(rule, measures([split(free=300)], fetches(kind, 300)))
    assert (finding.code, finding.layer, finding.cost_ns, finding.share) == (rule.code, "io", 300, 0.3)
    assert finding.replay == ("host:data-loading=0",)
    assert "leaves the device free for 30% of the step" in say(finding.message)


@LOADERS
def test_waiting_up_to_the_limit_is_no_finding(
    rule: Finder, kind: str, measures: Make, split: Make, fetches: Make
) -> None:
    assert silent(rule, measures([split()], fetches(kind, 50)))


@LOADERS
def test_a_wait_behind_which_the_device_works_costs_nothing(
    rule: Finder, kind: str, measures: Make, split: Make, fetches: Make
) -> None:
    assert silent(rule, measures([split()], fetches(kind, 900, device_free_ns=10)))


@LOADERS
def test_without_a_device_the_time_of_the_host_counts(
    rule: Finder, kind: str, measures: Make, blind: Make, fetches: Make
) -> None:
    finding = found(rule, measures([blind()], fetches(kind, 300, device_free_ns=None)))
    assert (finding.cost_ns, finding.share, finding.replay) == (300, 0.3, ())
    assert "takes 30% of the step" in say(finding.message)


def test_each_kind_of_loader_has_its_own_rule(measures: Make, split: Make, fetches: Make) -> None:
    assert silent(io002.slow_workers, measures([split()], fetches("main process", 300)))
    assert silent(io001.no_workers, measures([split()], fetches("workers", 300)))


def test_a_wait_is_a_share_of_the_step(measures: Make, split: Make, fetches: Make) -> None:
    finding = found(io002.slow_workers, measures([split(window=2_000)], fetches("workers", 1_000)))
    assert finding.share == 0.5


def test_a_fetch_longer_than_a_step_costs_no_more_than_the_step(measures: Make, split: Make, fetches: Make) -> None:
    finding = found(io002.slow_workers, measures([split()], fetches("workers", 9_000)))
    assert (finding.cost_ns, finding.share) == (1_000, 1.0)


def test_one_long_fetch_of_several_is_said_with_less_confidence(measures: Make, split: Make, fetches: Make) -> None:
    steps = [split(step=number) for number in range(4)]
    steady = fetches("workers", 400, steps=4)
    odd = fetches("workers", 400, steps=4, median_ns=10, longest_ns=370)
    sure, unsure = (found(io002.slow_workers, measures(steps, one)) for one in (steady, odd))
    assert unsure.confidence < sure.confidence


def test_ranks_that_wait_alike_share_a_finding_and_one_that_waits_alone_is_blamed(
    measures: Make, split: Make, fetches: Make
) -> None:
    def job(other: int) -> Loss:
        return found(
            io002.slow_workers,
            measures([split(0), split(1)], fetches("workers", 300), fetches("workers", other, rank=1)),
        )

    assert (job(200).ranks, job(200).blames) == ((0, 1), ())
    assert (job(100).ranks, job(100).blames) == ((0,), ("rank 0",))
    assert say(job(100).message).endswith("on rank 0")


@pytest.mark.parametrize(
    ("reading", "processing", "cause", "first"),
    [
        (200, 50, "reading", "io001.nearer"),
        (50, 200, "processing", "io001.workers"),
        (None, None, "loading", "io001.workers"),
    ],
)
def test_reading_and_processing_are_told_apart_where_they_were_measured(
    reading: int | None, processing: int | None, cause: str, first: str, measures: Make, split: Make, fetches: Make
) -> None:
    row = fetches("main process", 300, reading_ns=reading, processing_ns=processing)
    finding = found(io001.no_workers, measures([split()], row))
    assert cause in finding.fault
    assert finding.actions[0].title.identifier == first


def test_the_workers_that_are_needed_are_in_the_cure(measures: Make, split: Make, fetches: Make) -> None:
    do = (
        found(io001.no_workers, measures([split()], fetches("main process", 300), rates(workers_needed=6)))
        .actions[0]
        .do
    )
    assert (do["workers"], do["enough"]["n"]) == ("6", 6)
    assert "num_workers=6" in say(do)
    assert "num_workers=6" in say(do, "zh")


def test_without_a_core_for_workers_cheaper_batches_are_advised(measures: Make, blind: Make, fetches: Make) -> None:
    finding = found(
        io001.no_workers,
        measures(
            [blind()],
            fetches("main process", 300),
            SettingValues(source="job", name="cpu.cores", values=(("1", (0,)),), absent=()),
        ),
    )
    (action,) = finding.actions
    assert (action.title.identifier, action.do.identifier) == ("io001.cheaper", "io001.slices_do")
    assert say(action.do).endswith("the process has 1 core, and workers would take it from the loop.")
    assert (finding.gain.low_ns, finding.gain.high_ns) == (150, 300)


def told(**values: str) -> list[SettingValues]:
    return [
        SettingValues(source="job", name=name.replace("__", "."), values=((value, (0,)),), absent=())
        for name, value in values.items()
    ]


def test_workers_hide_no_more_than_the_cores_beside_the_compute_allow(
    measures: Make, blind: Make, fetches: Make
) -> None:
    def job(cores: str, threads: str) -> tuple[int, int]:
        row = fetches("main process", 500)
        found_ = found(io001.no_workers, measures([blind()], row, *told(cpu__cores=cores, torch__num_threads=threads)))
        return found_.gain.low_ns, found_.gain.high_ns

    # Two threads keep both cores busy for half of the step: only half of making batches fits on the second core, and
    # workers hide three quarters of that at least.
    assert job(cores="2", threads="2") == (188, 500)
    assert job(cores="2", threads="1") == (500, 500)
    assert job(cores="16", threads="8") == (500, 500)


def test_most_of_a_step_on_one_core_is_at_most_halved_by_two(measures: Make, blind: Make, fetches: Make) -> None:
    row = fetches("main process", 800)
    finding = found(io001.no_workers, measures([blind()], row, *told(cpu__cores="2"), rates(workers_needed=4)))
    assert (finding.gain.high_ns, finding.actions[0].do["workers"]) == (500, "2")


def test_workers_are_not_advised_if_the_loop_already_waits_for_a_core(
    measures: Make, blind: Make, fetches: Make
) -> None:
    before = Before(
        rank=0, steps=9, step_ns=1_000, gc_ns=None, data_ns=300, data_cpu_ns=None, save_ns=None, optimizer_ns=None,
        minor_faults=None, fault_ns=None, spread_ns=None, captured_faults=None, calls=0.0, delay_ns=200,
    )  # fmt: skip
    (action,) = found(
        io001.no_workers, measures([blind()], fetches("main process", 300), before, *told(cpu__cores="2"))
    ).actions
    assert (action.title.identifier, action.do["why"].identifier) == ("io001.cheaper", "io001.busy_cores")
    # A loop that sleeps or reads while it makes batches takes no core for them, and neither do workers.
    waits = replace(before, data_cpu_ns=20, delay_ns=120)
    assert not {one.title.identifier for one in found(
        io001.no_workers, measures([blind()], fetches("main process", 300), waits, *told(cpu__cores="2"))
    ).actions} & {"io001.cheaper"}  # fmt: skip


@pytest.mark.parametrize(("free", "title"), [(2.0, "io001.cheaper"), (32.0, "io001.workers")])
def test_workers_need_cores_that_sampling_shows_free(
    free: float, title: str, measures: Make, split: Make, fetches: Make
) -> None:
    made = measures([split(free=300)], fetches("main process", 300), rates(cores=64, cores_free=free))
    assert found(io001.no_workers, made).actions[0].title.identifier == title


def test_a_loader_that_is_read_anew_in_each_step_is_not_given_workers(
    measures: Make, split: Make, fetches: Make
) -> None:
    (action,) = found(
        io001.no_workers, measures([split(free=300)], fetches("main process", 300, epochs=1, epoch_ns=1))
    ).actions
    assert action.title.identifier == "io001.cheaper"
    assert action.do["why"].identifier == "io001.read_anew"


def test_demand_over_supply_says_how_many_more_workers(measures: Make, split: Make, fetches: Make) -> None:
    finding = found(io002.slow_workers, measures([split()], fetches("workers", 300), rates(demand=30.0, supply=20.0)))
    assert "1.5 times as many" in say(finding.actions[0].do)
    assert values(finding)["batches that the step could take"] == 30.0


def test_with_full_cores_no_more_workers_are_advised(measures: Make, split: Make, fetches: Make) -> None:
    def job(free_: float) -> Loss:
        return found(
            io002.slow_workers, measures([split()], fetches("workers", 300), rates(cores=64, cores_free=free_))
        )

    assert say(job(2.0).message).endswith("and no core is free for more workers")
    assert [say(one.title) for one in job(2.0).actions] == ["Make each batch with less work"]
    more = [(say(one.title), one.fit.frameworks) for one in job(32.0).actions[:-1]]
    assert more == [("Give the loader more workers", ("pytorch",)), ("Give the loader more workers", ("mindspore",))]


def test_the_slow_operation_of_a_sampled_pipeline_is_blamed(measures: Make, split: Make, fetches: Make) -> None:
    def queue(name: str, empty: float) -> InputQueue:
        return InputQueue(
            rank=0, queue="data", name=name, workers=1, capacity=8, average=1.0, usage=0.1, empty=empty, full=0.0,
            samples=10, source="minddata pipeline",
        )  # fmt: skip

    finding = found(
        io002.slow_workers,
        measures([split()], fetches("workers", 300), queue("Batch", 0.9), queue("Map", 0.9), queue("TFReader", 0.0)),
    )
    assert finding.blames == ("Map",)


def test_starting_workers_anew_is_found(measures: Make, split: Make, fetches: Make) -> None:
    row = fetches("workers", 10, epochs=1, epoch_ns=400)
    finding = found(io003.workers_anew, measures([split()], row))
    assert (finding.cost_ns, finding.fault) == (400, "workers_started_anew")


def test_the_first_wait_for_new_workers_belongs_to_their_start(measures: Make, split: Make, fetches: Make) -> None:
    steps = [split(step=number) for number in range(10)]
    row = fetches("workers", 2_000, steps=10, median_ns=10, longest_ns=1_900, epochs=1, epoch_ns=1_500)
    made = measures(steps, row)
    assert found(io003.workers_anew, made).cost_ns == 340
    assert silent(io002.slow_workers, made)
    stay = fetches("workers", 2_000, steps=10, median_ns=10, longest_ns=1_900, epochs=1, epoch_ns=20)
    made = measures(steps, stay)
    assert silent(io003.workers_anew, made)
    assert found(io002.slow_workers, made).cost_ns == 200


@pytest.mark.parametrize("epoch_ns", [50, 0, None])
def test_workers_that_stay_are_no_finding(epoch_ns: int | None, measures: Make, split: Make, fetches: Make) -> None:
    row = fetches("workers", 900, epochs=0, epoch_ns=epoch_ns)
    assert silent(io003.workers_anew, measures([split()], row))


def head_of_line(early: int | None, measures: Make, split: Make, fetches: Make) -> Iterator[Loss]:
    row = fetches("workers", 400, steps=4, early=early, queue_wait_ns=240)
    steps = [split(step=number) for number in range(4)]
    yield from io004.slow_sample.find(measures(steps, row))


def test_a_batch_that_holds_others_back_is_found_by_those_that_came_early(
    measures: Make, split: Make, fetches: Make
) -> None:
    (finding,) = head_of_line(3, measures, split, fetches)
    assert finding.cost_ns == 60
    assert values(finding)["batches that came before their turn"] == 0.75


@pytest.mark.parametrize("early", [0, None])
def test_batches_in_their_turn_are_no_head_of_line(
    early: int | None, measures: Make, split: Make, fetches: Make
) -> None:
    assert not list(head_of_line(early, measures, split, fetches))


def copies(exposed: int, pageable: int | None) -> InputCopies:
    return InputCopies(rank=0, copies=2, bytes=1_000, time_ns=500, exposed_ns=exposed, pageable_bytes=pageable)


def test_copies_of_batches_that_nothing_hides_are_found_and_pageable_memory_is_named(
    measures: Make, split: Make
) -> None:
    slow = found(io005.exposed_input_copies, measures([split(copy=200)], copies(200, 900)))
    assert (slow.cost_ns, slow.fault) == (200, "copies_from_pageable_memory")
    assert values(slow)["speed of these copies"] == 2.0
    for pinned in (100, 0, None):
        finding = found(io005.exposed_input_copies, measures([split(copy=200)], copies(200, pinned)))
        assert finding.fault == "exposed_input_copies"


def test_copies_beside_compute_are_no_finding(measures: Make, split: Make) -> None:
    assert silent(io005.exposed_input_copies, measures([split()], copies(50, 1_000)))


def test_saving_in_the_step_is_found_per_step_of_the_capture(measures: Make, split: Make, event: Make) -> None:
    row = event("checkpoint or logging", 2_000, steps=10, names=(("torch.save", 1, 2_000),))
    finding = found(io006.saving_blocks, measures([split(step=number) for number in range(10)], row))
    assert (finding.cost_ns, finding.share, finding.blames) == (200, 0.2, ("torch.save",))


def test_a_printed_line_is_no_finding(measures: Make, split: Make, event: Make) -> None:
    assert silent(io006.saving_blocks, measures([split()], event("checkpoint or logging", 20)))


@pytest.mark.parametrize(
    ("direction", "title"),
    [("on the device", "mem001.copy_less"), ("host to device", "cure.copy_ahead"),
     ("device to host", "mem001.bring_back")],
)  # fmt: skip
def test_pinned_memory_is_advised_for_copies_of_the_host_alone(
    direction: str, title: str, measures: Make, split: Make
) -> None:
    parts = tuple(
        OverlapPart(component="copy", group=way, events=1, busy_ns=ns, exposed_ns=ns, alone_ns=ns)
        for way, ns in (("host to device", 40), (direction, 160))
    )
    overlap = StepOverlap(rank=0, step=0, window_ns=1_000, parts=parts, states=(), absent=())
    slow = found(mem001.exposed_copies, measures([split(copy=200)], overlap))
    assert [one.title for one in slow.actions] == [Message(title)]


@pytest.mark.parametrize(
    ("ways", "cost"), [(("fill",), None), (("between devices",), None), (("device to host", "fill"), 150)]
)
def test_what_no_cure_takes_away_is_not_told_as_a_copy(
    ways: tuple[str, ...], cost: int | None, measures: Make, split: Make
) -> None:
    parts = tuple(
        OverlapPart(component="copy", group=way, events=1, busy_ns=ns, exposed_ns=ns, alone_ns=ns)
        for way, ns in zip(ways, (150, 50), strict=False)
    )
    overlap = StepOverlap(rank=0, step=0, window_ns=1_000, parts=parts, states=(), absent=())
    given = measures([split(copy=200)], overlap)
    if cost is None:
        assert silent(mem001.exposed_copies, given)
    else:
        assert found(mem001.exposed_copies, given).gain.high_ns == cost
