"""The modelled files look like real ones: same columns, same keys, same kinds of values."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hermes_testing import Job, Options
from hermes_testing.generate import Format
from hermes_testing.job import Level

Written = Callable[[Format, Job, Options], Path]
LEVELS: tuple[Level, ...] = ("Level0", "Level2")


def _job(level: Level) -> Job:
    return Job(ranks=2, steps=2, layers=2, level=level, stacks=True)


def _output(folder: Path, rank: int = 0) -> Path:
    (info,) = folder.glob(f"*/profiler_info_{rank}.json")
    return info.parent / "ASCEND_PROFILER_OUTPUT"


def _kind(text: str) -> str:
    tab = "+tab" if text.endswith("\t") else ""
    plain = text.strip()
    if plain in ("", "N/A"):
        return "none"
    if re.fullmatch(r"-?\d+", plain):
        return "int" + tab
    if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", plain):
        return "decimal" + tab
    return ("quoted" if plain.startswith('"') else "text") + tab


def _columns(path: Path) -> dict[str, set[str]]:
    with path.open(newline="", encoding="utf-8") as source:
        rows = list(csv.reader(source))
    kinds: dict[str, set[str]] = {name: set() for name in rows[0]}
    for row in rows[1:]:
        for name, cell in zip(rows[0], row, strict=True):
            kinds[name].add(_kind(cell))
    return kinds


CSVS = (
    "kernel_details.csv",
    "step_trace_time.csv",
    "op_statistic.csv",
    "api_statistic.csv",
    "operator_details.csv",
    "memory_record.csv",
    "operator_memory.csv",
    "npu_module_mem.csv",
)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CSVS)
def test_a_csv_has_the_columns_and_kinds_of_values_of_a_real_one(
    shared: Path, written: Written, level: Level, name: str
) -> None:
    real = shared / f"ascend/alexnet_text_level{level[-1]}/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT" / name
    made = _output(written("ascend-text", _job(level), Options())) / name
    assert made.exists() == real.exists()
    if not real.exists():
        return
    expected, found = _columns(real), _columns(made)
    assert list(found) == list(expected)
    for column, kinds in found.items():
        assert kinds <= expected[column] | {"none"}, (column, kinds, expected[column])
        assert kinds - {"none"} or not expected[column] - {"none"}, column


def _value_kind(value: object) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _shapes(events: list[dict[str, object]]) -> dict[tuple[str, str, str], list[dict[str, object]]]:
    names = {
        event["pid"]: str(event["args"]["name"])  # type: ignore[index]
        for event in events
        if event["name"] == "process_name"
    }
    found: dict[tuple[str, str, str], list[dict[str, object]]] = defaultdict(list)
    for event in events:
        process = names.get(event["pid"], "?")
        found[process, str(event["ph"]), str(event.get("cat", ""))].append(event)
    return found


def _args(events: list[dict[str, object]]) -> dict[str, set[str]]:
    kinds: dict[str, set[str]] = defaultdict(set)
    for event in events:
        args = event.get("args", {})
        assert isinstance(args, dict)
        for key, value in args.items():
            kinds[key].add(_value_kind(value))
    return kinds


@pytest.mark.parametrize("level", LEVELS)
def test_the_events_of_a_trace_have_the_keys_of_real_ones(shared: Path, written: Written, level: Level) -> None:
    real = shared / f"ascend/alexnet_text_level{level[-1]}/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"
    made = _output(written("ascend-text", _job(level), Options())) / "trace_view.json"
    expected, found = _shapes(json.loads(real.read_text())), _shapes(json.loads(made.read_text()))
    assert set(found) <= set(expected)
    lacking = {key[0] for key in set(expected) - set(found)}
    assert lacking <= {"Stars Soc Info", "Acc PMU", "QoS"}
    for key, events in found.items():
        keys = {tuple(sorted(event)) for event in events}
        assert keys <= {tuple(sorted(event)) for event in expected[key]}, key
        assert _args(events) == _args(expected[key]), key
        for field in ("ts", "dur", "id", "pid", "tid"):
            kinds = {_value_kind(event[field]) for event in events if field in event}
            assert kinds <= {_value_kind(event[field]) for event in expected[key] if field in event}, (
                key,
                field,
            )


def _paths(value: object, at: str = "") -> Iterator[tuple[str, str]]:
    """Every path of a JSON document with the kind of its value; names, sizes and ranks become `*`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            free = re.search(r"@\d{10,}|^step\d+$|^[\d.]+(e-\d+)?$|^\d+-\d+$", key)
            yield from _paths(inner, f"{at}/{'*' if free else key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, f"{at}[]")
    else:
        yield at, _value_kind(value)


@pytest.mark.parametrize("name", ["communication.json", "communication_matrix.json"])
def test_the_sums_of_communication_have_the_keys_of_real_ones(shared: Path, written: Written, name: str) -> None:
    real = shared / "ascend/alexnet_text_level2/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT" / name
    made = _output(written("ascend-text", _job("Level2"), Options())) / name
    assert set(_paths(json.loads(made.read_text()))) == set(_paths(json.loads(real.read_text())))


@pytest.mark.parametrize("level", LEVELS)
def test_the_profiler_info_has_the_keys_of_a_real_one(shared: Path, written: Written, level: Level) -> None:
    real = shared / f"ascend/alexnet_text_level{level[-1]}/rank0_ascend_pt/profiler_info_0.json"
    made = _output(written("ascend-text", _job(level), Options())).parent / "profiler_info_0.json"
    assert set(_paths(json.loads(made.read_text()))) == set(_paths(json.loads(real.read_text())))


def _schema(path: Path) -> dict[str, list[tuple[str, str]]]:
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as con:
        tables = [row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: [(row[1], row[2]) for row in con.execute(f"PRAGMA table_info({table})")] for table in tables}


def _stored(path: Path, table: str) -> dict[str, set[str]]:
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as con:
        columns = [row[1] for row in con.execute(f"PRAGMA table_info({table})")]
        return {
            column: {row[0] for row in con.execute(f"SELECT DISTINCT typeof({column}) FROM {table}")}
            for column in columns
        }


DATABASES = ("ascend_pytorch_profiler_0.db", "analysis.db")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", DATABASES)
def test_a_database_has_the_tables_and_types_of_a_real_one(
    shared: Path, written: Written, level: Level, name: str
) -> None:
    real = shared / f"ascend/alexnet_db_level{level[-1]}/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT" / name
    made = _output(written("ascend-db", _job(level), Options())) / name
    expected, found = _schema(real), _schema(made)
    assert set(found) <= set(expected)
    assert set(expected) - set(found) <= {"NPU_OP_MEM", "SOC_BANDWIDTH_LEVEL", "ACC_PMU"}
    for table, columns in found.items():
        assert columns == expected[table], table
        stored, usual = _stored(made, table), _stored(real, table)
        for column, types in stored.items():
            numbers = {"integer", "real"}
            extra = numbers if usual[column] & numbers else set()
            assert types <= usual[column] | extra | {"null"}, (table, column, types, usual[column])


def test_the_enumerations_are_those_of_a_real_database(shared: Path, written: Written) -> None:
    real = shared / "ascend/alexnet_db_level2/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT" / DATABASES[0]
    made = _output(written("ascend-db", _job("Level2"), Options())) / DATABASES[0]
    for table in (name for name in _schema(real) if name.startswith("ENUM_")):
        rows = []
        for path in (real, made):
            with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as con:
                rows.append(sorted(con.execute(f"SELECT * FROM {table}")))
        assert rows[0] == rows[1], table


KINETO = {"cuda": "h100_qwen1.5-0.5b", "rocm": "mi300_qwen1.5-0.5b", "cpu": "cpu_only_rank34"}


@pytest.mark.parametrize("device", ["cuda", "rocm", "cpu"])
def test_a_kineto_trace_has_the_keys_of_a_real_one(shared: Path, written: Written, device: str) -> None:
    options = Options(device=device)  # type: ignore[arg-type]
    made = json.loads((written("kineto", _job("Level1"), options) / "rank0.pt.trace.json").read_text())
    real = json.loads(gzip.decompress((shared / f"kineto/{KINETO[device]}.json.gz").read_bytes()))
    known = {key for key in real if key not in ("metadata", "username", "INFO", "trace_id", "profile_memory")}
    flags = {"distributedInfo", "record_shapes", "with_stack", "with_modules", "with_flops"}
    assert known <= set(made) <= known | flags
    assert set(made["deviceProperties"][0] if made["deviceProperties"] else ()) <= set(
        real["deviceProperties"][0] if real["deviceProperties"] else ()
    )
    _compare_events(_by_category(real["traceEvents"]), _by_category(made["traceEvents"]))


def _by_category(events: list[dict[str, object]]) -> dict[tuple[str, str], list[dict[str, object]]]:
    found: dict[tuple[str, str], list[dict[str, object]]] = defaultdict(list)
    for event in events:
        if "Collective name" not in str(event.get("args")):  # no collective in the real files
            found[str(event["ph"]), str(event.get("cat", event["name"]))].append(event)
    return found


def _compare_events(
    real: dict[tuple[str, str], list[dict[str, object]]], made: dict[tuple[str, str], list[dict[str, object]]]
) -> None:
    optional = {"finished", "Sequence number", "Fwd thread id"}
    for key in set(made) & set(real):
        assert {tuple(sorted(event)) for event in made[key]} <= {tuple(sorted(event)) for event in real[key]}, key
        assert set(_args(made[key])) - optional <= set(_args(real[key])), key
        kinds = {name: values for name, values in _args(made[key]).items() if name not in optional}
        for name, values in kinds.items():
            assert values <= _args(real[key])[name], (key, name)
