"""A timeline of an Ascend device is known by what is in it, whatever somebody called the file."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

import hermes
from hermes.profiles.read.discover import claimed
from hermes.store.input_files import walk
from hermes_testing import Job, generate

JOB = Job(ranks=2, steps=2, layers=1)


@pytest.fixture(scope="module")
def timelines(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = generate(tmp_path_factory.mktemp("renamed") / "job", JOB, formats=["ascend-text"])
    return sorted(made.rglob("trace_view.json"))


@pytest.mark.parametrize("form", ["a list", "an object", "compressed"])
def test_its_leaves_are_those_of_the_timeline_under_its_own_name(
    timelines: list[Path], tmp_path: Path, form: str
) -> None:
    events = json.loads(timelines[0].read_text("utf-8"))
    own, other = json.dumps(events), json.dumps({"traceEvents": events} if form == "an object" else events)
    packed = form == "compressed"
    for place, name, data in (
        ("own", "trace_view.json", own.encode()),
        ("other", "eager_rank0.json.gz" if packed else "eager_rank0.json",
         gzip.compress(other.encode()) if packed else other.encode()),
    ):  # fmt: skip
        (tmp_path / place).mkdir()
        (tmp_path / place / name).write_bytes(data)
    found = [hermes.analyze(tmp_path / place).tree for place in ("own", "other")]
    assert [(one.reader, one.rank) for one in claimed(walk([tmp_path / "other"]))] == [("ascend", 0)]
    assert found[0].height
    assert found[1].equals(found[0])


def test_each_is_a_capture_and_takes_nothing_from_what_lies_beside_it(timelines: list[Path], tmp_path: Path) -> None:
    for rank, path in enumerate(timelines):
        shutil.copy(path, tmp_path / f"rank{rank}.json")
    shutil.copytree(timelines[0].parents[1], tmp_path / "below" / timelines[0].parents[1].name)
    found = claimed(walk([tmp_path]))
    assert sorted((one.rank, len(one.files) > 1) for one in found) == [(0, False), (0, True), (1, False)]
