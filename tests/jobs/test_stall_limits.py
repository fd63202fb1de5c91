"""How long no step may end: the limits, and that stacks name whoever a view already says stands still."""

from __future__ import annotations

from itertools import product

from hermes.jobs.stall_limits import ALARM, ASKED

S = 10**9


def test_each_limit_holds_back_alone() -> None:
    for patience, least, times in ((ALARM, 10 * S, 20), (ASKED, S, 5)):
        assert [patience.over(least - 1, 0, 0), patience.over(least, 0, 0)] == [False, True]
        assert [patience.over(times * 7 * S - 1, 7 * S, 0), patience.over(times * 7 * S, 7 * S, 0)] == [False, True]
        assert [patience.over(600 * S - 1, S, 300 * S), patience.over(600 * S, S, 300 * S)] == [False, True]


def test_a_rank_whose_age_is_unknown_does_not_stand_still() -> None:
    assert not ALARM.over(None, S, S)
    assert ALARM.over(60 * S, None, None)


def test_stacks_never_call_moving_what_a_view_says_stands_still() -> None:
    for age, usual, longest in product((S, 10 * S, 100 * S, 1000 * S), (0, S // 100, S, 60 * S), (0, S, 100 * S)):
        assert ASKED.over(age, usual, longest) or not ALARM.over(age, usual, longest)
