"""Steps that are longer at an even distance are told from those that chance makes long."""

from __future__ import annotations

import random

from hermes.inside.wire.long_steps import LongSteps, long_steps


def lengths(count: int, seed: int, spread: float = 0.8) -> list[int]:
    """Steps of a busy machine, whose lengths differ by chance."""
    draw = random.Random(seed)
    return [int(1e8 * draw.lognormvariate(0, spread)) for _ in range(count)]


def with_row(walls: list[int], period: int, extra: int) -> list[int]:
    return [wall + (extra if number % period == 0 else 0) for number, wall in enumerate(walls)]


def test_a_step_of_each_five_is_told_with_what_it_takes_of_all_time() -> None:
    found = long_steps(range(17), with_row([100] * 17, 5, 400))
    assert found == LongSteps(
        period=5, last=15, count=4, steps=17, usual_ns=100, extra_ns=400, share=4 * 400 / (17 * 100 + 4 * 400)
    )


def test_on_a_busy_machine_a_row_is_still_found_by_its_ranks() -> None:
    found = [long_steps(range(60), with_row(lengths(60, seed, 0.4), 6, 300_000_000)) for seed in range(20)]
    assert sum(one is not None and one.period == 6 for one in found) >= 18


def test_of_steps_that_are_long_by_chance_hardly_any_are_told() -> None:
    found = [long_steps(range(count), lengths(count, seed)) for count in (16, 40) for seed in range(40)]
    assert sum(one is not None for one in found) <= 0.1 * len(found)


def test_two_long_steps_have_no_distance_that_is_even() -> None:
    assert long_steps(range(12), with_row([100 + at % 3 for at in range(12)], 6, 900)) is None


def test_steps_are_counted_on_from_the_last_long_one() -> None:
    found = LongSteps(period=5, last=15, count=3, steps=16, usual_ns=1, extra_ns=1, share=0.5)
    assert [found.next_after(step) for step in (15, 16, 20, 21)] == [15, 20, 20, 25]
    assert [step for step in range(14, 27) if found.holds(step)] == [15, 20, 25]
