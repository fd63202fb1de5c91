"""Communication and structure in reports: of modelled jobs with a planted fault, of real profiles, of many ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.each import sampled
from tests.shared_jobs import FOUR, Jobs
from tests.with_rows import with_rows

from hermes.base.say import say
from hermes.model.comm_measures import Alignment, CommunicationNote, GroupOp, LatencyFit, LinkPair, SlowRank, Stall
from hermes.model.report import Report
from hermes.model.structure_measures import Balance, Pipeline, RankMatrix
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze, outlined
from hermes.report.measures_json import blocks
from hermes.store.cache import Cache
from hermes_testing import Fault, Format, Job, generate

Reported = Callable[[str], Report]
Modelled = Callable[..., Report]
FORMATS = ("ascend-text", "ascend-db", "kineto")
IN_TURN = itertools.cycle(FORMATS)
"""One format a test: tests/profiles/read/test_conformance.py holds the tables of all formats equal."""
EVERY_FORMAT = pytest.mark.parametrize("form", sampled(FORMATS, "ascend-db"))
ASCEND = FORMATS[:2]


@pytest.fixture
def modelled(jobs: Jobs) -> Modelled:
    def reported(form: Format, fault: Fault | None = None, **layout: int) -> Report:
        return jobs.report(replace(FOUR, **layout, faults=(fault,) if fault else ()), form)

    return reported


@EVERY_FORMAT
def test_elapsed_time_is_wait_and_transfer_and_idle_to_the_nanosecond(form: str, modelled: Modelled) -> None:
    for group in modelled(form, pp=2, tp=2, ranks=8).rows(GroupOp):
        assert group.split_rows == group.rows
        assert (group.wait_ns or 0) + (group.transfer_ns or 0) + (group.idle_ns or 0) == group.elapse_ns
        assert (group.idle_ns is None) == (form == "kineto")


@pytest.mark.parametrize("named", [(), (0,)])
def test_waits_are_the_same_if_only_some_ranks_record_their_groups(named: tuple[int, ...], tmp_path: Path) -> None:
    job = generate(tmp_path / "job", Job(ranks=4, steps=3, layers=1, tp=2), formats=["ascend-text"])

    def waits(cache: str) -> pl.DataFrame:
        return outlined(load([job], Cache(tmp_path / cache))).made.rows.select("rank", "comm_id", "split", "wait_ns")

    told = waits("told")
    assert told["split"].all()
    for info in job.glob("*/profiler_info_*.json"):
        if int(info.stem.rpartition("_")[2]) not in named:
            (info.parent / "profiler_metadata.json").unlink()
    assert waits("in part").equals(told)


@EVERY_FORMAT
def test_bandwidths_of_a_healthy_job_are_those_of_its_links(form: str, modelled: Modelled) -> None:
    (fit,) = modelled(form).rows(LatencyFit)
    # Three links of 20 GB/s at once, and 3 us before each of two phases, with 2 us after them.
    assert fit.peak_bus_gb_per_s == pytest.approx(60, rel=0.01)
    assert fit.fixed_ns == pytest.approx(13_000, rel=0.1)
    for group in modelled(form).rows(GroupOp):
        assert group.bus_gb_per_s is not None
        assert group.bus_gb_per_s < 60


@pytest.mark.parametrize("form", sampled(ASCEND, "ascend-db"))
def test_a_slow_link_is_named_in_both_directions_and_no_other_is(form: str, modelled: Modelled) -> None:
    links = modelled(form, Fault(kind="slow_link")).rows(LinkPair)
    assert {(link.rank, link.peer) for link in links[:2]} == {(0, 1), (1, 0)}
    for link in links[:2]:
        assert link.ratio == pytest.approx(5, rel=0.02)
        assert link.p_value is not None
        assert link.p_value < 0.01
    assert all(link.p_value == 1 and link.ratio == pytest.approx(1, rel=0.01) for link in links[2:])


@pytest.mark.parametrize("form", [next(IN_TURN)])
def test_many_small_operations_show_as_fixed_cost(form: str, modelled: Modelled) -> None:
    (well,), (sick,) = (modelled(form, fault).rows(LatencyFit) for fault in (None, Fault(kind="small_packets")))
    assert sick.fixed_ns == pytest.approx(well.fixed_ns, rel=0.05)
    assert sick.operations > 25 * well.operations
    assert sick.fixed_share > 10 * well.fixed_share


@pytest.mark.parametrize("form", [next(IN_TURN)])
def test_unaligned_sizes_are_told_with_their_time(form: str, modelled: Modelled) -> None:
    well, sick = (modelled(form, fault).rows(Alignment) for fault in (None, Fault(kind="unaligned_sizes")))
    assert {row.unaligned for row in well} == {0}
    for row in sick:
        assert row.unaligned_time_ns > 0.95 * row.time_ns
        # The sizes are no multiples of 512, and all of them take 40 % longer.
        assert row.unaligned_gb_per_s is not None


@EVERY_FORMAT
def test_a_retransmission_is_a_stall_of_its_length(form: str, modelled: Modelled) -> None:
    stalls = modelled(form, Fault(kind="retransmission"), hosts=2).rows(Stall)
    (stall,) = stalls
    assert (stall.rank, stall.stalled) == (None if form == "kineto" else 0, 3)
    assert stall.excess_ns == pytest.approx(3 * 40_000_000, rel=0.01)
    assert modelled(form, hosts=2).rows(Stall) == ()


@pytest.mark.parametrize("form", [next(IN_TURN)])
@pytest.mark.parametrize("kind", ["slow_rank_compute", "slow_rank_host"])
def test_a_slow_rank_is_last_in_each_step_and_waits_for_nobody(form: str, kind: str, modelled: Modelled) -> None:
    first, *others = modelled(form, Fault(kind=kind)).rows(SlowRank)  # type: ignore[arg-type]
    assert (first.rank, first.blocks, first.blocks_last) == (0, 3, 3)
    assert first.p_value == pytest.approx(4 * 0.25**3)
    assert first.own_wait_ns < first.held_ns / 100
    assert all(other.held_ns < first.held_ns / 20 for other in others)
    well = modelled(form).rows(SlowRank)
    assert max((slow.held_ns for slow in well), default=0) < first.held_ns / 50


@pytest.mark.parametrize("form", [next(IN_TURN)])
def test_skewed_clocks_change_nothing_that_is_said_of_communication(form: str, modelled: Modelled) -> None:
    here, there = (modelled(form, fault, hosts=2).rows(GroupOp) for fault in (None, Fault(kind="skewed_clocks")))
    for one, other in zip(here, there, strict=True):
        # Offsets are known to a few microseconds an operation.
        slack = one.rows * 10_000
        assert one.wait_ns == pytest.approx(other.wait_ns, abs=slack)
        assert one.transfer_ns == pytest.approx(other.transfer_ns, abs=slack)
        assert one.bus_gb_per_s == pytest.approx(other.bus_gb_per_s, rel=0.01, abs=0.01)


@EVERY_FORMAT
def test_an_uneven_pipeline_shows_in_its_stages(form: str, modelled: Modelled) -> None:
    well, sick = (modelled(form, fault, pp=2).rows(Pipeline).only for fault in (None, Fault(kind="pipeline_imbalance")))
    assert well is not None
    assert sick is not None
    assert [stage.ranks for stage in sick.stages] == [(0, 1), (2, 3)]
    assert (sick.source, sick.micro_batches) == ("group" if form == "kineto" else "coordinates", 2)
    assert sick.structural_share == pytest.approx(1 / 3)
    # Twice the layers on the last stage: it computes more, and the first waits for it.
    assert (sick.imbalance or 0) > (well.imbalance or 0) + 0.15
    assert sick.stages[0].bubble_ns > 1.5 * well.stages[0].bubble_ns
    assert sick.stages[1].bubble_ns < 1.05 * well.stages[1].bubble_ns


@pytest.mark.parametrize("form", [next(IN_TURN)])
def test_equal_batches_are_in_balance(form: str, modelled: Modelled) -> None:
    (row,) = modelled(form).rows(Balance)
    assert (row.what, row.ranks, row.mean, row.imbalance) == ("tokens", (0, 1, 2, 3), 4_096, 0.0)


@pytest.mark.parametrize("form", [next(IN_TURN)])
def test_uneven_batches_show_in_tokens_and_go_with_compute(form: str, modelled: Modelled) -> None:
    report = modelled(form, Fault(kind="uneven_batches"))
    (row,) = report.rows(Balance)
    assert (row.most_rank, row.most, row.least) == (0, 5_120, 4_096)
    assert row.imbalance == pytest.approx(1.25 / (4.25 / 4) - 1)
    assert (row.correlation, row.samples) == (pytest.approx(1, abs=0.01), 12)
    assert report.rows(SlowRank)[0].rank == 0


@pytest.mark.parametrize("form", [next(IN_TURN)])
def test_batches_that_are_uneven_in_turn_are_told_and_nobody_is_blamed(form: Format, jobs: Jobs) -> None:
    more = tuple(
        Fault(kind="uneven_batches", ranks=(rank,), steps=(FOUR.first_step + rank,), amount=60) for rank in range(4)
    )
    report = jobs.report(replace(FOUR, steps=4, faults=more), form)
    (row,) = report.rows(Balance)
    assert row.most / row.mean == pytest.approx(1, abs=0.01)
    assert row.imbalance == pytest.approx(1.6 / (4.6 / 4) - 1, abs=0.01)
    first = report.findings[0]
    assert (first.code, first.blames, first.state) == ("PAR003", (), "stable")
    assert first.cost_ns == pytest.approx(row.late_ns, rel=0.01)


def test_the_matrix_has_every_rank_and_metric(modelled: Modelled) -> None:
    matrix = modelled("ascend-text").rows(RankMatrix).only
    assert matrix is not None
    assert [row.first_rank for row in matrix.rows] == [0, 1, 2, 3]
    names = {metric.name for metric in matrix.metrics}
    assert names >= {
        "window",
        "compute",
        "wait in communication",
        "transfer",
        "held the others up",
        "link speed",
        "tokens",
    }


@pytest.mark.parametrize("name", ["text", "db"])
def test_a_real_job_with_missing_ranks_names_the_one_all_waited_for(name: str, reported: Reported) -> None:
    report = reported(f"ascend/alexnet_{name}_level2")
    first = report.rows(SlowRank)[0]
    assert (first.rank, first.collected, first.last) == (5 if name == "text" else 4, False, 3)
    assert first.held_ns > 85_000_000
    # One step is one sample: that is no proof of anything lasting.
    assert (first.blocks, first.p_value) == (1, 1.0)
    (group,) = report.rows(GroupOp)
    assert (group.size, group.operations, group.split_rows) == (8, 4, 8)
    # Seven links of 15 GB/s cannot carry more than 105; over the elapsed time it would be 4.
    assert group.bus_gb_per_s == pytest.approx(97, abs=2)
    assert group.waste == pytest.approx(0.955, abs=0.002)
    (peak,) = {(row.counted, row.unaligned) for row in report.rows(Alignment) if row.what == "HCCS"}
    assert peak == (112, 8)


def test_the_link_matrix_of_a_real_job_is_the_profilers_own(reported: Reported) -> None:
    links = {(link.rank, link.peer): link for link in reported("ascend/alexnet_text_level2").rows(LinkPair)}
    assert len(links) == 14
    # 0-1 HCCS: 61.2106 MB in 4.0933 ms are 14.9539 GB/s in communication_matrix.json.
    link = links[0, 1]
    assert (link.bytes, link.time_ns) == (pytest.approx(61_210_600, abs=100), pytest.approx(4_093_300, abs=100))
    assert link.gb_per_s == pytest.approx(14.9539, abs=1e-3)


def test_without_tasks_and_members_nothing_is_told_apart(reported: Reported) -> None:
    report = reported("ascend/alexnet_text_level0")
    assert [(group.split_rows, group.bus_gb_per_s, group.wait_ns) for group in report.rows(GroupOp)] == [
        (0, None, None)
    ]
    assert "8 of 8 operations" in say(report.rows(CommunicationNote)[0].text)


@pytest.mark.slow
def test_a_job_of_a_thousand_ranks_fits_its_tables(modelled: Modelled) -> None:
    report = with_rows(modelled("kineto"), map(_slow, range(1_000)))
    made = blocks(report)["communication"]
    assert isinstance(made, dict)
    assert len(made["slow_ranks"]) == 64


def _slow(rank: int) -> SlowRank:
    return SlowRank(
        rank=rank, collected=True, operations=1, last=1, blocks=1, blocks_last=1, held_ns=1, median_lead_ns=1,
        own_wait_ns=0, error_ns=0, p_value=1.0,
    )  # fmt: skip


@pytest.mark.slow
def test_the_same_ranks_in_another_order_say_the_same(tmp_path: Path) -> None:
    made = generate(tmp_path / "job", Job(ranks=3, steps=2, layers=2), formats=["ascend-db"])
    folders = sorted(path for path in made.iterdir() if path.is_dir())
    store = Cache(tmp_path / "cache")
    here, there = (analyze(load(order, store)) for order in (folders, folders[::-1]))
    assert here.measured == there.measured
