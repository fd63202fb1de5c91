"""What becomes of the rows of a database, one rule at a time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from hermes.base.say import say
from hermes.profiles.read.ascend.db import read_database
from hermes.profiles.read.table_sink import Sink
from hermes_testing.draft_db import Draft

Read = Callable[..., Sink]


def degraded(sink: Sink) -> list[str]:
    return [say(note.message) for note in sink.notes if note.level == "degraded"]


def test_times_that_are_text_become_integers_to_the_nanosecond(draft: Draft, read: Read) -> None:
    draft.call(1736414119641640117, 1736414119641640118, "aten::add")
    (row,) = read(draft).read("host_op").to_dicts()
    assert (row["start_ns"], row["dur_ns"]) == (1736414119641640117, 1)


def test_a_row_whose_time_is_no_number_is_dropped_and_counted(draft: Draft, read: Read) -> None:
    draft.call(100, 200, "good").call("12x", 200, "bad").call("99999999999999999999", 200, "too large")
    sink = read(draft)
    assert sink.read("host_op")["name"].to_list() == ["good"]
    assert degraded(sink) == ["2 rows of PYTORCH_API have no readable value in startNs, endNs and name"]


def test_a_time_that_went_through_a_double_is_not_believed(draft: Draft, read: Read) -> None:
    draft.task(1, 1736414119641640117.0, 1736414119641640217).task(2, 100, 200)
    sink = read(draft)
    assert sink.read("kernel")["start_ns"].to_list() == [100]
    assert len(degraded(sink)) == 1


@pytest.mark.parametrize(("start", "end"), [(0, 50), (200, 100), (-5, 3)])
def test_impossible_times_are_dropped_and_counted(draft: Draft, read: Read, start: int, end: int) -> None:
    sink = read(draft.task(1, start, end).task(2, 100, 200))
    assert sink.read("kernel").height == 1
    assert degraded(sink) == ["1 row of TASK has impossible times"]


def test_a_name_that_the_file_lacks_keeps_its_number_and_is_told(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200).tables["TASK"][0]["taskType"] = 77
    sink = read(draft)
    assert sink.read("kernel")["name"].to_list() == ["#77"]
    assert degraded(sink) == ["taskType of 1 row of TASK is not in STRING_IDS"]


def test_a_text_that_is_not_utf8_is_read_with_marks(tmp_path: Path, sink: Sink) -> None:
    path = Draft().kernel(1, "odd", 100, 200).save(tmp_path / "ascend_pytorch_profiler_0.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE STRING_IDS SET value = CAST(x'ff41' AS TEXT) WHERE value = 'odd'")
        connection.commit()
    read_database([path], 0, sink)
    assert sink.read("kernel")["name"].to_list() == ["\N{REPLACEMENT CHARACTER}A"]


def test_a_column_that_starts_empty_is_read_to_its_end(draft: Draft, read: Read) -> None:
    for number in range(9000):
        draft.call(100 + number, 101 + number, "aten::add")
    draft.tables["PYTORCH_API"][-1]["inputShapes"] = draft.name("8,8")
    assert read(draft).read("host_op")["shapes"].to_list()[-1] == "8,8"


def test_the_block_count_is_found_under_both_names(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200).add("COMPUTE_TASK_INFO", globalTaskId=1, name=draft.name("k"), blockDim=24)
    assert read(draft).read("kernel")["blocks"].to_list() == [24]


def test_a_block_shape_is_not_taken_for_the_block_count(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200)
    draft.add("COMPUTE_TASK_INFO", globalTaskId=1, name=draft.name("k"), blockNum=24, blockDim=999)
    assert read(draft).read("kernel")["blocks"].to_list() == [24]


def test_missing_columns_are_unknown_not_zero(draft: Draft, read: Read) -> None:
    draft.add("TASK", startNs=100, endNs=200, taskType=draft.name("AI_CORE"))
    (row,) = read(draft).read("kernel").to_dicts()
    assert (row["unit"], row["component"]) == ("cube", "compute")
    assert row["stream"] is row["device_id"] is row["correlation"] is row["blocks"] is None


def test_tables_of_other_tools_change_nothing(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200).add("OVERLAP_ANALYSIS", id=0, deviceId=0, startNs=1, endNs=9, type=3)
    draft.add("slice; DROP TABLE TASK", x=1).add("StepTaskInfo", name="x", startNs=1, endNs=2, type=0)
    sink = read(draft)
    assert sink.read("kernel").height == 1
    assert sink.notes == []


def test_the_numbers_of_an_enumeration_come_from_the_file(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200, task="SDMA", context=3)
    draft.add("COMMUNICATION_TASK_INFO", globalTaskId=1, taskType=draft.name("Memcpy"), linkType=7, opId=1)
    draft.add("ENUM_HCCL_LINK_TYPE", id=7, name="UB")
    assert read(draft).read("comm_task")["link"].to_list() == ["UB"]


def test_a_call_of_cann_gets_its_layer_from_the_file(draft: Draft, read: Read) -> None:
    draft.cann(100, 200, "x", kind=123, link=5).add("ENUM_API_TYPE", id=123, name="communication")
    assert read(draft).read("host_op")["kind"].to_list() == ["hccl"]


def test_shapes_lose_quotes_and_line_breaks(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200)
    shape = draft.name('"32,3;64"')
    draft.add("COMPUTE_TASK_INFO", globalTaskId=1, name=draft.name("k"), inputShapes=shape)
    draft.call(50, 60, "aten::add").tables["PYTORCH_API"][0]["inputShapes"] = draft.name("8,8;\r\n;\r\n8")
    sink = read(draft)
    assert sink.read("kernel")["input_shapes"].to_list() == ["32,3;64"]
    assert sink.read("host_op")["shapes"].to_list() == ["8,8;;8"]


def test_what_the_profiler_calls_not_available_is_null(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200)
    nothing = draft.name("N/A")
    draft.add("COMPUTE_TASK_INFO", globalTaskId=1, name=draft.name("k"), opType=nothing, blockNum=0)
    (row,) = read(draft).read("kernel").to_dicts()
    assert row["type"] is None
    assert row["blocks"] is None


@pytest.mark.parametrize(
    ("task", "component", "unit"),
    [
        ("KERNEL_AIVEC", "compute", "vector"),
        ("KERNEL_AICPU", "compute", "ai_cpu"),
        ("MEMCPY_ASYNC", "copy", "copy"),
        ("EVENT_WAIT", "wait", "wait"),
        ("EVENT_RECORD", "other", "event"),
        ("SOMETHING_NEW", "other", "other"),
    ],
)
def test_a_task_without_further_record_goes_by_its_type(
    draft: Draft, read: Read, task: str, component: str, unit: str
) -> None:
    (row,) = read(draft.task(1, 100, 200, task=task)).read("kernel").to_dicts()
    assert (row["component"], row["unit"]) == (component, unit)


def test_a_kernel_that_drives_a_collective_is_communication(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200, task="KERNEL_AICPU")
    draft.add("COMMUNICATION_SCHEDULE_TASK_INFO", globalTaskId=1, name=draft.name("RunAicpuAllReduce"))
    (row,) = read(draft).read("kernel").to_dicts()
    assert (row["component"], row["unit"], row["name"]) == ("comm", "ai_cpu", "RunAicpuAllReduce")


def test_a_task_over_transfers_is_communication_and_one_over_a_kernel_is_not_compute(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200, task="AI_CORE", number=5)
    draft.task(2, 110, 190, task="SDMA", number=5, context=0)
    draft.add("COMMUNICATION_TASK_INFO", globalTaskId=2, taskType=draft.name("Memcpy"), opId=1)
    draft.task(3, 300, 400, task="AI_CORE", number=6)
    draft.task(4, 310, 390, task="MIX_AIV", number=6, context=0)
    draft.add("COMPUTE_TASK_INFO", globalTaskId=4, name=draft.name("mixed"), blockNum=1)
    kernels = read(draft).read("kernel")
    assert kernels["component"].to_list() == ["comm", "comm", "other", "compute"]
    assert kernels["unit"].to_list() == ["comm", "comm", "other", "mix"]


def test_a_task_number_that_returns_does_not_make_an_old_task_a_shell(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200, task="AI_CORE", number=5)
    draft.task(2, 900, 950, task="SDMA", number=5, context=0)
    draft.add("COMMUNICATION_TASK_INFO", globalTaskId=2, taskType=draft.name("Memcpy"), opId=1)
    assert read(draft).read("kernel")["component"].to_list() == ["compute", "comm"]


def test_a_copy_has_size_and_direction(draft: Draft, read: Read) -> None:
    draft.task(1, 100, 200, task="MEMCPY_ASYNC")
    draft.add("MEMCPY_INFO", globalTaskId=1, size=4096, memcpyOperation=1)
    (row,) = read(draft).read("kernel").to_dicts()
    assert (row["bytes"], row["direction"]) == (4096, "h2d")


def launched(draft: Draft) -> Draft:
    """`aten::mm` (id 0) launched connection 40 through CANN; the kernel runs later."""
    draft.step(3, 1_000, 9_000).call(1_100, 1_200, "aten::mm", link=0)
    draft.add("CONNECTION_IDS", id=0, connectionId=40)
    draft.cann(1_300, 1_400, "launch", kind=10000, link=40)
    return draft.kernel(1, "MatMul", 9_500, 9_900, link=40)


def test_a_kernel_is_launched_by_the_framework_operator(draft: Draft, read: Read) -> None:
    sink = read(launched(draft))
    (kernel,) = sink.read("kernel").to_dicts()
    assert (kernel["launch_ns"], kernel["correlation"]) == (1_100, 40)
    call = sink.read("host_op").filter(pl.col("correlation") == 40)
    assert call["kind"].to_list() == ["node"]
    (arrow,) = sink.read("flow").to_dicts()
    assert (arrow["kind"], arrow["src_ns"], arrow["dst_ns"]) == ("launch", 1_100, 9_500)
    assert (arrow["src_pid"], arrow["src_tid"], arrow["dst_tid"]) == (7, 9, 2)


def test_a_kernel_belongs_to_the_step_that_launched_it(draft: Draft, read: Read) -> None:
    draft.step(4, 9_000, 20_000)
    assert read(launched(draft)).read("kernel")["step"].to_list() == [3]


def test_without_an_operator_the_cann_call_is_the_launch(draft: Draft, read: Read) -> None:
    draft.cann(100, 200, "aclrtMemcpy", kind=20000, link=8).task(1, 300, 400, link=8)
    assert read(draft).read("kernel")["launch_ns"].to_list() == [100]


def test_without_any_call_the_launch_is_unknown(draft: Draft, read: Read) -> None:
    assert read(draft.task(1, 300, 400, link=8)).read("kernel")["launch_ns"].to_list() == [None]


def test_a_forward_backward_pair_with_the_number_of_a_launch_is_not_the_launch(draft: Draft, read: Read) -> None:
    launched(draft)
    draft.call(1_210, 1_220, "aten::relu", link=1, sequence=5).add("CONNECTION_IDS", id=1, connectionId=40)
    draft.call(1_230, 1_240, "ReluBackward0", link=2, sequence=5, forward=1)
    draft.add("CONNECTION_IDS", id=2, connectionId=40)
    sink = read(draft)
    assert sink.read("kernel")["launch_ns"].to_list() == [1_100]
    (pair,) = sink.read("flow").filter(pl.col("kind") == "forward_backward").to_dicts()
    assert (pair["src_ns"], pair["dst_ns"]) == (1_210, 1_230)


def test_the_queue_is_an_arrow_from_enqueue_to_dequeue(draft: Draft, read: Read) -> None:
    number = (5 << 28) + 1
    draft.call(100, 110, "Enqueue", kind=50002, link=0).call(150, 190, "Dequeue@mm", kind=50002, link=1)
    draft.add("CONNECTION_IDS", id=0, connectionId=number).add("CONNECTION_IDS", id=1, connectionId=number)
    sink = read(draft)
    assert sink.read("host_op")["kind"].to_list() == ["enqueue", "dequeue"]
    (arrow,) = sink.read("flow").to_dicts()
    assert (arrow["kind"], arrow["src_ns"], arrow["dst_ns"], arrow["flow_id"]) == (
        "queue",
        100,
        150,
        str(number),
    )


def test_calls_nest_by_thread(draft: Draft, read: Read) -> None:
    draft.call(100, 200, "outer").call(120, 150, "inner")
    rows = read(draft).read("host_op")
    assert rows["depth"].to_list() == [0, 1]
    assert rows["self_ns"].to_list() == [70, 30]


def test_steps_come_from_the_marks_when_their_table_is_missing(draft: Draft, read: Read) -> None:
    sink = read(draft.call(100, 200, "ProfilerStep#12").call(120, 130, "aten::add"))
    assert sink.read("step").row(0) == (0, 12, 100, 100, "ProfilerStep#12")
    assert sink.read("host_op")["step"].to_list() == [12, 12]


def test_a_stack_is_its_frames_innermost_first(draft: Draft, read: Read) -> None:
    draft.call(100, 200, "aten::add").tables["PYTORCH_API"][0]["callchainId"] = 4
    for depth, frame in ((1, "b.py(2): outer"), (0, "a.py(1): inner")):
        draft.add("PYTORCH_CALLCHAINS", id=4, stack=draft.name(frame), stackDepth=depth)
    sink = read(draft)
    assert sink.read("stack").row(0) == (0, 4, "a.py(1): inner\nb.py(2): outer")
    assert sink.read("host_op")["stack_id"].to_list() == [4]


def test_collections_have_their_thread(draft: Draft, read: Read) -> None:
    draft.task(1, 1, 2).add("GC_RECORD", startNs=100, endNs=250, globalTid=(7 << 32) | 9)
    assert read(draft).read("gc").row(0) == (0, 9, 100, 150)


def test_user_ranges_are_marks(draft: Draft, read: Read) -> None:
    draft.add(
        "MSTX_EVENTS",
        startNs=100,
        endNs=140,
        globalTid=(7 << 32) | 9,
        message=draft.name("load batch"),
        connectionId=4000000000,
    )
    draft.step(1, 50, 500)
    (row,) = read(draft).read("host_op").to_dicts()
    assert (row["kind"], row["name"], row["correlation"]) == ("mark", "load batch", None)


def test_a_range_has_its_domain_and_none_in_the_default_one(draft: Draft, read: Read) -> None:
    for start, domain in ((100, "default"), (200, "loader")):
        draft.add(
            "MSTX_EVENTS", startNs=start, endNs=start + 40, globalTid=(7 << 32) | 9, message=draft.name("load batch"),
            domainId=draft.name(domain), connectionId=4000000000,
        )  # fmt: skip
    draft.step(1, 50, 500)
    assert read(draft).read("host_op")["domain"].to_list() == [None, "loader"]


def collective(draft: Draft, *, group: str = "group_name_5", peers: tuple[int, ...] = (1, 2, 3)) -> Draft:
    draft.add(
        "COMMUNICATION_OP",
        opName=draft.name("hcom_allGather__097_0_1"),
        startNs=100,
        endNs=900,
        connectionId=40,
        groupName=draft.name(group),
        opId=1,
        dataType=11,
        algType=draft.name("MESH"),
        count=1000,
    )
    for place, peer in enumerate(peers):
        draft.task(50 + place, 200, 300 + place, task="Notify Wait", link=40, context=place)
        draft.add(
            "COMMUNICATION_TASK_INFO",
            globalTaskId=50 + place,
            taskType=draft.name("Notify_Wait"),
            planeId=place,
            groupName=draft.name(group),
            srcRank=0,
            dstRank=peer,
            transportType=0,
            size=0,
            linkType=1,
            opId=1,
        )
    return draft


def test_the_group_of_a_collective_is_the_hash_of_its_communicator(draft: Draft, read: Read) -> None:
    (op,) = read(collective(draft)).read("comm_op").to_dicts()
    assert op["group"] == "5862276114690318097"
    assert (op["op"], op["bytes"], op["dtype"], op["algorithm"]) == ("all_gather", 2000, "BFP16", "MESH")


def test_recorded_members_give_the_peers_their_global_ranks(draft: Draft, read: Read) -> None:
    groups = {"group_name_5": {"group_name": "dp", "group_rank": 0, "global_ranks": [0, 2, 4, 6]}}
    collective(draft).add("META_DATA", name="parallel_group_info", value=json.dumps(groups))
    draft.add("META_DATA", name="distributed_args", value='{"world_size": 8, "tensor_model_parallel_size": 1}')
    sink = read(draft)
    assert sink.read("comm_task")["peer_rank"].to_list() == [2, 4, 6]
    assert sink.read("group")["name"].unique().to_list() == ["dp"]
    row = sink.read("rank").row(0, named=True)
    assert (row["world_size"], row["dp"], row["tp"], row["pp"]) == (8, 0, 0, None)


def test_the_only_group_is_taken_for_the_whole_job_and_told(draft: Draft, read: Read) -> None:
    sink = read(collective(draft))
    assert sink.read("comm_task")["peer_rank"].to_list() == [1, 2, 3]
    assert [note.level for note in sink.notes] == ["info"]


def test_members_are_not_guessed_when_the_rank_is_another(draft: Draft, read: Read) -> None:
    sink = read(collective(draft), rank=4)
    assert sink.read("group")["global_rank"].to_list() == [None] * 4
    assert sink.read("comm_task")["peer_rank"].null_count() == 3


def test_members_are_not_guessed_when_the_job_is_larger_than_the_group(draft: Draft, read: Read) -> None:
    draft.add("META_DATA", name="distributed_args", value='{"world_size": 16}')
    assert read(collective(draft)).read("group")["global_rank"].to_list() == [None] * 4


def test_members_are_not_guessed_when_there_are_other_groups(draft: Draft, read: Read) -> None:
    collective(draft)
    draft.add(
        "COMMUNICATION_OP",
        **(draft.tables["COMMUNICATION_OP"][0] | {"groupName": draft.name("g2"), "opId": 2}),
    )
    assert read(draft).read("group")["global_rank"].null_count() == 4


def test_the_other_side_of_a_send_is_its_peer(draft: Draft, read: Read) -> None:
    collective(draft, peers=(1,)).tables["COMMUNICATION_OP"][0]["opName"] = draft.name("hcom_send__097_0_1")
    (op,) = read(draft).read("comm_op").to_dicts()
    assert (op["op"], op["peer"]) == ("send", 1)


def test_memory_and_allocations_are_bytes_and_moments(draft: Draft, read: Read) -> None:
    record = {"totalAllocated": 10, "totalReserved": 20, "totalActive": 15, "deviceId": 0}
    draft.add("MEMORY_RECORD", component=draft.name("PTA"), timestamp=100, **record)
    draft.add("NPU_MEM", type=draft.name("app"), ddr=0, hbm=77, timestampNs=90, deviceId=0)
    block = {"name": draft.name("aten::empty"), "deviceId": 0}
    draft.add("OP_MEMORY", size=512, allocationTime=100, releaseTime=None, **block)
    draft.add("OP_MEMORY", size=512, allocationTime=None, releaseTime=120, **block)
    sink = read(draft)
    assert sink.read("memory").rows() == [(0, "APP", 90, None, 77, None, 0), (0, "PTA", 100, 10, 20, 15, 0)]
    assert sink.read("allocation").rows() == [(0, "aten::empty", 512, 100, None, 0)]
    assert sink.notes == []


def test_a_database_without_a_framework_gives_the_engines_allocations(draft: Draft, read: Read) -> None:
    block = {"operatorName": draft.name("MatMul"), "addr": 64, "size": 8, "deviceId": 0}
    block |= {"component": draft.name("GE"), "totalAllocate": 8, "totalReserve": 16}
    draft.task(1, 1, 2).add("NPU_OP_MEM", type=draft.name("allocate"), timestampNs=100, **block)
    draft.add("NPU_OP_MEM", type=draft.name("release"), timestampNs=130, **block)
    sink = read(draft)
    assert sink.read("allocation").rows() == [(0, "MatMul", 8, 100, 130, 0)]
    assert sink.read("memory")["component"].to_list() == ["GE", "GE"]


def test_counters_name_what_they_measure(draft: Draft, read: Read) -> None:
    draft.task(1, 1, 2).add("AICORE_FREQ", deviceId=0, timestampNs=100, freq=1650)
    draft.add("HBM", deviceId=0, timestampNs=110, bandwidth=5e9, hbmId=2, type=draft.name("read"))
    draft.add("HCCS", deviceId=0, timestampNs=120, txThroughput=1, rxThroughput=None)
    rows = read(draft).read("counter").sort("ts_ns").drop("rank", "device_id").rows()
    assert rows == [
        ("AI Core Freq", "AI Core Freq", "MHz", 100, 1650.0),
        ("HBM", "HBM 2/Read", "Bandwidth(B/s)", 110, 5e9),
        ("HCCS", "HCCS", "txThroughput", 120, 1.0),
    ]


def test_settings_know_where_they_come_from(draft: Draft, read: Read) -> None:
    draft.task(1, 1, 2).add("META_DATA", name="SCHEMA_VERSION", value="1.2.0")
    draft.add("META_DATA", name="ENV_VARIABLES", value='{"HCCL_BUFFSIZE": "200", "ASCEND_LAUNCH_BLOCKING": ""}')
    rows = read(draft).read("setting").drop("rank").rows()
    assert rows == [
        ("version", "SCHEMA_VERSION", "1.2.0"),
        ("environment", "HCCL_BUFFSIZE", "200"),
        ("environment", "ASCEND_LAUNCH_BLOCKING", None),
    ]


def test_two_databases_of_one_capture_are_read_as_one(tmp_path: Path, sink: Sink) -> None:
    paths = []
    for device, name in enumerate(("first", "second")):
        draft = Draft()
        draft.name(f"filler {device}") if device else None
        draft.kernel(1, name, 100 + device, 200)
        draft.add("TASK_PMU_INFO", globalTaskId=1, name=draft.name("aic_mac_ratio"), value=device + 1)
        paths.append(draft.save(tmp_path / f"PROF_{device}" / f"msprof_2025010100000000{device}.db"))
    read_database(paths, 0, sink)
    assert sink.read("kernel")["name"].to_list() == ["first", "second"]
    assert sink.read("pmu").select("kernel_id", "value").rows() == [(0, 1.0), (1, 2.0)]
