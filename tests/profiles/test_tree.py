"""The tree of a job: waits are what the awaited rank did, and nothing is lost on the way."""

from __future__ import annotations

import random

import pytest

import hermes
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime
from hermes.profiles.tree.job import JobLeaf, job_tree


def row(rank: int, leaf: Leaf, ns: int, *, held: int = 0, awaited: int | None = None, what: str = "") -> LeafTime:
    return LeafTime(
        rank=rank, leaf=leaf, how=How.CALL, what=what, place="", awaited=awaited, total_ns=ns, step_ns=ns,
        held_ns=held, long_ns=0,
    )  # fmt: skip


def test_a_wait_is_what_the_awaited_rank_did() -> None:
    found = job_tree([
        row(0, Leaf.MATRIX_PRODUCT, 40), row(0, Leaf.WAIT, 60, awaited=1),
        row(1, Leaf.MATRIX_PRODUCT, 40), row(1, Leaf.HOST_OPERATOR, 60, held=60, what="cat"),
    ])  # fmt: skip
    assert found == (
        JobLeaf(leaf=Leaf.MATRIX_PRODUCT, what="", place="", rank=None, ns=40, waited_ns=0),
        JobLeaf(leaf=Leaf.HOST_OPERATOR, what="cat", place="", rank=None, ns=30, waited_ns=0),
        JobLeaf(leaf=Leaf.HOST_OPERATOR, what="cat", place="", rank=1, ns=30, waited_ns=30),
    )


def test_a_wait_for_a_rank_that_waits_leads_to_the_last_one() -> None:
    found = job_tree([
        row(0, Leaf.WAIT, 90, awaited=1), row(1, Leaf.WAIT, 90, awaited=2, held=90), row(2, Leaf.PYTHON, 90, held=90),
    ])  # fmt: skip
    assert {(one.leaf, one.rank): (one.ns, one.waited_ns) for one in found} == {
        (Leaf.PYTHON, 2): (60, 60), (Leaf.PYTHON, None): (30, 0),
    }  # fmt: skip


def test_two_ranks_that_wait_for_each_other_and_one_that_was_not_collected_stay_waits() -> None:
    circle = job_tree([row(0, Leaf.WAIT, 50, awaited=1, held=50), row(1, Leaf.WAIT, 50, awaited=0, held=50)])
    assert {one.leaf for one in circle} == {Leaf.WAIT}
    assert sum(one.ns for one in circle) == 50
    (absent,) = job_tree([row(0, Leaf.WAIT, 70, awaited=9)])
    assert (absent.leaf, absent.rank, absent.ns) == (Leaf.WAIT, 9, 70)


@pytest.mark.parametrize("seed", range(30))
def test_the_tree_of_a_job_is_as_long_as_the_mean_of_its_ranks(seed: int) -> None:
    dice = random.Random(seed)
    rows = [
        row(rank, leaf, dice.randint(0, 10**6), held=dice.choice((0, dice.randint(0, 10**6))),
            awaited=dice.choice((None, *range(5))) if leaf is Leaf.WAIT else None)
        for rank in range(4) for leaf in dice.sample([*Leaf], 6)
    ]  # fmt: skip
    found = job_tree(rows)
    assert 0 <= sum(one.total_ns for one in rows) / 4 - sum(one.ns for one in found) < len(found)


def test_the_cause_of_a_real_straggler_leads_the_tree_of_its_job(
    shared: object, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path))
    tree = hermes.analyze(f"{shared}/hunt/r2_torchrec_sleep_rank2").tree
    first = tree.row(0, named=True)
    assert (first["leaf"], first["place"], first["rank"]) == ("not_recorded", "# running sparse arch", 2)
    assert first["share"] > 0.65
    assert tree["share"].sum() == pytest.approx(1, abs=1e-6)
