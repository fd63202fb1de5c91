"""The csv tables of one rank's Ascend text profile: names of columns and rows of text."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hermes_testing.ascend_common import (
    APP_BYTES,
    KIB,
    MIB,
    PMU_NAMES,
    RESERVED_BYTES,
    STREAM_POINTER,
    Options,
    epoch,
    memory_curve,
    pmu_of,
    samples,
    short,
    us,
)
from hermes_testing.collective import NONE
from hermes_testing.effects import FULL_MHZ
from hermes_testing.enums import MODULES
from hermes_testing.job import Job
from hermes_testing.profile import CommOp, HostCall, Profile, Task
from hermes_testing.truth import steps_of

Rows = Iterable[Sequence[str]]


def write_csv(path: Path, header: Sequence[str], rows: Rows) -> None:
    """Write one table; lines end with a line feed."""
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _tab(profile: Profile, ns: int) -> str:
    """A moment as csv files hold it: with a tab, because a spreadsheet then keeps it as text."""
    return us(epoch(profile, ns)) + "\t"


def kernel_details(path: Path, job: Job, profile: Profile, options: Options) -> None:
    """`kernel_details.csv`: kernels and communication operations in order of start."""
    new = options.writer == "2025"
    blocks = "Block Num" if new else "Block Dim"
    rows: list[Task | CommOp] = [task for task in profile.tasks if task.kind == "compute"]
    rows = sorted([*rows, *profile.comms], key=lambda row: row.start_ns)
    if job.level == "Level0":
        header = [
            "Step Id",
            "Name",
            "Type",
            "Accelerator Core",
            "Start Time(us)",
            "Duration(us)",
            "Wait Time(us)",
        ]
        write_csv(path, [*header, blocks], _kernel_rows_0(profile, rows))
        return
    header = [
        *("Step Id", *(["Device_id"] if new else []), "Model ID", "Task ID", "Stream ID", "Name", "Type"),
        *("OP State", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", blocks),
        *("Mix Block Num" if new else "Mix Block Dim", "HF32 Eligible", "Input Shapes", "Input Data Types"),
        *("Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID", *PMU_NAMES),
    ]
    device = [str(profile.device)] if new else []
    write_csv(path, header, _kernel_rows(profile, rows, device, "COMMUNICATION" if new else "HCCL"))


def _waits(rows: Sequence[Task | CommOp]) -> Iterator[tuple[Task | CommOp, str]]:
    """Each row with the time since the end of the one before."""
    before: int | None = None
    for row in rows:
        yield row, "0" if before is None else short(max(0, row.start_ns - before))
        before = row.end_ns


def _kernel_rows_0(profile: Profile, rows: Sequence[Task | CommOp]) -> Rows:
    for row, wait in _waits(rows):
        core = "HCCL" if isinstance(row, CommOp) else "N/A"
        lasts = short(row.end_ns - row.start_ns)
        yield str(row.launch.step), row.name, "N/A", core, _tab(profile, row.start_ns), lasts, wait, "0"


def _kernel_rows(profile: Profile, rows: Sequence[Task | CommOp], device: Sequence[str], comm: str) -> Rows:
    mhz = dict.fromkeys((mark.number for mark in profile.steps), FULL_MHZ)
    mhz |= {mark.number: value for mark, (_, value) in zip(profile.steps, profile.frequency, strict=True)}
    for row, wait in _waits(rows):
        step, ns = row.launch.step, row.end_ns - row.start_ns
        time = (_tab(profile, row.start_ns), short(ns), wait)
        first = (str(step), *device, str(NONE))
        if isinstance(row, CommOp):
            kind = f"hcom_{row.hccl}_"
            yield (
                *first,
                "N/A",
                "N/A",
                row.name,
                kind,
                "N/A",
                comm,
                *time,
                "0",
                *["N/A"] * (9 + len(PMU_NAMES)),
            )
        elif row.kernel is not None:
            kernel = row.kernel
            yield (
                *(*first, str(row.task_id), str(row.stream), row.name, kernel.type, "dynamic", kernel.core),
                *(*time, str(kernel.blocks), "0", "YES" if kernel.core == "AI_CORE" else "NO"),
                *(f'"{kernel.inputs}"', kernel.dtypes, kernel.formats),
                *(f'"{kernel.output}"', kernel.output_dtype, kernel.output_format),
                "0" if kernel.core == "MIX_AIC" else "N/A",
                *pmu_of(kernel, ns, mhz[step]).values(),
            )


def step_trace_time(path: Path, profile: Profile, options: Options) -> None:
    """`step_trace_time.csv`."""
    new = options.writer == "2025"
    header = [
        *(["Device_id"] if new else []),
        *(
            "Step",
            "Computing",
            "Communication(Not Overlapped)",
            "Overlapped",
            "Communication",
            "Free",
            "Stage",
        ),
        *("Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing"),
    ]

    def rows() -> Rows:
        for row in steps_of(profile):
            times = (
                row.compute_ns,
                row.exposed_ns,
                row.overlapped_ns,
                row.comm_ns,
                row.free_ns,
                row.stage_ns,
            )
            yield (
                *([str(profile.device)] if new else []),
                *(str(row.step), *map(short, times), short(row.bubble_ns) if row.bubble_ns else "0"),
                *(_signed(row.exposed_without_receive_ns), short(row.preparing_ns)),
            )

    write_csv(path, header, rows())


def _signed(ns: int) -> str:
    return short(ns) if ns >= 0 else "-" + short(-ns)


def op_statistic(path: Path, profile: Profile, options: Options) -> None:
    """`op_statistic.csv`: kernels by type and core."""
    found: dict[tuple[str, str], list[int]] = {}
    for task in profile.tasks:
        if task.kernel is not None:
            found.setdefault((task.kernel.type, task.kernel.core), []).append(task.end_ns - task.start_ns)
    everything = sum(sum(times) for times in found.values())
    device = [str(profile.device)] if options.writer == "2025" else []
    rows = [
        [
            *(*device, kind, core, str(len(times)), short(sum(times)), short(min(times))),
            *(short(sum(times) // len(times)), short(max(times))),
            _ratio(sum(times) * 100, everything),
        ]
        for (kind, core), times in sorted(found.items(), key=lambda item: (-sum(item[1]), item[0]))
    ]
    columns = [
        "Core Type",
        "Count",
        "Total Time(us)",
        "Min Time(us)",
        "Avg Time(us)",
        "Max Time(us)",
        "Ratio(%)",
    ]
    write_csv(path, [*(["Device_id"] if device else []), "OP Type", *columns], rows)


def _ratio(part: int, whole: int) -> str:
    return short(part * 1_000 // whole) if whole else "0.0"


def api_statistic(path: Path, profile: Profile, options: Options) -> None:
    """`api_statistic.csv`: CANN calls by layer and name."""
    found: dict[tuple[str, str], list[int]] = {}
    for call in profile.calls:
        if call.kind in ("acl", "node", "hccl", "runtime"):
            found.setdefault((call.name, call.kind), []).append(call.end_ns - call.start_ns)
    new = options.writer == "2025"
    rows = []
    for (name, kind), times in sorted(found.items()):
        mean = sum(times) // len(times)
        variance = sum((time - mean) ** 2 for time in times) // len(times) // 1_000
        level = "communication" if new and kind == "hccl" else kind
        numbers = [short(sum(times)), str(len(times)), short(mean), short(min(times)), short(max(times))]
        rows.append([*(["host"] if new else []), level, name, *numbers, short(variance)])
    columns = ["Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"]
    write_csv(path, [*(["Device_id"] if new else []), *columns], rows)


def operator_details(path: Path, profile: Profile) -> None:
    """`operator_details.csv`: framework operators with their own and their children's time on both sides."""
    header = [
        *("Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)"),
        *("Device Self Duration(us)", "Device Total Duration(us)"),
        *("Device Self Duration With AICore(us)", "Device Total Duration With AICore(us)"),
    ]
    own = _device_time(profile)
    calls = [call for call in profile.calls if call.kind == "op"]
    self_ns = [call.end_ns - call.start_ns for call in calls]
    totals = [list(own.get((call.tid, call.start_ns), (0, 0))) for call in calls]
    stacks: dict[int, list[int]] = {}
    parents: list[int | None] = []
    for index, call in enumerate(calls):
        stack = stacks.setdefault(call.tid, [])
        while stack and calls[stack[-1]].end_ns <= call.start_ns:
            stack.pop()
        parents.append(stack[-1] if stack else None)
        stack.append(index)
    for index in reversed(range(len(calls))):
        parent = parents[index]
        if parent is not None:
            self_ns[parent] -= calls[index].end_ns - calls[index].start_ns
            totals[parent][0] += totals[index][0]
            totals[parent][1] += totals[index][1]
    write_csv(path, header, _operator_rows(calls, self_ns, own, totals))


