"""Dumps of msMemScope: blocks with their operator and their end, the curves of pools and driver."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hermes.base.errors import HermesError
from hermes.profiles.api import analyze, load
from hermes.profiles.read.ascend.memscope import MemscopeReader
from hermes.profiles.read.table_sink import Sink
from hermes.report.report_json import to_json
from hermes.store.cache import Cache

_HEADER = ("ID", "Event", "Event Type", "Name", "Timestamp(ns)", "Process Id", "Thread Id", "Device Id", "Ptr", "Attr",
           "Call Stack(Python)", "Call Stack(C)")  # fmt: skip
_T = 1_760_000_000_000_000_000
_EVENTS: tuple[tuple[str, str, str, int, str, dict[str, object]], ...] = (
    ("SYSTEM", "ACL_INIT", "N/A", 0, "N/A", {}),
    ("MALLOC", "HAL", "N/A", 10, "0x9000", {"addr": "0x9000", "size": 4096, "owner": "", "page_type": "huge"}),
    ("OP_LAUNCH", "ATEN_START", "aten::linear", 20, "N/A", {}),
    ("OP_LAUNCH", "ATEN_START", "aten::mm", 30, "N/A", {}),
    ("MALLOC", "PTA", "N/A", 40, "0x9010", {"allocation_id": 1, "addr": "0x9010", "size": 512, "owner": "PTA@model",
                                            "total": 4096, "used": 512, "inefficient": "early_allocation"}),
    ("OP_LAUNCH", "ATEN_END", "aten::mm", 50, "N/A", {}),
    ("OP_LAUNCH", "ATEN_END", "aten::linear", 60, "N/A", {}),
    ("ACCESS", "READ", "aten.add", 65, "0x9010", {"dtype": "torch.float16", "size": 512, "allocation_id": 1}),
    ("MALLOC", "PTA", "N/A", 70, "0x9020", {"allocation_id": 2, "addr": "0x9020", "size": 256, "owner": "PTA@optimizer",
                                            "total": 4096, "used": 768}),
    ("FREE", "PTA", "N/A", 90, "0x9010", {"allocation_id": 1, "addr": "0x9010", "size": 512, "total": 4096,
                                          "used": 256}),
    ("FREE", "HAL", "N/A", 95, "0x9000", {"addr": "0x9000", "size": 4096}),
)  # fmt: skip


def _cells(number: int, attributes: str) -> tuple[object, ...]:
    event, kind, name, at, pointer, _ = _EVENTS[number]
    return (number, event, kind, name, _T + at, 123, 1234, 0, pointer, attributes, "", "")


def _text(folder: Path) -> Path:
    path = folder / "memscope_dump_20250428113810.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(_HEADER)
        for number, event in enumerate(_EVENTS):
            told = ",".join(f"{name}:{value}" for name, value in event[5].items())
            out.writerow(_cells(number, f"{{{told}}}" if told else "N/A"))
    return path


def _database(folder: Path) -> Path:
    path = folder / "memscope_dump_20250428113810.db"
    with closing(sqlite3.connect(path)) as con:
        con.execute(f"CREATE TABLE memscope_dump ({', '.join(json.dumps(name) for name in _HEADER)})")
        rows = [_cells(number, json.dumps({key: str(value) for key, value in event[5].items()}))
                for number, event in enumerate(_EVENTS)]  # fmt: skip
        con.executemany(f"INSERT INTO memscope_dump VALUES ({','.join('?' * len(_HEADER))})", rows)
        con.commit()
    return path


@pytest.fixture(params=["text", "database"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    """The tables of the dump in one of its two forms."""
    path = (_text if request.param == "text" else _database)(tmp_path)
    reader = MemscopeReader()
    (source,) = reader.claim([path])
    sink = Sink(tmp_path / "tables", 0)
    reader.read(source, 0, sink)
    sink.fill()
    return sink


def test_a_block_is_named_by_the_operator_that_runs_else_by_its_owner(sink: Sink) -> None:
    rows = sink.read("allocation").select("name", "bytes", "alloc_ns", "release_ns").rows()
    assert rows == [("aten::mm", 512, _T + 40, _T + 90), ("PTA@optimizer", 256, _T + 70, None)]


def test_the_pool_and_the_driver_are_curves_of_their_own(sink: Sink) -> None:
    rows = sink.read("memory").select("component", "ts_ns", "allocated_bytes", "reserved_bytes").rows()
    assert [(name, at - _T, used, taken) for name, at, used, taken in rows] == [
        ("HAL", 10, None, 4096), ("PTA", 40, 512, 4096), ("PTA", 70, 768, 4096), ("PTA", 90, 256, 4096),
        ("HAL", 95, None, 0),
    ]  # fmt: skip


def test_operators_are_nested_calls(sink: Sink) -> None:
    rows = sink.read("host_op").sort("start_ns").select("name", "dur_ns", "depth").rows()
    assert rows == [("aten::linear", 40, 0), ("aten::mm", 20, 1)]


def test_what_the_tool_calls_inefficient_is_counted(sink: Sink) -> None:
    rows = sink.read("statistic").select("source", "name", "count", "value").rows()
    assert rows == [("memscope", "early_allocation", 1, 512.0)]


def test_a_dump_is_analysed_as_the_memory_of_a_rank(tmp_path: Path) -> None:
    _text(tmp_path)
    report = analyze(load([tmp_path], Cache(tmp_path / "cache")))
    memory = json.loads(to_json(report))["memory"]
    assert {row["component"]: row["allocated_bytes"] for row in memory["peaks"]} == {"HAL": None, "PTA": 768}
    assert [(row["operator"], row["bytes"]) for row in memory["holders"]] == [("aten::mm", 512), ("PTA@optimizer", 256)]


@pytest.mark.parametrize("text", ["", "ID,Event\n", "\x00\x01", "a,b\n1,2\n"])
def test_what_is_no_dump_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "memscope_dump_1.csv").write_text(text)
    with pytest.raises(HermesError):
        load([tmp_path], Cache(tmp_path / "cache"))
