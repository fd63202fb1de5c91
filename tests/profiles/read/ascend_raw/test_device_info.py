"""Cores and clock of a device that CANN writes beside its records: they tell a chip without a name."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.shared_jobs import Jobs

from hermes.model.tables.device_settings import CUBE_CLOCK, CUBES
from hermes.profiles.measure.compute.compute_of_rank import compute_of
from hermes.profiles.measure.compute.operator_signatures import own_chip
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.read.ascend.device_info import add_device
from hermes.profiles.read.table_sink import Sink

_RANK = {
    "capture": "c", "format": "ascend-db", "framework": "pytorch", "vendor": "ascend", "device_id": 1, "epoch_ns": 0,
}  # fmt: skip


def _told(folder: Path, *files: object) -> dict[str, str]:
    sink = Sink(folder / "sink", 0)
    sink.frame("rank", pl.DataFrame([_RANK]))
    sink.frame("setting", pl.DataFrame({"source": ["job"], "name": ["world_size"], "value": ["8"]}))
    paths = []
    for number, content in enumerate(files):
        path = folder / f"device_{number}" / f"info.json.{number}"
        path.parent.mkdir()
        path.write_text(json.dumps(content) if not isinstance(content, str) else content, "utf-8")
        paths.append(path)
    add_device(paths, sink)
    return dict(sink.read("setting").select("name", "value").iter_rows())


def _device(number: int, cubes: object = 20, vectors: object = 40, clock: object = "1650") -> dict[str, object]:
    return {"DeviceInfo": [{"id": number, "ai_core_num": cubes, "aiv_num": vectors, "aic_frequency": clock}]}


def test_the_cores_of_the_device_of_the_rank_are_settings(tmp_path: Path) -> None:
    told = _told(tmp_path, _device(0, 24, 48), _device(1))
    assert told == {"world_size": "8", CUBES: "20", CUBE_CLOCK: "1650"}


@pytest.mark.parametrize(
    "content",
    ["", "[1]", "{}", {"DeviceInfo": [None, {}]}, _device(1, "x"), _device(1, 32, 0), _device(1, 20, 40, -5),
     _device(1, 20, 40, None)],
)  # fmt: skip
def test_what_says_nothing_of_split_cores_adds_nothing(content: object, tmp_path: Path) -> None:
    assert _told(tmp_path, content) == {"world_size": "8"}


def test_a_real_capture_without_counters_knows_its_chip_by_them(jobs: Jobs) -> None:
    rank = RankTables(jobs.real("hunt/a1_rawprof").ranks[0])
    compute = rank.once(compute_of)
    assert compute is not None
    chip = own_chip(compute)
    assert chip is not None
    assert (chip.cores, chip.vector_cores, chip.mhz) == (20, 40, 1650)