def _operator_rows(
    calls: Sequence[HostCall],
    self_ns: Sequence[int],
    own: dict[tuple[int, int], tuple[int, int]],
    totals: Sequence[Sequence[int]],
) -> Rows:
    for call, alone, total in zip(calls, self_ns, totals, strict=True):
        mine = own.get((call.tid, call.start_ns), (0, 0))
        device = (mine[0], total[0], mine[1], total[1])
        yield (
            *(call.name, (call.shapes or "").replace(";", ";\n"), ";\n".join(call.stack)),
            *(short(alone), short(call.end_ns - call.start_ns)),
            *(short(ns) if ns else "0" for ns in device),
        )


def _device_time(profile: Profile) -> dict[tuple[int, int], tuple[int, int]]:
    """Device time, and AI Core time, of the tasks of each operator, by its thread and start."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    rows: list[Task | CommOp] = [*profile.tasks, *profile.comms]
    for row in rows:
        if isinstance(row, Task) and row.kind == "event":
            continue
        key, ns = (row.launch.op_tid, row.launch.op_ns), row.end_ns - row.start_ns
        cores = isinstance(row, Task) and row.kernel is not None and row.kernel.core != "AI_CPU"
        device, core = found.get(key, (0, 0))
        found[key] = (device + ns, core + (ns if cores else 0))
    return found


def _mb(size: int) -> str:
    """MiB; a block is a multiple of 512 bytes, so a double holds it exactly."""
    return str(size / MIB)


def memory_record(path: Path, profile: Profile) -> None:
    """`memory_record.csv`: the process total, then every change of the caching allocator."""
    header = ["Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)"]
    npu = f"NPU:{profile.device}"
    rows = [["APP", _tab(profile, moment), "", _mb(APP_BYTES), "", "", npu] for moment in samples(profile)]
    curve, _, _ = memory_curve(profile.blocks)
    for level in curve:
        held = _mb(level.allocated)
        for component in ("PTA", "PTA+GE"):
            moment = _tab(profile, level.ts_ns)
            rows.append([component, moment, held, _mb(RESERVED_BYTES), held, str(STREAM_POINTER), npu])
    write_csv(path, [*header, "Stream Ptr", "Device Type"], rows)


def operator_memory(path: Path, profile: Profile) -> None:
    """`operator_memory.csv`: every block with the allocator's state when it came and went."""
    header = [
        *(
            "Name",
            "Size(KB)",
            "Allocation Time(us)",
            "Release Time(us)",
            "Active Release Time(us)",
            "Duration(us)",
        ),
        *("Active Duration(us)", "Allocation Total Allocated(MB)", "Allocation Total Reserved(MB)"),
        *("Allocation Total Active(MB)", "Release Total Allocated(MB)", "Release Total Reserved(MB)"),
        *("Release Total Active(MB)", "Stream Ptr", "Device Type"),
    ]
    _, malloc, release = memory_curve(profile.blocks)
    reserved = _mb(RESERVED_BYTES)
    rows = []
    for index, block in enumerate(profile.blocks):
        end: Sequence[str] = [""] * 4
        after: Sequence[str] = [""] * 3
        if block.release_ns is not None:
            lasts = us(block.release_ns - block.alloc_ns) + "\t"
            moment = _tab(profile, block.release_ns)
            end, after = [moment, moment, lasts, lasts], [_mb(release[index]), reserved, _mb(release[index])]
        held = _mb(malloc[index])
        rows.append(
            [
                *(
                    block.name,
                    str(block.bytes / KIB),
                    _tab(profile, block.alloc_ns),
                    *end,
                    held,
                    reserved,
                    held,
                ),
                *(*after, str(STREAM_POINTER), f"NPU:{profile.device}"),
            ]
        )
    write_csv(path, header, rows)


def npu_module_mem(path: Path, profile: Profile, options: Options) -> None:
    """`npu_module_mem.csv`: memory by CANN module, sampled."""
    new = options.writer == "2025"
    device = [str(profile.device)] if new else []
    rows = (
        [
            *device,
            name,
            _tab(profile, moment),
            _mb(RESERVED_BYTES if name == "APP" else 0),
            f"NPU:{profile.device}",
        ]
        for name in MODULES
        for moment in samples(profile)
    )
    columns = ["Component", "Timestamp(us)", "Total Reserved(MB)", "Device"]
    write_csv(path, [*(["Device_id"] if new else []), *columns], rows)
