"""The tree of a job: waits are what the awaited rank did, and nothing is lost on the way."""

from __future__ import annotations

import random

import pytest

import hermes
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, JobLeaf, LeafTime
from hermes.profiles.tree.leaves_of_job import MOST, job_tree


def row(rank: int, leaf: Leaf, ns: int, *, held: int = 0, awaited: int | None = None, what: str = "") -> LeafTime:
    return LeafTime(
        rank=rank, leaf=leaf, how=How.CALL, what=what, place="", awaited=awaited, total_ns=ns, step_ns=ns,
        held_ns=held, long_ns=0,
    )  # fmt: skip


def tree_of(rows: list[LeafTime]) -> tuple[JobLeaf, ...]:
    """All can be won of each leaf."""
    return job_tree(rows, lambda _leaf, _what, ns: ns)


def test_a_wait_is_what_the_awaited_rank_did() -> None:
    found = tree_of([
        row(0, Leaf.MATRIX_PRODUCT, 40), row(0, Leaf.WAIT, 60, awaited=1),
        row(1, Leaf.MATRIX_PRODUCT, 40), row(1, Leaf.HOST_OPERATOR, 60, held=60, what="cat"),
    ])  # fmt: skip
    assert [(one.leaf, one.what, one.rank, one.total_ns, one.share, one.waited_ns) for one in found] == [
        (Leaf.MATRIX_PRODUCT, "", None, 40, 0.4, 0),
        (Leaf.HOST_OPERATOR, "cat", None, 30, 0.3, 0),
        (Leaf.HOST_OPERATOR, "cat", 1, 30, 0.3, 30),
    ]


def test_a_wait_is_laid_at_what_made_the_awaited_rank_late_and_not_at_what_it_did_last() -> None:
    found = tree_of([
        row(0, Leaf.MATRIX_PRODUCT, 40), row(0, Leaf.WAIT, 60, awaited=1),
        row(1, Leaf.COMPILING, 60, what="first"), row(1, Leaf.MATRIX_PRODUCT, 40, held=60),
    ])  # fmt: skip
    assert [(one.leaf, one.rank, one.total_ns, one.waited_ns) for one in found if one.rank is not None] == [
        (Leaf.COMPILING, 1, 30, 30)
    ]


def test_the_same_work_at_places_of_other_names_made_no_rank_late() -> None:
    rows = [
        row(0, Leaf.MATRIX_PRODUCT, 40, what="graph_1"), row(0, Leaf.WAIT, 60, awaited=1),
        row(1, Leaf.MATRIX_PRODUCT, 40, what="graph_2"), row(1, Leaf.DISPATCH, 60, what="mm"),
    ]  # fmt: skip
    assert {(one.leaf, one.rank, one.waited_ns) for one in tree_of(rows) if one.rank is not None} == {
        (Leaf.DISPATCH, 1, 30)
    }  # fmt: skip


def test_waits_for_ranks_that_are_late_in_turn_are_what_each_did_meanwhile() -> None:
    found = tree_of([
        row(rank, leaf, ns, held=held, awaited=1 - rank if leaf is Leaf.WAIT else None)
        for rank in range(2) for leaf, ns, held in ((Leaf.NORM, 40 + rank, 0), (Leaf.SORT, 30, 30), (Leaf.WAIT, 30, 0))
    ])  # fmt: skip
    assert {(one.leaf, one.rank, one.waited_ns) for one in found if one.rank is not None} == {
        (Leaf.SORT, 0, 15), (Leaf.SORT, 1, 15)
    }  # fmt: skip


def test_a_wait_for_a_rank_that_waits_leads_to_the_last_one() -> None:
    found = tree_of([
        row(0, Leaf.WAIT, 90, awaited=1), row(1, Leaf.WAIT, 90, awaited=2, held=90), row(2, Leaf.PYTHON, 90, held=90),
    ])  # fmt: skip
    assert {(one.leaf, one.rank): (one.total_ns, one.waited_ns) for one in found} == {
        (Leaf.PYTHON, 2): (60, 60), (Leaf.PYTHON, None): (30, 0),
    }  # fmt: skip


def test_two_ranks_that_wait_for_each_other_and_one_that_was_not_collected_stay_waits() -> None:
    circle = tree_of([row(0, Leaf.WAIT, 50, awaited=1, held=50), row(1, Leaf.WAIT, 50, awaited=0, held=50)])
    assert {one.leaf for one in circle} == {Leaf.WAIT}
    assert sum(one.total_ns for one in circle) == 50
    (absent,) = tree_of([row(0, Leaf.WAIT, 70, awaited=9)])
    assert (absent.leaf, absent.rank, absent.total_ns) == (Leaf.WAIT, 9, 70)


@pytest.mark.parametrize("seed", range(30))
def test_the_tree_of_a_job_is_as_long_as_the_mean_of_its_ranks(seed: int) -> None:
    dice = random.Random(seed)
    rows = [
        row(rank, leaf, dice.randint(0, 10**6), held=dice.choice((0, dice.randint(0, 10**6))),
            awaited=dice.choice((None, *range(5))) if leaf is Leaf.WAIT else None)
        for rank in range(4) for leaf in dice.sample([*Leaf], 6)
    ]  # fmt: skip
    found = tree_of(rows)
    assert 0 <= sum(one.total_ns for one in rows) / 4 - sum(one.total_ns for one in found) < len(found)


def test_rows_beyond_the_longest_are_one_a_leaf_and_no_time_is_cut() -> None:
    names = [str(number) for number in range(MOST + 50)]
    rows = [row(0, Leaf.PYTHON, 1_000 + len(names) - at, what=name) for at, name in enumerate(names)]
    found = tree_of([*rows, row(0, Leaf.NORM, 1), row(0, Leaf.SORT, 2)])
    assert len(found) == MOST + 3
    assert sum(one.total_ns for one in found) == sum(one.total_ns for one in rows) + 3
    assert {(one.leaf, one.how) for one in found[MOST:]} == {
        (Leaf.PYTHON, How.OTHERS), (Leaf.NORM, How.OTHERS), (Leaf.SORT, How.OTHERS)
    }  # fmt: skip
    assert sum(one.curable_ns or 0 for one in found) == sum(one.total_ns for one in found)


def test_the_cause_of_a_real_straggler_leads_the_tree_of_its_job(
    shared: object, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path))
    tree = hermes.analyze(f"{shared}/hunt/r2_torchrec_sleep_rank2", engine="serial").tree
    first = tree.row(0, named=True)
    assert (first["leaf"], first["place"], first["rank"]) == ("not_recorded", "# running sparse arch", 2)
    assert first["share"] > 0.65
    assert tree["share"].sum() == pytest.approx(1, abs=1e-6)
