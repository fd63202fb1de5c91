"""`hermes analyze --steps` measures the steps asked for as the whole capture has them, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.profiles.api import analyze, load
from hermes.store.cache import Cache
from hermes_testing import Job, generate


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of two ranks."""
    made = generate(tmp_path_factory.mktemp("made"), Job(ranks=2, steps=3, seed=3), formats=["ascend-text"])
    return made


def test_the_steps_asked_for_are_those_of_the_whole_capture(job: Path, tmp_path: Path) -> None:
    whole, some = (analyze(load([job], Cache(tmp_path), steps=steps)) for steps in (None, {10, 11}))
    assert some.steps == tuple(row for row in whole.steps if row.step != 12)
    assert len(some.steps) == 4


def test_a_step_asked_for_without_the_one_before_begins_with_its_mark(job: Path, tmp_path: Path) -> None:
    loaded = load([job], Cache(tmp_path), steps={11})
    whole, some = (analyze(one) for one in (load([job], Cache(tmp_path)), loaded))
    starts = {rank.rank: rank.table("step")["start_ns"][0] for rank in loaded.ranks}
    for row, other in zip((row for row in whole.steps if row.step == 11), some.steps, strict=True):
        assert other.start_ns == starts[other.rank]
        assert other.start_ns + other.window_ns == row.start_ns + row.window_ns
        assert replace(other, start_ns=0, window_ns=0, free_ns=0) == replace(row, start_ns=0, window_ns=0, free_ns=0)


def test_no_row_of_another_step_is_left(job: Path, tmp_path: Path) -> None:
    loaded = load([job], Cache(tmp_path), steps={11})
    for rank in loaded.ranks:
        for name in ("kernel", "comm_op", "host_op", "step"):
            assert set(rank.table(name)["step"].drop_nulls().to_list()) == {11}


def test_steps_that_are_not_there_are_refused_with_those_that_are(job: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        load([job], Cache(tmp_path), steps={99})
    assert "10, 11, 12" in say(refused.value.hint)
