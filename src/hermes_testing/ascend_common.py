"""What both Ascend writers share: times, the allocator's curve, samples, sums of traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hermes_testing.job import EPOCH_NS, Job
from hermes_testing.profile import Block, CommOp, Kernel, Profile, Transfer

FOLDER_TIME = "20250109084754000"
MEGA = 1_000_000
KIB = 1_024
MIB = 1_048_576
RESERVED_BYTES = 24 * 1_024 * MIB
HELD_BYTES = 12 * 1_024 * MIB
APP_BYTES = RESERVED_BYTES + 700 * MIB
STREAM_POINTER = 1_162_636_336
SAMPLE_NS = 20_000_000
ENVIRONMENT = (
    "ASCEND_GLOBAL_LOG_LEVEL",
    "HCCL_RDMA_TC",
    "HCCL_RDMA_SL",
    "ACLNN_CACHE_LIMIT",
    "HOST_CACHE_CAPACITY",
    "ASCEND_ENHANCE_ENABLE",
    "PYTORCH_NPU_ALLOC_CONF",
    "ASCEND_LAUNCH_BLOCKING",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How files are written.

    `writer`: `2024` as torch_npu 2.1 with CANN 8.0, `2025` with the later names and ids. `schema`: version of the
    Ascend database. `device`: what a Kineto trace was recorded on. `packed`: gzip Kineto traces. Without `roof` the
    device has a name without a known peak: the model's times are no chip's.
    """

    writer: Literal["2024", "2025"] = "2024"
    schema: Literal["1.0", "1.2"] = "1.0"
    device: Literal["cuda", "rocm", "cpu"] = "cuda"
    packed: bool = False
    roof: bool = True


def epoch(profile: Profile, ns: int) -> int:
    """Unix time, in nanoseconds, that the rank's own clock shows."""
    return EPOCH_NS + profile.clock_ns + ns


def us(ns: int) -> str:
    """Microseconds with three decimals."""
    return f"{ns // 1_000}.{ns % 1_000:03d}"


def short(ns: int) -> str:
    """Microseconds as Python prints a float: no more decimals than needed, one at least."""
    return f"{ns // 1_000}." + (f"{ns % 1_000:03d}".rstrip("0") or "0")


def folder_name(profile: Profile) -> str:
    """Name of the folder of one rank's capture."""
    return f"node{profile.host}_{profile.pid}_{FOLDER_TIME}_ascend_pt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The caching allocator at one moment."""

    ts_ns: int
    allocated: int


def memory_curve(blocks: Sequence[Block]) -> tuple[list[Level], dict[int, int], dict[int, int]]:
    """The curve, and for each block (by its place) what was allocated after its malloc and its release."""
    changes = [(block.alloc_ns, 1, index) for index, block in enumerate(blocks)]
    changes += [(block.release_ns, 0, index) for index, block in enumerate(blocks) if block.release_ns is not None]
    held, curve = HELD_BYTES, []
    after_malloc: dict[int, int] = {}
    after_release: dict[int, int] = {}
    for ts, takes, index in sorted(changes):
        held += blocks[index].bytes if takes else -blocks[index].bytes
        (after_malloc if takes else after_release)[index] = held
        curve.append(Level(ts_ns=ts, allocated=held))
    return curve, after_malloc, after_release


