"""`hermes analyze --steps` measures the steps asked for as the whole capture has them, and no other."""

from __future__ import annotations

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


@pytest.mark.parametrize("asked", [{11}, {10, 12}])
def test_the_steps_asked_for_are_those_of_the_whole_capture(job: Path, tmp_path: Path, asked: set[int]) -> None:
    whole, some = (analyze(load([job], Cache(tmp_path), steps=steps)) for steps in (None, asked))
    assert some.steps == tuple(row for row in whole.steps if row.step in asked)
    assert len(some.steps) == 2 * len(asked)


def test_no_row_of_another_step_is_left(job: Path, tmp_path: Path) -> None:
    loaded = load([job], Cache(tmp_path), steps={11})
    for rank in loaded.ranks:
        for name in ("kernel", "comm_op", "host_op", "step"):
            assert set(rank.table(name)["step"].drop_nulls().to_list()) == {11}


def test_steps_that_are_not_there_are_refused_with_those_that_are(job: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        load([job], Cache(tmp_path), steps={99})
    assert "10, 11, 12" in say(refused.value.hint)
