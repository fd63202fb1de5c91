"""The path of waits: one test for each rule of its definition, and the laws that hold for every job."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import polars as pl
import pytest

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime
from hermes.profiles.measure.leaves.spells import RankSpells
from hermes.profiles.tree.path_of_waits import BINDING, LEADS, FollowedRank, Lead, WaitPath, path_of_waits

MS = 1_000_000
Piece = tuple[Leaf, float]
"""A leaf, and how many ms a rank spends in it."""


def rank(
    number: int, *pieces: Piece, offset: float = 0, steps: tuple[float, ...] = (), first: int = 0, awaited: int = 0
) -> FollowedRank:
    """A rank that does the pieces one after another; steps end at the given moments, and at the end."""
    names = list(dict.fromkeys(leaf for leaf, _ in pieces))
    edges = [0]
    for _, ms in pieces:
        edges.append(edges[-1] + round(ms * MS))
    rows = tuple(
        LeafTime(
            rank=number, leaf=leaf, how=How.CALL, what="", place="", awaited=awaited if leaf is Leaf.WAIT else None,
            total_ns=sum(round(ms * MS) for one, ms in pieces if one is leaf), step_ns=0, long_ns=0,
        )
        for leaf in names
    )  # fmt: skip
    ends = [*(round(moment * MS) for moment in steps), edges[-1]]
    spells = RankSpells(
        steps=pl.DataFrame(
            {"step": range(first, first + len(ends)), "start_ns": [0, *ends[:-1]], "end_ns": ends}
        ),
        starts=pl.DataFrame({"start_ns": edges[:-1]}),
        sums=pl.DataFrame(
            {
                "spell": range(len(pieces)),
                "row": [names.index(leaf) for leaf, _ in pieces],
                "ns": [edges[at + 1] - edges[at] for at in range(len(pieces))],
            }
        ),
        binding=pl.DataFrame(schema={"comm_id": pl.Int64}),
    )  # fmt: skip
    return FollowedRank(rank=number, rows=rows, spells=spells, offset_ns=round(offset * MS))


def meets(*waits: tuple[int, float, int, float]) -> pl.DataFrame:
    """Waits: a rank, the moment in ms until which it waits, the rank that arrives, and the moment on its clock."""
    rows = [(who, round(at * MS), last, round(start * MS)) for who, at, last, start in waits]
    return pl.DataFrame(rows, schema=BINDING, orient="row")


def on_path(found: WaitPath) -> dict[tuple[str, int | None], float]:
    """The ms of each leaf, and of each rank that spends more in it."""
    sums = Counter[tuple[str, int | None]]()
    for (leaf, _, _, _, who), ns in found.times.items():
        sums[leaf.value, who] += ns
    return {key: ns / MS for key, ns in sums.items()}


def test_a_wait_is_followed_to_what_made_the_awaited_rank_late() -> None:
    ranks = [
        rank(0, (Leaf.MATRIX_PRODUCT, 40), (Leaf.WAIT, 60), (Leaf.TRANSFER, 10), awaited=1),
        rank(1, (Leaf.COMPILING, 60), (Leaf.MATRIX_PRODUCT, 40), (Leaf.TRANSFER, 10)),
    ]
    found = path_of_waits(ranks, meets((0, 100, 1, 100)))
    assert on_path(found) == {("compiling", 1): 60, ("matrix_product", None): 40, ("transfer", None): 10}
    assert found.by_rank == {0: 10 * MS, 1: 100 * MS}


def test_a_rank_that_itself_waited_leads_on_to_the_rank_that_it_waited_for() -> None:
    ranks = [
        rank(0, (Leaf.NORM, 10), (Leaf.WAIT, 90), awaited=1),
        rank(1, (Leaf.NORM, 5), (Leaf.WAIT, 85), (Leaf.NORM, 10), awaited=2),
        rank(2, (Leaf.PYTHON, 90), (Leaf.NORM, 10)),
    ]
    found = path_of_waits(ranks, meets((0, 100, 1, 100), (1, 90, 2, 90)))
    assert on_path(found) == {("python", 2): 90, ("norm", None): 10}


def test_waits_that_do_not_bind_stay_waits_and_name_the_awaited_rank() -> None:
    ranks = [rank(0, (Leaf.NORM, 40), (Leaf.WAIT, 60), awaited=1), rank(1, (Leaf.NORM, 40), (Leaf.SORT, 59))]
    assert on_path(path_of_waits(ranks, meets())) == {("norm", None): 40, ("wait", 1): 60}


def test_a_rank_that_was_not_collected_cannot_be_followed() -> None:
    ranks = [rank(0, (Leaf.NORM, 40), (Leaf.WAIT, 60), awaited=9)]
    assert on_path(path_of_waits(ranks, meets((0, 100, 9, 100)))) == {("norm", None): 40, ("wait", 9): 60}


def test_a_meeting_of_which_two_clocks_tell_other_moments_is_none() -> None:
    ranks = [rank(0, (Leaf.NORM, 40), (Leaf.WAIT, 60), awaited=1), rank(1, (Leaf.SORT, 99))]
    assert ("sort", 1) not in on_path(path_of_waits(ranks, meets((0, 100, 1, 97))))


def test_ranks_on_clocks_of_their_own_meet_on_the_common_clock() -> None:
    ranks = [
        rank(0, (Leaf.NORM, 40), (Leaf.WAIT, 60), (Leaf.NORM, 5), offset=7, awaited=1),
        rank(1, (Leaf.SORT, 104), (Leaf.NORM, 5), offset=3),
    ]
    found = path_of_waits(ranks, meets((0, 100, 1, 104)))
    assert on_path(found) == {("sort", 1): 104, ("norm", None): 5}


def test_of_ranks_that_never_meet_the_slowest_is_the_path() -> None:
    ranks = [rank(0, (Leaf.NORM, 40), offset=500), rank(1, (Leaf.NORM, 70))]
    found = path_of_waits(ranks, meets())
    assert found.by_rank == {1: 70 * MS}


def test_the_path_spans_the_steps_that_all_ranks_have() -> None:
    ranks = [
        rank(0, (Leaf.START, 20), (Leaf.NORM, 40), (Leaf.SORT, 30), steps=(20, 60), first=4),
        rank(1, (Leaf.NORM, 40), offset=20, first=5),
    ]
    found = path_of_waits(ranks, meets())
    assert (on_path(found), found.steps) == ({("norm", None): 40}, 1)


def test_where_operations_are_no_longer_compared_the_path_begins_at_the_last_step_before() -> None:
    ranks = [rank(at, (Leaf.NORM, 40), (Leaf.SORT, 30), steps=(40,)) for at in range(2)]
    assert path_of_waits(ranks, meets()).steps == 2
    cut = [replace(ranks[0], covered_ns=50 * MS), ranks[1]]
    found = path_of_waits(cut, meets())
    assert (on_path(found), found.steps) == ({("norm", None): 40}, 1)


def test_ranks_that_are_late_in_turn_are_both_named() -> None:
    ranks = [
        rank(0, (Leaf.DISPATCH, 90), (Leaf.WAIT, 60), (Leaf.DISPATCH, 30), (Leaf.TRANSFER, 1), awaited=1),
        rank(1, (Leaf.DISPATCH, 30), (Leaf.WAIT, 60), (Leaf.DISPATCH, 90), (Leaf.TRANSFER, 1)),
    ]
    # The first meeting is at 90 ms, the second at 180 ms.
    found = path_of_waits(ranks, meets((1, 90, 0, 90), (0, 180, 1, 180)))
    assert on_path(found) == {
        ("dispatch", 0): 60, ("dispatch", 1): 60, ("dispatch", None): 60, ("transfer", None): 1
    }  # fmt: skip


def test_a_slow_device_is_named_without_a_roof() -> None:
    ranks = [
        *(rank(at, (Leaf.MATRIX_PRODUCT, 100), (Leaf.WAIT, 22), (Leaf.TRANSFER, 3), awaited=3) for at in range(3)),
        rank(3, (Leaf.MATRIX_PRODUCT, 122), (Leaf.TRANSFER, 3)),
    ]
    found = on_path(path_of_waits(ranks, meets(*((at, 122, 3, 122) for at in range(3)))))
    assert found == {("matrix_product", None): 100, ("matrix_product", 3): 22, ("transfer", None): 3}


@pytest.mark.parametrize("seed", range(50))
def test_a_healthy_job_names_no_rank_and_its_path_adds_up(seed: int) -> None:
    """Eight ranks whose work differs by 5% at random meet twenty times: each meeting has another last rank."""
    dice = random.Random(seed)
    work = [[round(dice.gauss(10, 0.5), 3) for _ in range(20)] for _ in range(8)]
    moment, pieces, waits = 0.0, [list[Piece]() for _ in work], []
    for at in range(20):
        longest = max(range(8), key=lambda who: work[who][at])
        end = moment + work[longest][at]
        for who in range(8):
            pieces[who].append((Leaf.MATRIX_PRODUCT, work[who][at]))
            if who != longest:
                pieces[who].append((Leaf.WAIT, work[longest][at] - work[who][at]))
                waits.append((who, end, longest, end))
        moment = end
    ranks = [rank(who, *own) for who, own in enumerate(pieces)]
    found = path_of_waits(ranks, meets(*waits))
    assert {(leaf, who) for leaf, _, _, _, who in found.times} == {(Leaf.MATRIX_PRODUCT, None)}
    span = sum(one.end_ns - one.begin_ns for one in found.stretches)
    assert abs(sum(found.times.values()) - span) <= len(found.times) * 8
    for later, earlier in zip(found.stretches, found.stretches[1:], strict=False):
        assert earlier.end_ns == later.begin_ns
        assert earlier.begin_ns < later.begin_ns


def test_of_two_late_ranks_the_first_is_named_and_what_the_second_leaves_is_told() -> None:
    late = {1: 52.0, 2: 50.0}
    ranks = [
        rank(at, (Leaf.COMPILING, late.get(at, 0)), (Leaf.WAIT, 52 - late.get(at, 0)), (Leaf.NORM, 40), awaited=1)
        for at in range(4)
    ]  # fmt: skip
    waits = meets(*((at, 52, 1, 52) for at in (0, 2, 3)))
    leads = pl.DataFrame([(1, 52 * MS, 2, 2 * MS), (1, 500 * MS, 0, 9 * MS)], schema=LEADS, orient="row")
    found = path_of_waits(ranks, waits, leads)
    assert on_path(found) == {("compiling", 1): 52, ("norm", None): 40}
    # The second lead is of a meeting after the path.
    assert found.leads == {1: Lead(second=2, ns=2 * MS)}


def late_in_turn(*late: int) -> tuple[list[FollowedRank], pl.DataFrame]:
    """Two ranks that meet every 40 ms: in each step of 40 ms the late rank dispatches, and the other waits."""
    pieces: list[list[Piece]] = [[], []]
    for who in late:
        pieces[who] += [(Leaf.DISPATCH, 40)]
        pieces[1 - who] += [(Leaf.DISPATCH, 10), (Leaf.WAIT, 30)]
    ends = tuple(40.0 * at for at in range(1, len(late)))
    ranks = [rank(who, *own, steps=ends, first=7, awaited=1 - who) for who, own in enumerate(pieces)]
    return ranks, meets(*((1 - who, 40 * (at + 1), who, 40 * (at + 1)) for at, who in enumerate(late)))


@pytest.mark.parametrize(
    ("late", "changed"),
    [
        ((0, 0, 0, 0), None),
        ((0, 0, 1, 1), (0, 1, 80, 9)),
        ((1, 1, 1, 0), (1, 0, 120, 10)),
        ((0, 1, 0, 1), None),
        ((0, 0, 1, 0, 1, 1, 1, 1, 1, 1), (0, 1, 80, 9)),
    ],
)
def test_the_moment_is_told_from_which_another_rank_is_late(
    late: tuple[int, ...], changed: tuple[int, int, int, int] | None
) -> None:
    found = path_of_waits(*late_in_turn(*late)).change
    said = found and (found.first, found.then, found.after_ns // MS, found.step)
    assert said == changed
