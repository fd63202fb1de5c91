"""Columns of the tables of Ascend's databases, by schema version."""

from __future__ import annotations

Value = int | float | str | None

_TABLES = {
    "SESSION_TIME_INFO": "startTimeNs INTEGER, endTimeNs INTEGER",
    "NPU_INFO": "id INTEGER, name TEXT",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "TASK": (
        "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId "
        "INTEGER, globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId "
        "INTEGER, modelId INTEGER"
    ),
    "COMPUTE_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER, "
        "taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes "
        "INTEGER, outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo "
        "INTEGER"
    ),
    "COMMUNICATION_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, groupName INTEGER, "
        "notifyId INTEGER, rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, "
        "size INTEGER, dataType INTEGER, linkType INTEGER, opId INTEGER"
    ),
    "COMMUNICATION_OP": (
        "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, "
        "opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, "
        "count NUMERIC, opType INTEGER"
    ),
    "CANN_API": (
        "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER "
        "PRIMARY KEY, name INTEGER"
    ),
    "TASK_PMU_INFO": "globalTaskId INTEGER, name INTEGER, value NUMERIC",
    "MEMCPY_INFO": "globalTaskId INTEGER, size NUMERIC, memcpyOperation INTEGER",
    "NPU_MEM": "type INTEGER, ddr NUMERIC, hbm NUMERIC, timestampNs INTEGER, deviceId INTEGER",
    "NPU_MODULE_MEM": ("moduleId INTEGER, timestampNs INTEGER, totalReserved NUMERIC, deviceId INTEGER"),
    "HBM": "deviceId INTEGER, timestampNs INTEGER, bandwidth NUMERIC, hbmId INTEGER, type INTEGER",
    "LLC": ("deviceId INTEGER, llcId INTEGER, timestampNs INTEGER, hitRate REAL, throughput INTEGER, mode INTEGER"),
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "PYTORCH_API": (
        "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, "
        "sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, "
        "callchainId INTEGER, type INTEGER"
    ),
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "PYTORCH_CALLCHAINS": "id INTEGER, stack INTEGER, stackDepth INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "OP_MEMORY": (
        "name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, activeReleaseTime "
        "INTEGER, duration INTEGER, activeDuration INTEGER, allocationTotalAllocated INTEGER, "
        "allocationTotalReserved INTEGER, allocationTotalActive INTEGER, releaseTotalAllocated "
        "INTEGER, releaseTotalReserved INTEGER, releaseTotalActive INTEGER, streamPtr INTEGER, "
        "deviceId INTEGER"
    ),
    "MEMORY_RECORD": (
        "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, "
        "totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER"
    ),
    "GC_RECORD": "startNs INTEGER, endNs INTEGER, globalTid INTEGER",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "META_DATA": "name TEXT, value TEXT",
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "StepTraceTime": (
        "step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC, "
        "communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
        "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC"
    ),
    "CommAnalyzerTime": (
        "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, "
        "transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, "
        "step TEXT, type TEXT"
    ),
    "CommAnalyzerBandwidth": (
        "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, transit_time "
        "NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC, "
        "total_duration NUMERIC, step TEXT, type TEXT"
    ),
    "CommAnalyzerMatrix": (
        "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, "
        "transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name "
        "TEXT"
    ),
}

# What schema 1.2 adds to a table, and which columns it renames.
_ADDED = {
    "COMPUTE_TASK_INFO": ",opState INTEGER,hf32Eligible INTEGER",
    "COMMUNICATION_TASK_INFO": ",isMaster INTEGER,bandwidth NUMERIC",
    "COMMUNICATION_OP": ",deviceId INTEGER,rankSize INTEGER",
    "AICORE_FREQ": ",dieId INTEGER",
}
_RENAMED = {"blockDim": "blockNum", "mixBlockDim": "mixBlockNum"}

INDEXES = {
    "TASK": "CREATE INDEX TaskIndex ON TASK (startNs,globalTaskId)",
    "COMMUNICATION_TASK_INFO": ("CREATE INDEX CommunicationTaskIndex ON COMMUNICATION_TASK_INFO (globalTaskId)"),
}


def columns_of(table: str, schema: str) -> list[tuple[str, str]]:
    """Names and declared types of a table's columns in schema `1.0` or `1.2`."""
    if table.startswith("ENUM_"):
        return [("id", "INTEGER PRIMARY KEY"), ("name", "TEXT")]
    text = _TABLES[table] + (_ADDED.get(table, "") if schema == "1.2" else "")
    columns = []
    for part in text.split(","):
        name, kind = part.strip().split(" ", 1)
        columns.append((_RENAMED.get(name, name) if schema == "1.2" else name, kind))
    return columns
