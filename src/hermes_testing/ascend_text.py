"""Writes one rank's capture as torch_npu's text export: the folder and its json files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes_testing import ascend_csv
from hermes_testing.ascend_common import (
    ENVIRONMENT,
    MEGA,
    Options,
    Split,
    Traffic,
    classes_of,
    distributed_args,
    epoch,
    folder_name,
    gb_per_s,
    group_info,
    ranked,
    shown_type,
    split_of,
    summed_links,
    traffic_of,
)
from hermes_testing.ascend_trace import write_trace
from hermes_testing.job import Job
from hermes_testing.profile import CommOp, Profile

_LARGE = {"RDMA": 500_000, "HCCS": 16_000_000}


def write_ascend_text(folder: Path, job: Job, profile: Profile, options: Options) -> Path:
    """Write the capture below `folder`; returns its own folder."""
    root = folder / folder_name(profile)
    out = root / "ASCEND_PROFILER_OUTPUT"
    out.mkdir(parents=True)
    write_info(root, job, profile, options, export="text")
    write_trace(out / "trace_view.json", job, profile, options)
    ascend_csv.kernel_details(out / "kernel_details.csv", job, profile, options)
    ascend_csv.step_trace_time(out / "step_trace_time.csv", profile, options)
    ascend_csv.operator_details(out / "operator_details.csv", profile)
    ascend_csv.memory_record(out / "memory_record.csv", profile)
    ascend_csv.operator_memory(out / "operator_memory.csv", profile)
    ascend_csv.npu_module_mem(out / "npu_module_mem.csv", profile, options)
    if job.level != "Level0":
        ascend_csv.op_statistic(out / "op_statistic.csv", profile, options)
        ascend_csv.api_statistic(out / "api_statistic.csv", profile, options)
        if profile.comms:
            _write_json(out / "communication.json", _communication(profile))
            _write_json(out / "communication_matrix.json", _matrix(profile))
    return root


def write_info(root: Path, job: Job, profile: Profile, options: Options, *, export: str) -> None:
    """Write `profiler_info_{rank}.json` and `profiler_metadata.json`."""
    new = options.writer == "2025"
    started = 168_723_724_831_520 + profile.clock_ns
    info: dict[str, object] = {
        "config": {
            "common_config": {
                "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
                "schedule": {
                    "wait": 0,
                    "active": job.steps,
                    "warmup": 1,
                    "repeat": 1,
                    "skip_first": max(0, job.first_step - 1),
                },
                "record_shapes": True,
                "profile_memory": True,
                "with_stack": job.stacks,
                "with_flops": False,
                "with_modules": job.stacks,
            },
            "experimental_config": {
                "_profiler_level": job.level,
                "_aic_metrics": "ACL_AICORE_NONE" if job.level == "Level0" else "ACL_AICORE_PIPE_UTILIZATION",
                "_l2_cache": False,
                "_msprof_tx": False,
                "_data_simplification": True,
                "record_op_args": False,
                "_export_type": [export] if new else export,
                "_op_attr": False,
                "_gc_detect_threshold": 1.0 if profile.collections else None,
            },
        },
        "start_info": {
            "syscnt_enable": True,
            "freq": 100,
            "start_cnt": started // 10,
            "start_monotonic": started,
        },
        "end_info": {
            "collectionTimeEnd": epoch(profile, profile.end_ns),
            "MonotonicTimeEnd": started + profile.end_ns,
        },
        "rank_id": profile.rank,
    }
    if new:
        info |= {"torch_npu_version": "2.7.1", "cann_version": "8.3.RC1"}
    path = root / f"profiler_info_{profile.rank}.json"
    path.write_text(json.dumps(info, indent=4), encoding="utf-8")
    metadata = root / "profiler_metadata.json"
    metadata.write_text(json.dumps(metadata_of(job, profile), indent=4), encoding="utf-8")


def metadata_of(job: Job, profile: Profile) -> dict[str, Mapping[str, object]]:
    """Environment, layout and groups, as `profiler_metadata.json` and the database hold them."""
    return {
        "ENV_VARIABLES": dict.fromkeys(ENVIRONMENT, ""),
        "distributed_args": distributed_args(job, profile.rank),
        "parallel_group_info": group_info(profile),
    }


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def by_step(profile: Profile) -> dict[int, list[CommOp]]:
    """Communication operations by the step that launched them."""
    found: dict[int, list[CommOp]] = {mark.number: [] for mark in profile.steps}
    for comm in profile.comms:
        found[comm.launch.step].append(comm)
    return found


def _communication(profile: Profile) -> dict[str, object]:
    document: dict[str, object] = {}
    for step, comms in by_step(profile).items():
        p2p = {f"{comm.name}@{comm.group.hash}": _record(profile, comm) for comm in comms if comm.is_p2p}
        collectives = [comm for comm in comms if not comm.is_p2p]
        collective: dict[str, object] = {
            f"{comm.name}@{comm.group.hash}": _record(profile, comm) for comm in collectives
        }
        if collectives:
            collective["Total Op Info"] = _total(collectives)
        document[f"step{step}"] = {"p2p": p2p, "collective": collective}
    return document


def _record(profile: Profile, comm: CommOp) -> dict[str, object]:
    return {
        # The writer keeps this one as a double, so its nanoseconds are lost.
        "Communication Time Info": {"Start Timestamp(us)": epoch(profile, comm.start_ns) / 1_000}
        | _time_info(split_of(comm)),
        "Communication Bandwidth Info": {name: _bandwidth(name, traffic) for name, traffic in traffic_of(comm).items()},
    }


def _time_info(split: Split) -> dict[str, float]:
    return {
        "Elapse Time(ms)": split.elapse / MEGA,
        "Transit Time(ms)": split.transit / MEGA,
        "Wait Time(ms)": split.wait / MEGA,
        "Synchronization Time(ms)": split.sync / MEGA,
        "Idle Time(ms)": split.idle / MEGA,
        "Wait Time Ratio": _share(split.wait, split.transit),
        "Synchronization Time Ratio": _share(split.sync, split.transit),
    }


def _share(part: int, rest: int) -> float:
    return round(part / (part + rest), 4) if part + rest else 0.0


def _bandwidth(name: str, traffic: Traffic) -> dict[str, object]:
    large = sum(count for size, (count, _) in traffic.sizes.items() if size >= _LARGE.get(name, 0))
    packets = sum(count for count, _ in traffic.sizes.values())
    return {
        "Transit Size(MB)": _per_mega(traffic.bytes),
        "Transit Time(ms)": _per_mega(traffic.ns),
        "Bandwidth(GB/s)": gb_per_s(traffic.bytes, traffic.ns),
        "Large Packet Ratio": round(large / packets, 4) if packets else 0,
        "Size Distribution": _sizes(traffic.sizes),
    }


def _per_mega(value: int) -> float:
    return value / MEGA if value else 0


def _sizes(sizes: Mapping[int, tuple[int, int]]) -> dict[str, list[float]]:
    return {str(size / MEGA): [count, ns / MEGA] for size, (count, ns) in sizes.items()}


def _total(comms: Sequence[CommOp]) -> dict[str, object]:
    splits = [split_of(comm) for comm in comms]
    merged: dict[str, dict[int, tuple[int, int]]] = {}
    sums: dict[str, tuple[int, int]] = {}
    for comm in comms:
        for name, traffic in traffic_of(comm).items():
            size, ns = sums.get(name, (0, 0))
            sums[name] = (size + traffic.bytes, ns + traffic.ns)
            for packet, (count, time) in traffic.sizes.items():
                of = merged.setdefault(name, {})
                before = of.get(packet, (0, 0))
                of[packet] = (before[0] + count, before[1] + time)
    whole = Split(
        elapse=sum(split.elapse for split in splits),
        transit=sum(split.transit for split in splits),
        wait=sum(split.wait for split in splits),
        sync=sum(split.sync for split in splits),
    )
    return {
        "Communication Time Info": _time_info(whole),
        "Communication Bandwidth Info": {
            name: {
                "Transit Time(ms)": _per_mega(ns),
                "Transit Size(MB)": _per_mega(size),
                "Size Distribution": _sizes(merged.get(name, {})),
            }
            for name, (size, ns) in sums.items()
        },
    }


def _matrix(profile: Profile) -> dict[str, object]:
    document: dict[str, object] = {}
    for step, comms in by_step(profile).items():
        kinds: dict[str, dict[str, object]] = {"p2p": {}, "collective": {}}
        for (p2p, name, group), same in classes_of(comms).items():
            for rank, picked in ranked(same):
                kinds["p2p" if p2p else "collective"][f"{shown_type(name)}-{rank}@{group}"] = _links(picked)
        document[f"step{step}"] = kinds
    return document


def _links(comms: Sequence[CommOp]) -> dict[str, object]:
    return {
        f"{link.src}-{link.dst}": {
            "Transport Type": link.transport,
            "Transit Size(MB)": link.bytes / MEGA,
            "Transit Time(ms)": link.ns / MEGA,
            "Bandwidth(GB/s)": gb_per_s(link.bytes, link.ns),
            "Op Name": name,
        }
        for link, name in summed_links(comms)
    }
