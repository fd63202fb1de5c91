"""The enumerations that an Ascend database carries, schema 1.0."""

from __future__ import annotations

_MODULES = """
    SLOG IDEDD IDEDH HCCL FMK HIAIENGINE DVPP RUNTIME CCE HDC DRV MDCFUSION MDCLOCATION
    MDCPERCEPTION MDCFSM MDCCOMMON MDCMONITOR MDCBSWP MDCDEFAULT MDCSC MDCPNC MLL DEVMM KERNEL
    LIBMEDIA CCECPU ASCENDDK ROS HCCP ROCE TEFUSION PROFILING DP APP TS TSDUMP AICPU LP TDT FE MD MB
    ME IMU IMP GE MDCFUSA CAMERA ASCENDCL TEEOS ISP SIS HSM DSS PROCMGR BBOX AIVECTOR TBE FV MDCMAP
    TUNE HSS FFTS OP UDF HICAID TSYNC AUDIO TPRT ASCENDCKERNEL ASYS ATRACE RTC SYSMONITOR AMP
    ADETECT MBUFF CUSTOM
"""
MODULES: tuple[str, ...] = tuple(_MODULES.split())

_ABSENT = {65_534: "N/A", 65_535: "INVALID_TYPE"}
_DTYPES = "INT8 INT16 INT32 FP16 FP32 INT64 UINT64 UINT8 UINT16 UINT32 FP64 BFP16 INT128"
_LINKS = "ON_CHIP HCCS PCIE ROCE SIO HCCS_SW STANDARD_ROCE"
_RDMA = "RDMA_SEND_NOTIFY RDMA_SEND_PAYLOAD RDMA_PAYLOAD_PREPARE RDMA_PAYLOAD_CHECK RDMA_PAYLOAD_ACK RDMA_SEND_OP"

API_TYPES = {
    "runtime": 5_000,
    "hccl": 5_500,
    "node": 10_000,
    "model": 15_000,
    "acl": 20_000,
    "op": 50_001,
    "queue": 50_002,
    "trace": 50_003,
    "mstx": 50_004,
}


def enums(schema: str) -> dict[str, dict[int, str]]:
    """Every ENUM table of a schema version, `1.0` or `1.2`; the later one renamed and moved some members."""
    new = schema == "1.2"
    links = {**dict(enumerate(_LINKS.split())), 7: "UB" if new else "RESERVED", **_ABSENT}
    rdma = dict(enumerate(_RDMA.split()[: 2 if new else 6])) | _ABSENT
    tables = {
        "ENUM_API_TYPE": {
            number: "communication" if new and name == "hccl" else name for name, number in API_TYPES.items()
        },
        "ENUM_HCCL_DATA_TYPE": dict(enumerate(_DTYPES.split())) | _ABSENT,
        "ENUM_HCCL_LINK_TYPE": links,
        "ENUM_HCCL_RDMA_TYPE": rdma,
        "ENUM_HCCL_TRANSPORT_TYPE": {0: "SDMA", 1: "RDMA", 2: "LOCAL"} | _ABSENT,
        "ENUM_MODULE": dict(enumerate(MODULES)),
        "ENUM_MSTX_EVENT_TYPE": {0: "marker", 1: "push/pop", 2: "start/end", 3: "marker_ex"},
    }
    if new:
        tables["ENUM_MEMCPY_OPERATION"] = {
            0: "host to host",
            1: "host to device",
            2: "device to host",
            3: "device to device",
            65_535: "other",
        }
    return tables
