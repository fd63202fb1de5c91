"""Who arrives last, for how long, and how surely."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles.measure.comm_rows import drawn, groups_of, together

from hermes.base.significance import among, binomial_tail, student_tail
from hermes.profiles.measure.communication.last_arrivals import Arrival
from hermes.profiles.measure.communication.slow_ranks import slow_ranks

ALWAYS = """
    rank0.step  [#########][#########][#########][#########]
    rank1.step  [#########][#########][#########][#########]
    rank2.step  [#########][#########][#########][#########]
    rank0.comm  .########...########...########...########..
    rank1.comm  ..#######....#######....#######....#######..
    rank2.comm  .....####.......####.......####.......####..
"""


def test_the_rank_that_is_always_last_is_named_with_what_it_costs() -> None:
    made, _ = together(drawn(ALWAYS), groups_of(ALWAYS))
    (slow,) = slow_ranks(made, (0, 1, 2))
    assert (slow.rank, slow.last, slow.operations, slow.blocks, slow.blocks_last) == (2, 4, 4, 4, 4)
    # The others are there from cell 2, it comes at cell 5, four times.
    assert (slow.held_ns, slow.median_lead_ns, slow.own_wait_ns) == (12_000, 3_000, 0)
    assert slow.p_value == pytest.approx(3 * (1 / 3) ** 4)


def test_ranks_that_take_turns_are_likely_by_chance() -> None:
    text = """
        rank0.step  [#########][#########]
        rank1.step  [#########][#########]
        rank0.comm  ..#######...########..
        rank1.comm  .########....#######..
    """
    made, _ = together(drawn(text), groups_of(text))
    assert {slow.rank: slow.p_value for slow in slow_ranks(made, (0, 1))} == {0: 1.0, 1: 1.0}


def test_a_constant_delay_is_beyond_the_noise_of_the_steps_however_few_they_are() -> None:
    text = """
        rank0.step  [#########][#########][#########]
        rank1.step  [#########][#########][#########]
        rank0.comm  .########...########...########..
        rank1.comm  .....####.......####......#####..
    """
    made, _ = together(drawn(text), groups_of(text))
    (slow,) = slow_ranks(made, (0, 1))
    # The count of steps alone could be chance; that all are late by about as much could not.
    assert slow.p_value == pytest.approx(2 * 0.5**3)
    assert slow.noise_p_value is not None
    assert slow.noise_p_value < 0.05


def test_ranks_that_are_late_by_turns_are_as_late_by_noise() -> None:
    text = """
        rank0.step  [#########][#########][#########][#########]
        rank1.step  [#########][#########][#########][#########]
        rank0.comm  ..#######...########...########....#######..
        rank1.comm  .########....#######.....######..#########..
    """
    made, _ = together(drawn(text), groups_of(text))
    assert all((slow.noise_p_value or 0) > 0.5 for slow in slow_ranks(made, (0, 1)))


def test_one_late_step_of_several_is_no_late_rank() -> None:
    text = """
        rank0.step  [#########][#########][#########][#########]
        rank1.step  [#########][#########][#########][#########]
        rank2.step  [#########][#########][#########][#########]
        rank0.comm  .########...########...########...########..
        rank1.comm  .########...########...########...########..
        rank2.comm  .########.........##...########...########..
    """
    made, _ = together(drawn(text), groups_of(text))
    (slow,) = slow_ranks(made, (0, 1, 2))
    assert (slow.rank, slow.noise_p_value) == (2, 1.0)


def test_many_collectives_of_one_step_are_one_event() -> None:
    text = """
        rank0.step  [###################]
        rank1.step  [###################]
        rank0.comm  .####.####.####.####.
        rank1.comm  ..###..###..###..###.
    """
    made, _ = together(drawn(text), groups_of(text))
    (slow,) = slow_ranks(made, (0, 1))
    assert (slow.last, slow.blocks, slow.p_value, slow.noise_p_value) == (4, 1, 1.0, None)


def test_a_lead_within_the_clocks_error_names_nobody() -> None:
    made, _ = together(drawn(ALWAYS), groups_of(ALWAYS), clocks={rank: (0, 2_000) for rank in range(3)})
    assert slow_ranks(made, (0, 1, 2)) == ()


def test_a_rank_that_was_not_collected_is_named_by_the_waits_for_it() -> None:
    ranks = {rank: rows for rank, rows in drawn(ALWAYS).items() if rank < 2}
    late = {rank: {0: Arrival(at_ns=6_000, rank=2, comm_id=None)} for rank in ranks}
    made, _ = together(ranks, groups_of(ALWAYS, size=3), peers=late, recorded={0: [0], 1: [0]})
    (slow,) = slow_ranks(made, (0, 1))
    assert (slow.rank, slow.collected, slow.held_ns) == (2, False, 4_000)


def test_nobody_is_judged_by_collectives_whose_members_are_not_all_there() -> None:
    ranks = {rank: rows for rank, rows in drawn(ALWAYS).items() if rank < 2}
    made, _ = together(ranks, groups_of(ALWAYS, size=3))
    assert slow_ranks(made, (0, 1)) == ()


@given(st.integers(0, 12), st.integers(1, 12), st.floats(0.01, 0.99))
def test_the_tail_of_a_binomial_is_what_counting_gives(hits: int, trials: int, chance: float) -> None:
    outcomes = [1.0]
    for _ in range(trials):
        outcomes = [
            (outcomes[k] if k < len(outcomes) else 0.0) * (1 - chance) + (outcomes[k - 1] if k else 0.0) * chance
            for k in range(len(outcomes) + 1)
        ]
    assert binomial_tail(hits, trials, chance) == pytest.approx(sum(outcomes[hits:]), abs=1e-9)


def test_thousands_of_trials_neither_overflow_nor_vanish() -> None:
    assert binomial_tail(5_000, 10_000, 0.5) == pytest.approx(0.504, abs=0.001)
    assert 0 <= binomial_tail(10_000, 10_000, 0.001) < 1e-200


@pytest.mark.parametrize(
    ("t", "freedom", "tail"),
    [(6.314, 1, 0.05), (2.920, 2, 0.05), (2.353, 3, 0.05), (3.182, 3, 0.025), (2.571, 5, 0.025), (1.833, 9, 0.05),
     (0.0, 7, 0.5), (-2.920, 2, 0.95), (1.960, 10**6, 0.0257), (9.0, 0, 1.0)],
)  # fmt: skip
def test_the_tail_of_students_distribution_is_that_of_the_tables(t: float, freedom: int, tail: float) -> None:
    assert student_tail(t, freedom) == pytest.approx(tail, abs=5e-5)


def test_the_most_striking_of_many_is_less_striking() -> None:
    assert among(0.01, 8) == pytest.approx(0.08)
    assert among(0.5, 8) == 1.0
