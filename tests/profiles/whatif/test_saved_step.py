"""A step that was saved is the step that it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.load_replay_step import step_of
from hermes.profiles.whatif import saved_step
from hermes.profiles.whatif.changes import parse
from hermes.profiles.whatif.replay import predict, predictions
from hermes.profiles.whatif.saved_step import restored, save
from hermes.profiles.whatif.step_event_graph import JobStep
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, generate


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> JobStep:
    root = tmp_path_factory.mktemp("kept")
    job = Job(ranks=4, steps=2, layers=1, faults=(Fault(kind="gc_pause", ranks=(2,)),))
    loaded = load([generate(root / "job", job, formats=["kineto"])], Cache(root / "cache"))
    return step_of(loaded, outlined(loaded))


def test_every_replay_is_the_same(step: JobStep, tmp_path: Path) -> None:
    save(step, tmp_path / "step.npz")
    again = restored(tmp_path / "step.npz")
    assert again is not None
    assert predictions(again) == predictions(step) != []
    changes = [parse(spec) for spec in ("comm:*=0.5", "host:garbage-collection=0", "rank:2=median")]
    assert predict(again, changes) == predict(step, changes)
    assert np.array_equal(again.reason, step.reason)
    assert (again.begin_ns, again.end_ns) == (step.begin_ns, step.end_ns)


def test_what_is_no_such_step_is_none(step: JobStep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "step.npz"
    assert restored(path) is None
    save(step, path)
    whole = path.read_bytes()
    for damaged in (b"", b"PK", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        assert restored(path) is None
    path.write_bytes(whole)
    monkeypatch.setattr(saved_step, "REASONS", ("another",))
    assert restored(path) is None
