"""Every file of the input is said to be read, not needed or not known; none is left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes.base.say import say
from hermes.profiles.read.discover import FoundCapture, claimed
from hermes.profiles.read.files_seen import files_seen
from hermes.store.input_files import walk
from hermes_testing import Job, generate


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A capture with its export, its raw data, and files that are none of a profiler."""
    made = generate(tmp_path / "made", Job(ranks=1, steps=1, seed=0, faults=()), formats=["ascend-raw", "ascend-text"])
    (raw,) = (path for path in (made / "ascend-raw").iterdir() if path.is_dir())
    (text,) = (path for path in (made / "ascend-text").iterdir() if path.is_dir())
    (text / "ASCEND_PROFILER_OUTPUT").rename(raw / "ASCEND_PROFILER_OUTPUT")
    (raw / "ASCEND_PROFILER_OUTPUT" / "analyse.done").touch()
    (raw / "ASCEND_PROFILER_OUTPUT" / "novelty_3.bin").write_bytes(b"?")
    return raw


def _said(files: Sequence[Path]) -> dict[str, tuple[str, str]]:
    sources = claimed(files)
    rows = files_seen(files, sources, [FoundCapture(source=source, rank=0) for source in sources])
    assert sum(row.count for row in rows) == len(files)
    return {row.name: (row.state, say(row.why)) for row in rows}


def test_what_was_exported_is_not_needed_and_the_unknown_comes_first(exported: Path) -> None:
    said = _said(walk([exported]))
    assert next(iter(said)) == "novelty_N.bin"
    assert said["novelty_N.bin"] == ("not known", "")
    assert said["trace_view.json"] == ("read", "")
    assert said["torch.op_range"] == ("not needed", "raw data of the framework that was exported")
    assert said["stars_soc.data.N.slice_N"] == ("not needed", "raw data of the device that was exported")
    assert said["analyse.done"] == ("not needed", "a mark of the tool that wrote the folder")


def test_of_a_raw_capture_the_device_s_data_is_not_known(exported: Path) -> None:
    files = [path for path in walk([exported]) if path.parent.name != "ASCEND_PROFILER_OUTPUT"]
    said = _said(files)
    assert said["stars_soc.data.N.slice_N"] == ("not known", "raw data of the device: only CANN's tools read it")
    assert said["torch.op_range"] == ("read", "")


def test_many_kinds_of_files_are_a_few_rows_and_none_is_lost(tmp_path: Path) -> None:
    for name in range(400):
        (tmp_path / f"{'x' * (name % 97)}{'y' * (name // 97)}.unknown").touch()
    rows = files_seen(walk([tmp_path]), [], [])
    assert len(rows) == 301
    assert sum(row.count for row in rows) == 400
