"""What the modelled files say agrees between formats, with the truth, and with the rules of the formats."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.base.units import ns_of_us
from hermes.knowledge.ascend_codes import COMM_NAME, group_hash
from hermes_testing import Fault, Job, Options
from hermes_testing.generate import Format

Written = Callable[[Format, Job, Options], Path]
JOB = Job(ranks=4, steps=2, layers=2, pp=2, level="Level2")
Event = dict[str, object]


def _output(folder: Path, rank: int = 0) -> Path:
    (info,) = folder.glob(f"*/profiler_info_{rank}.json")
    return info.parent / "ASCEND_PROFILER_OUTPUT"


def _events(folder: Path, rank: int = 0) -> list[Event]:
    events = json.loads((_output(folder, rank) / "trace_view.json").read_text())
    assert isinstance(events, list)
    return events


def _truth(folder: Path) -> list[dict[str, int]]:
    rows = json.loads((folder / "truth.json").read_text())["steps"]
    assert isinstance(rows, list)
    return rows


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as source:
        return list(csv.DictReader(source))


@pytest.mark.parametrize("writer", ["2024", "2025"])
def test_the_step_trace_repeats_the_truth(written: Written, writer: str) -> None:
    folder = written("ascend-text", JOB, Options(writer=writer))  # type: ignore[arg-type]
    for rank in range(4):
        rows = _table(_output(folder, rank) / "step_trace_time.csv")
        for row, truth in zip(rows, (row for row in _truth(folder) if row["rank"] == rank), strict=True):
            assert ns_of_us(row["Computing"]) == truth["compute_ns"]
            assert ns_of_us(row["Communication(Not Overlapped)"]) == truth["exposed_ns"]
            assert ns_of_us(row["Free"]) == truth["free_ns"]
            assert ns_of_us(row["Bubble"]) == truth["bubble_ns"]
            assert ns_of_us(row["Preparing"]) == truth["preparing_ns"]


def test_the_overlap_lane_holds_what_the_truth_counted(written: Written) -> None:
    folder = written("ascend-text", JOB, Options())
    sums: dict[str, int] = {}
    for event in _events(folder):
        if event["ph"] == "X" and event["name"] in ("Computing", "Communication(Not Overlapped)"):
            sums[str(event["name"])] = sums.get(str(event["name"]), 0) + ns_of_us(str(event["dur"]))
    mine = [row for row in _truth(folder) if row["rank"] == 0]
    assert sums["Computing"] == sum(row["compute_ns"] for row in mine)
    assert sums["Communication(Not Overlapped)"] == sum(row["exposed_ns"] for row in mine)


def test_every_arrow_has_both_ends(written: Written) -> None:
    events = _events(written("ascend-text", JOB, Options()))
    for cat in ("async_task_queue", "fwdbwd", "async_npu", "HostToDevice"):
        starts = sorted(str(event["id"]) for event in events if event["ph"] == "s" and event["cat"] == cat)
        ends = sorted(str(event["id"]) for event in events if event["ph"] == "f" and event["cat"] == cat)
        assert starts == ends != []
        assert len(set(starts)) == len(starts)


def test_the_arrow_to_the_device_is_named_after_the_start_of_the_kernel(written: Written) -> None:
    for event in _events(written("ascend-text", JOB, Options())):
        if event.get("cat") == "async_npu" and event["ph"] == "f":
            assert event["id"] == ns_of_us(str(event["ts"]))


def test_ids_of_the_older_writer_exceed_64_bits_and_those_of_the_later_do_not(written: Written) -> None:
    for writer, large in (("2024", True), ("2025", False)):
        events = _events(written("ascend-text", JOB, Options(writer=writer)))  # type: ignore[arg-type]
        ids = [int(str(event["id"])) for event in events if event.get("cat") == "HostToDevice"]
        assert (max(ids) > 2**64) == large


def test_plane_tasks_appear_a_second_time_on_their_stream(written: Written) -> None:
    events = _events(written("ascend-text", JOB, Options()))
    planes = [event for event in events if event["ph"] == "X" and "notify_id" in str(event.get("args"))]
    doubles = [event for event in events if event["name"] in ("SDMA", "Write Value", "Notify Wait")]
    assert sorted(str(event["ts"]) for event in planes) == sorted(str(event["ts"]) for event in doubles)


def test_the_digits_in_the_name_of_an_operation_are_those_of_its_group(written: Written) -> None:
    output = _output(written("ascend-text", JOB, Options()))
    metadata = json.loads((output.parent / "profiler_metadata.json").read_text())
    hashes = {group_hash(name) for name in metadata["parallel_group_info"]}
    for step in json.loads((output / "communication.json").read_text()).values():
        for key in [*step["p2p"], *step["collective"]]:
            if key != "Total Op Info":
                name, _, hashed = key.partition("@")
                found = COMM_NAME.match(name)
                assert found is not None
                assert hashed in hashes
                assert hashed.endswith(found[2])


def test_the_parts_of_an_operation_add_up_to_its_time(written: Written) -> None:
    output = _output(written("ascend-text", JOB, Options()))
    for step in json.loads((output / "communication.json").read_text()).values():
        for record in [*step["p2p"].values(), *step["collective"].values()]:
            info = record["Communication Time Info"]
            parts = sum(info[f"{part} Time(ms)"] for part in ("Transit", "Wait", "Idle"))
            assert parts == pytest.approx(info["Elapse Time(ms)"])
            assert info["Synchronization Time(ms)"] <= info["Wait Time(ms)"]


def test_level0_has_no_cann_calls_and_no_sums_of_communication(written: Written) -> None:
    output = _output(written("ascend-text", replace(JOB, level="Level0"), Options()))
    assert not (output / "communication.json").exists()
    assert not (output / "op_statistic.csv").exists()
    text = (output / "trace_view.json").read_text()
    assert "AscendCL@" not in text
    assert '"cat": "HostToDevice"' in text


def test_a_collection_lies_on_its_own_lane(written: Written) -> None:
    events = _events(written("ascend-text", replace(JOB, faults=(Fault(kind="gc_pause"),)), Options()))
    assert sum(event.get("cat") == "GC" for event in events) == JOB.steps


def test_both_ascend_exports_hold_the_same_kernels(written: Written) -> None:
    text = _table(_output(written("ascend-text", JOB, Options())) / "kernel_details.csv")
    kernels = {(row["Name"], ns_of_us(row["Start Time(us)"])) for row in text}
    path = _output(written("ascend-db", JOB, Options())) / "ascend_pytorch_profiler_0.db"
    query = """
        SELECT s.value, t.startNs FROM TASK t JOIN COMPUTE_TASK_INFO c USING (globalTaskId)
        JOIN STRING_IDS s ON s.id = c.name
        UNION SELECT s.value, o.startNs FROM COMMUNICATION_OP o JOIN STRING_IDS s ON s.id = o.opName
    """
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as con:
        assert set(con.execute(query)) == kernels


def test_a_kernel_of_the_database_leads_to_the_operator_that_launched_it(written: Written) -> None:
    path = _output(written("ascend-db", JOB, Options())) / "ascend_pytorch_profiler_0.db"
    query = """
        SELECT count(*), count(p.name) FROM TASK t JOIN COMPUTE_TASK_INFO USING (globalTaskId)
        LEFT JOIN CONNECTION_IDS k ON k.connectionId = t.connectionId
        LEFT JOIN PYTORCH_API p ON p.connectionId = k.id AND p.type = 50001
    """
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as con:
        kernels, linked = con.execute(query).fetchone()
    assert linked >= kernels > 0


def test_the_later_schema_says_so_and_renames_its_columns(written: Written) -> None:
    path = _output(written("ascend-db", JOB, Options(schema="1.2"))) / "ascend_pytorch_profiler_0.db"
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as con:
        columns = [row[1] for row in con.execute("PRAGMA table_info(COMPUTE_TASK_INFO)")]
        version = dict(con.execute("SELECT name, value FROM META_DATA"))["SCHEMA_VERSION"]
    assert version == "1.2.0"
    assert "blockNum" in columns


def _kineto(folder: Path, name: str = "rank0.pt.trace.json") -> dict[str, list[Event]]:
    data = (folder / name).read_bytes()
    document = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    assert isinstance(document, dict)
    return document


def test_kineto_holds_the_same_compute_time(written: Written) -> None:
    folder = written("kineto", JOB, Options())
    events = _kineto(folder)["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel" and "nccl" not in str(event["name"])]
    spans = sorted((ns_of_us(str(event["ts"])), ns_of_us(str(event["dur"]))) for event in kernels)
    assert sum(dur for _, dur in spans) == sum(row["compute_ns"] for row in _truth(folder) if row["rank"] == 0)


def test_a_collective_of_kineto_names_its_group(written: Written) -> None:
    document = _kineto(written("kineto", JOB, Options()))
    groups = {config["pg_name"]: config["ranks"] for config in document["distributedInfo"]["pg_config"]}  # type: ignore[call-overload]
    nccl = [event["args"] for event in document["traceEvents"] if "nccl" in str(event["name"])]
    assert nccl
    for args in nccl:
        assert isinstance(args, dict)
        assert json.loads(args["Process Group Ranks"]) == groups[args["Process Group Name"]]


def test_a_machine_without_accelerator_has_no_device_rows(written: Written) -> None:
    events = _kineto(written("kineto", JOB, Options(device="cpu")))["traceEvents"]
    assert not {"kernel", "gpu_memcpy", "cuda_runtime", "ac2g"} & {str(event.get("cat")) for event in events}
    assert any(str(event["name"]).startswith("gloo:") for event in events)


def test_a_packed_trace_holds_the_same_document(written: Written) -> None:
    plain = _kineto(written("kineto", JOB, Options()))
    assert _kineto(written("kineto", JOB, Options(packed=True)), "rank0.pt.trace.json.gz") == plain