def samples(profile: Profile, every_ns: int = SAMPLE_NS) -> Iterator[int]:
    """The moments at which the profiler samples."""
    return iter(range(every_ns // 4, profile.end_ns, every_ns))


def frequencies(profile: Profile) -> list[tuple[int, int]]:
    """Moments and MHz: one sample a step, one at the start and one at the end."""
    first, last = profile.frequency[0], profile.frequency[-1]
    return [(0, first[1]), *profile.frequency, (profile.end_ns, last[1])]


def hbm(profile: Profile, moment: int, channel: int) -> int:
    """Modelled HBM bandwidth in MB/s."""
    return 90_000 + (moment // 977 * 31 + channel * 7_919 + profile.rank * 101) % 40_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes and time of the transfers of one transport, and for each size their number and time."""

    bytes: int = 0
    ns: int = 0
    sizes: dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One operation as `communication.json` splits it, in nanoseconds."""

    elapse: int
    transit: int
    wait: int
    sync: int

    @property
    def idle(self) -> int:
        """What is neither transfer nor waiting."""
        return self.elapse - self.transit - self.wait


def moves(comm: CommOp) -> list[Transfer]:
    """The transfers to other ranks."""
    return [task for task in comm.transfers if task.bytes and task.link != "ON_CHIP"]


def split_of(comm: CommOp) -> Split:
    """Transfer and waiting time of the main plane: the first one that has a peer."""
    plane = min((task.plane for task in comm.transfers if task.link != "ON_CHIP"), default=0)
    tasks = sorted((task for task in comm.transfers if task.plane == plane), key=lambda task: task.start_ns)
    sent = [task for task in tasks if task.bytes and task.link != "ON_CHIP"]
    waits = [task for task in tasks if task.name == "Notify_Wait"]
    first = sent[0].start_ns if sent else comm.end_ns
    return Split(
        elapse=comm.end_ns - comm.start_ns,
        transit=sum(task.end_ns - task.start_ns for task in sent),
        wait=sum(task.end_ns - task.start_ns for task in waits),
        sync=sum(task.end_ns - task.start_ns for task in waits if task.start_ns < first),
    )


def traffic_of(comm: CommOp) -> dict[str, Traffic]:
    """Traffic by transport, as `communication.json` lists them; `SDMA` sums the on-board ones."""
    sizes: dict[str, dict[int, tuple[int, int]]] = {"RDMA": {}, "HCCS": {}}
    for task in moves(comm):
        of = sizes["RDMA" if task.transport == "RDMA" else "HCCS"]
        count, ns = of.get(task.bytes, (0, 0))
        of[task.bytes] = (count + 1, ns + task.end_ns - task.start_ns)
    made = {
        name: Traffic(
            bytes=sum(size * count for size, (count, _) in of.items()),
            ns=sum(ns for _, ns in of.values()),
            sizes=of,
        )
        for name, of in sizes.items()
    }
    none = Traffic(sizes={})
    board = Traffic(bytes=made["HCCS"].bytes, ns=made["HCCS"].ns, sizes={})
    return {"RDMA": made["RDMA"], "HCCS": made["HCCS"], "PCIE": none, "SDMA": board, "SIO": none}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Traffic of one operation between two ranks of its group."""

    src: int
    dst: int
    transport: str
    bytes: int
    ns: int


def links_of(comm: CommOp) -> list[Link]:
    """Traffic by pair of ranks; with itself by `LOCAL`."""
    sums: dict[tuple[int, int, str], tuple[int, int]] = {}
    for task in comm.transfers:
        if task.bytes:
            transport = "LOCAL" if task.src == task.dst else "RDMA" if task.transport == "RDMA" else "HCCS"
            key = (task.src, task.dst, transport)
            size, ns = sums.get(key, (0, 0))
            sums[key] = (size + task.bytes, ns + task.end_ns - task.start_ns)
    return [
        Link(src=src, dst=dst, transport=transport, bytes=size, ns=ns)
        for (src, dst, transport), (size, ns) in sums.items()
    ]


def summed_links(comms: Sequence[CommOp]) -> list[tuple[Link, str]]:
    """Traffic by pair of ranks over several operations, and the name of the first that used the pair."""
    sums: dict[tuple[int, int], tuple[Link, str]] = {}
    for comm in comms:
        for link in links_of(comm):
            key = (link.src, link.dst)
            before, name = sums.get(key, (None, comm.name))
            if before is not None:
                link = replace(link, bytes=link.bytes + before.bytes, ns=link.ns + before.ns)
            sums[key] = (link, name)
    return list(sums.values())


def shown_type(name: str) -> str:
    """Type of an operation in the matrix, whose writer takes `reduceScatter` for `reduce`."""
    return "reduce" if name == "reducescatter" else name


def gb_per_s(size: int, ns: int) -> float:
    """Bandwidth with the four decimals that Ascend keeps."""
    return round(size / ns, 4) if ns else 0


def ranked(comms: Sequence[CommOp]) -> list[tuple[str, Sequence[CommOp]]]:
    """Classes of operations for the matrix: by bandwidth the first, the middle and the last, and all."""

    def speed(comm: CommOp) -> float:
        sent = moves(comm)
        return gb_per_s(sum(task.bytes for task in sent), sum(task.end_ns - task.start_ns for task in sent))

    by_speed = sorted(comms, key=speed, reverse=True)
    picked = [("top1", by_speed[:1]), ("middle", by_speed[len(by_speed) // 2 :][:1])]
    picked += [(f"bottom{n}", by_speed[-n:][:1]) for n in (1, 2, 3) if n <= len(by_speed)]
    return [*picked, ("total", by_speed)]


def classes_of(comms: Sequence[CommOp]) -> dict[tuple[bool, str, str], list[CommOp]]:
    """Operations by point-to-point or not, lower-case type and group hash."""
    found: dict[tuple[bool, str, str], list[CommOp]] = {}
    for comm in comms:
        found.setdefault((comm.is_p2p, comm.hccl.lower(), comm.group.hash), []).append(comm)
    return found


def stream_task(task: Transfer) -> str:
    """Type under which a plane's task appears a second time, on its stream."""
    if task.name.startswith("Notify"):
        return "Write Value" if task.name == "Notify_Record" else "Notify Wait"
    return "RDMA" if task.transport == "RDMA" else "SDMA"


def estimated(task: Transfer) -> int:
    """What HCCL expects a task to take, in nanoseconds."""
    return task.bytes // 20 + 20


PMU_NAMES = (
    *("aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_scalar_time(us)"),
    *("aic_scalar_ratio", "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte2_time(us)", "aic_mte2_ratio"),
    *(
        "aic_fixpipe_time(us)",
        "aic_fixpipe_ratio",
        "aic_icache_miss_rate",
        "aiv_time(us)",
        "aiv_total_cycles",
    ),
    *("aiv_vec_time(us)", "aiv_vec_ratio", "aiv_scalar_time(us)", "aiv_scalar_ratio", "aiv_mte2_time(us)"),
    *("aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_icache_miss_rate", "cube_utilization(%)"),
)

_RATIOS = {
    "aic": (("mac", 720), ("scalar", 210), ("mte1", 480), ("mte2", 640), ("fixpipe", 110)),
    "aiv": (("vec", 310), ("scalar", 90), ("mte2", 610), ("mte3", 420)),
}

# Of a thousand; and how many cubes the modelled chip has.
_BUSY, _CUBES = 985, 24


def pmu_of(kernel: Kernel, ns: int, mhz: int) -> dict[str, str]:
    """Values of `PMU_NAMES` for a kernel that took `ns` at `mhz`; an idle core reads 0."""
    values = dict.fromkeys(PMU_NAMES, "0.0")
    values |= {"aic_total_cycles": "0", "aiv_total_cycles": "0", "cube_utilization(%)": "0"}
    busy = ns * _BUSY // 1_000
    for prefix, cores in (("aic", ("AI_CORE", "MIX_AIC")), ("aiv", ("AI_VECTOR_CORE", "MIX_AIC"))):
        if kernel.core not in cores:
            continue
        values["aicore_time(us)" if prefix == "aic" else "aiv_time(us)"] = short(busy)
        values[f"{prefix}_total_cycles"] = str(busy * mhz // 1_000 * kernel.blocks)
        values[f"{prefix}_icache_miss_rate"] = "0.004"
        for name, thousandths in _RATIOS[prefix]:
            values[f"{prefix}_{name}_time(us)"] = short(busy * thousandths // 1_000)
            values[f"{prefix}_{name}_ratio"] = f"0.{thousandths:03d}".rstrip("0")
        if prefix == "aic":
            values["cube_utilization(%)"] = f"{_BUSY / 10 * kernel.blocks / _CUBES:.3f}"
    return values


def distributed_args(job: Job, rank: int) -> dict[str, int | bool]:
    """What Megatron and MindSpeed record about the layout."""
    return {
        "tensor_model_parallel_size": job.tp,
        "pipeline_model_parallel_size": job.pp,
        "data_parallel_size": job.data_parallel,
        "context_parallel_size": 1,
        "expert_model_parallel_size": job.ep,
        "sequence_parallel": False,
        "rank": rank,
        "world_size": job.ranks,
    }


def group_info(profile: Profile) -> dict[str, dict[str, object]]:
    """`parallel_group_info` of one rank."""
    return {
        group.communicator: {
            "group_name": group.name,
            "group_rank": group.members.index(profile.rank),
            "global_ranks": list(group.members),
        }
        for group in profile.groups
    }
