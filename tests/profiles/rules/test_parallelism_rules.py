"""Rules about parallelism: stages, bubbles, tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.profiles.rules.rows import balance, computed, only, pipeline, silent

from hermes.base.say import say
from hermes.model.job import JobMeasures
from hermes.model.step_measures import PeerWait, StepSplit
from hermes.model.structure_measures import Balance, Pipeline
from hermes.profiles.rules.parallelism.par001_pipeline_waits import few_micro_batches as par005
from hermes.profiles.rules.parallelism.par001_pipeline_waits import measured_waits as par001
from hermes.profiles.rules.parallelism.par003_uneven_load import uneven_expert_load as par004
from hermes.profiles.rules.parallelism.par003_uneven_load import uneven_token_load as par003

Make = Callable[..., JobMeasures]
Split = Callable[..., StepSplit]
Wait = Callable[..., PeerWait]


def staged(measures: Make, split: Split, line: Pipeline) -> JobMeasures:
    ranks = [rank for stage in line.stages for rank in stage.ranks]
    return measures([split(rank, exposed=300) for rank in ranks], line)


def test_the_stage_that_computes_longest_is_blamed(measures: Make, split: Split) -> None:
    finding = only(par001.pipeline_waits, staged(measures, split, pipeline(400, 600)))
    assert (finding.cost_ns, finding.blames, finding.ranks) == (100, ("stage 1",), (1,))
    assert finding.replay == ("layers:0=1.25", "layers:1=0.8333")


@pytest.mark.parametrize("computes", [(500, 500), (476, 524), (5, 15)])
def test_stages_that_differ_by_little_are_no_finding(computes: tuple[int, int], measures: Make, split: Split) -> None:
    assert silent(par001.pipeline_waits, staged(measures, split, pipeline(*computes)))


def test_a_bubble_beyond_the_schedule_is_found(measures: Make, split: Split) -> None:
    # Two stages and nine micro-batches leave a tenth.
    finding = only(par001.pipeline_waits, staged(measures, split, pipeline(500, 500, bubbles=(300, 200), batches=9)))
    assert (finding.cost_ns, finding.ranks) == (200, (0, 1))
    assert "30% of the step, of which the schedule needs 10%" in say(finding.message)


def test_the_schedules_own_bubble_is_not_beyond_it(measures: Make, split: Split) -> None:
    assert silent(par001.pipeline_waits, staged(measures, split, pipeline(500, 500, bubbles=(150, 150), batches=9)))
    assert silent(par001.pipeline_waits, staged(measures, split, pipeline(500, 500, bubbles=(900, 900), batches=None)))


def test_too_few_micro_batches_are_found_with_how_many_would_do(measures: Make, split: Split) -> None:
    finding = only(par005.few_micro_batches, staged(measures, split, pipeline(500, 500, bubbles=(250, 250), batches=3)))
    assert (finding.cost_ns, finding.gain.high_ns) == (250, 150)
    assert say(finding.actions[0].title).startswith("Use 9 micro-batches")


def test_a_schedule_whose_bubble_was_not_measured_as_large_is_no_finding(measures: Make, split: Split) -> None:
    # Interleaved stages have less of a bubble than the formula says.
    assert silent(par005.few_micro_batches, staged(measures, split, pipeline(500, 500, bubbles=(100, 100), batches=1)))
    assert silent(par005.few_micro_batches, staged(measures, split, pipeline(500, 500, bubbles=(250, 250), batches=9)))


def uneven(
    measures: Make, split: Split, rows: Sequence[Balance], longer: int = 200, waits: Sequence[PeerWait] = ()
) -> JobMeasures:
    own = computed(split(0), 600 + longer)
    others = [computed(split(rank, exposed=longer), 600) for rank in (1, 2)]
    return measures([own, *others], *waits, *rows)


def test_the_rank_with_the_most_tokens_is_blamed(measures: Make, split: Split, wait: Wait) -> None:
    waits = [wait(1, 0, 200, collected=True)]
    finding = only(par003.uneven_tokens, uneven(measures, split, [balance("tokens", 0.3)], waits=waits))
    assert (finding.cost_ns, finding.blames, finding.apart) == (200, ("rank 0",), False)
    assert finding.replay == ("compute:0=0.75",)


@pytest.mark.parametrize(
    "row", [balance("tokens", 0.06), balance("tokens", 0.3, 0.8), balance("tokens", 0.3, None),
            balance("expert tokens", 0.3)],
)  # fmt: skip
def test_even_batches_or_tokens_that_do_not_tell_the_compute_are_no_finding(
    row: Balance, measures: Make, split: Split
) -> None:
    assert silent(par003.uneven_tokens, uneven(measures, split, [row]))


def test_tokens_that_cost_nothing_are_no_finding(measures: Make, split: Split) -> None:
    assert silent(par003.uneven_tokens, uneven(measures, split, [balance("tokens", 0.3)], longer=5))


@pytest.mark.parametrize("what", ["tokens", "operations"])
def test_ranks_that_have_more_in_turn_lose_what_the_longest_takes_beyond_the_mean(
    what: str, measures: Make, split: Split, wait: Wait
) -> None:
    waits = [wait(rank, peer, 150, collected=True) for rank in range(3) for peer in range(3) if rank != peer]
    row = balance(what, 0.5, late=200, each=0.02)
    given = uneven(measures, split, [row], longer=0, waits=waits)
    finding = only(par003.uneven_tokens, given)
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns, finding.blames) == (200, 0, 200, ())
    assert say(finding.message).startswith(f"In turn each rank has 50% more {what}")
    # No more than they wait for each other, and nothing where they do not.
    short = [replace(one, total_ns=75, longest_ns=75) for one in waits]
    assert only(par003.uneven_tokens, uneven(measures, split, [row], longer=0, waits=short)).cost_ns == 150
    assert silent(par003.uneven_tokens, uneven(measures, split, [row], longer=0))


def test_without_a_device_the_rank_with_the_most_tokens_costs_what_even_work_would_win(
    measures: Make, blind: Split, wait: Wait
) -> None:
    waits = [wait(rank, 0, 300, collected=True) for rank in (1, 2)]
    given = measures([blind(rank) for rank in range(3)], *waits, balance("tokens", 0.5, late=150))
    finding = only(par003.uneven_tokens, given)
    assert (finding.cost_ns, finding.blames) == (150, ("rank 0",))
    assert say(finding.message).startswith("Rank 0 has 50% more tokens")


def test_one_rank_with_more_operations_may_have_work_of_its_own(measures: Make, split: Split, wait: Wait) -> None:
    waits = [wait(1, 0, 200, collected=True)]
    assert silent(par003.uneven_tokens, uneven(measures, split, [balance("operations", 0.5, late=200)], waits=waits))


def test_the_rank_with_the_busiest_experts_is_blamed(measures: Make, split: Split) -> None:
    finding = only(par004.uneven_experts, uneven(measures, split, [balance("expert tokens", 0.5)]))
    assert (finding.cost_ns, finding.blames, finding.apart) == (200, ("rank 0",), True)


@pytest.mark.parametrize("row", [balance("expert tokens", 0.2), balance("tokens", 0.5)])
def test_experts_with_like_loads_are_no_finding(row: Balance, measures: Make, split: Split) -> None:
    assert silent(par004.uneven_experts, uneven(measures, split, [row]))
