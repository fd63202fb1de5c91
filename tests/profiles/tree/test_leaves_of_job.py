"""The tree of a job is its path of waits: nothing is lost, and what a rank spends more can be won."""

from __future__ import annotations

import pytest

import hermes
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, JobLeaf
from hermes.profiles.tree.leaves_of_job import MOST, job_tree
from hermes.profiles.tree.path_of_waits import PathKey, WaitPath


def key(leaf: Leaf, what: str = "", rank: int | None = None) -> PathKey:
    return leaf, How.CALL, what, "", rank


def tree_of(times: dict[PathKey, int], curable: int | None = None) -> tuple[JobLeaf, ...]:
    return job_tree(WaitPath(times=times), lambda _leaf, _what, _ns: curable)


def test_what_a_rank_spends_more_can_be_won_whether_its_roof_is_known_or_not() -> None:
    found = tree_of({key(Leaf.MATRIX_PRODUCT): 60, key(Leaf.MATRIX_PRODUCT, rank=1): 40})
    assert [(one.rank, one.total_ns, one.share, one.curable_ns) for one in found] == [
        (None, 60, 0.6, None), (1, 40, 0.4, 40)
    ]  # fmt: skip


def test_neither_a_wait_nor_the_profiler_on_a_rank_is_work_to_win() -> None:
    found = tree_of({key(Leaf.WAIT, rank=9): 70, key(Leaf.PROFILER, rank=1): 30}, curable=0)
    assert [(one.leaf, one.rank, one.curable_ns) for one in found] == [(Leaf.WAIT, 9, 0), (Leaf.PROFILER, 1, 0)]


def test_rows_beyond_the_longest_are_one_a_leaf_and_no_time_is_cut() -> None:
    names = [str(number) for number in range(MOST + 50)]
    times = {key(Leaf.PYTHON, name): 1_000 + len(names) - at for at, name in enumerate(names)}
    found = tree_of(times | {key(Leaf.NORM): 1, key(Leaf.SORT): 2}, curable=1)
    assert len(found) == MOST + 3
    assert sum(one.total_ns for one in found) == sum(times.values()) + 3
    assert {(one.leaf, one.how) for one in found[MOST:]} == {
        (Leaf.PYTHON, How.OTHERS), (Leaf.NORM, How.OTHERS), (Leaf.SORT, How.OTHERS)
    }  # fmt: skip
    assert sum(one.curable_ns or 0 for one in found) == len(times) + 2


def test_the_cause_of_a_real_straggler_leads_the_tree_of_its_job(
    shared: object, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path))
    tree = hermes.analyze(f"{shared}/hunt/r2_torchrec_sleep_rank2", engine="serial").tree
    first = tree.row(0, named=True)
    assert (first["leaf"], first["place"], first["rank"]) == ("not_recorded", "# running sparse arch", 2)
    assert first["share"] > 0.9
    assert tree["share"].sum() == pytest.approx(1, abs=1e-6)
