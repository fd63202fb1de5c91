"""Ranks in several processes: the same report, and no rank is lost without its name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.profiles.engines.tasks import Task, doubled, refused, wrong

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.profiles.engines.choose import ByRanks, engine_of
from hermes.profiles.engines.engine import LostRank
from hermes.profiles.engines.processes import Processes
from hermes.profiles.engines.serial import Serial
from hermes.profiles.load import load, without
from hermes.profiles.pipeline.analyze import analyze
from hermes.report.report_json import to_json
from hermes.store.cache import Cache
from hermes_testing import Job, generate

pytestmark = pytest.mark.live


@pytest.fixture
def two() -> Iterator[Processes]:
    engine = Processes(2)
    yield engine
    engine.close()


def tasks(count: int) -> dict[int, Task]:
    return {rank: Task(number=rank) for rank in range(count)}


@pytest.mark.smoke
def test_every_rank_is_done_by_one_of_the_processes(two: Processes) -> None:
    found = two.map(doubled, tasks(6))
    assert {rank: made[0] for rank, made in found.items() if not isinstance(made, LostRank)} == {
        n: 2 * n for n in range(6)
    }
    assert os.getpid() not in {made[1] for made in found.values() if not isinstance(made, LostRank)}


def test_the_rank_of_a_process_that_died_is_done_again(two: Processes, tmp_path: Path) -> None:
    asked = tasks(4) | {2: Task(number=2, dies=tmp_path / "died")}
    found = two.map(doubled, asked)
    assert (tmp_path / "died").exists()
    assert [made[0] for _, made in sorted(found.items()) if not isinstance(made, LostRank)] == [0, 2, 4, 6]


def test_a_rank_that_kills_every_process_is_lost_by_name_and_no_other(two: Processes, tmp_path: Path) -> None:
    asked = tasks(4) | {2: Task(number=2, dies=tmp_path / "died", always=True)}
    found = two.map(doubled, asked)
    lost = found.pop(2)
    assert isinstance(lost, LostRank)
    assert (lost.rank, lost.error.where) == (2, "rank 2")
    assert "SIGKILL" in say(lost.error.what)
    assert len([made for made in found.values() if not isinstance(made, LostRank)]) == 3


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_an_error_that_a_user_can_act_on_loses_its_rank(engine: str) -> None:
    with engine_of(engine, 1) as chosen:
        found = chosen.map(refused, tasks(2))
    assert found[0] == 0
    lost = found[1]
    assert isinstance(lost, LostRank)
    assert (lost.error.what, lost.error.hint) == ("an odd number", "take an even one")


def test_a_fault_in_the_code_ends_the_whole_and_names_the_rank(two: Processes) -> None:
    with pytest.raises(RuntimeError, match=r"rank \d could not be analyzed(.|\n)*ZeroDivisionError"):
        two.map(wrong, tasks(3))


def test_processes_are_taken_from_four_ranks_on() -> None:
    engine = ByRanks(2)
    try:
        few = engine.map(doubled, tasks(3))
        many = engine.map(doubled, tasks(4))
    finally:
        engine.close()
    assert {made[1] for made in few.values() if not isinstance(made, LostRank)} == {os.getpid()}
    assert os.getpid() not in {made[1] for made in many.values() if not isinstance(made, LostRank)}


def test_an_engine_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="is not an engine"), engine_of("threads"):
        pass


@pytest.mark.smoke
def test_the_report_does_not_depend_on_who_worked_on_the_ranks(tmp_path: Path, two: Processes) -> None:
    job = generate(tmp_path / "job", Job(ranks=4, steps=2, layers=1, tp=2), formats=["ascend-text"])
    alone = analyze(load([job], Cache(tmp_path / "one")), engine=Serial(1))
    shared = analyze(load([job], Cache(tmp_path / "other"), engine=two), engine=two)
    assert to_json(shared) == to_json(alone)


def test_what_is_lost_on_the_way_is_named_in_the_report_of_the_others(tmp_path: Path) -> None:
    job = generate(tmp_path / "job", Job(ranks=3, steps=2, layers=1), formats=["kineto"])
    loaded = load([job], Cache(tmp_path / "cache"))

    class Losing(Serial):
        def map(self, function, given):  # type: ignore[no-untyped-def]
            found = super().map(function, given)
            gone = InputError("the node of rank 1 was lost", where="rank 1")
            return found | ({1: LostRank(rank=1, error=gone)} if 1 in given else {})

    report = analyze(loaded, engine=Losing())
    assert report.coverage.ranks_seen == (0, 2)
    assert "the node of rank 1 was lost" in {say(note.message) for note in report.diagnostics}
    with pytest.raises(InputError, match="and 2 more like it"):
        without(loaded, {rank: InputError("gone") for rank in range(3)})
