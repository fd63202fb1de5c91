"""The rows of `analysis.db`: the step's split and the sums of communication, as torch_npu stores them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hermes_testing.ascend_common import (
    MEGA,
    classes_of,
    epoch,
    gb_per_s,
    ranked,
    shown_type,
    split_of,
    summed_links,
    traffic_of,
)
from hermes_testing.ascend_text import by_step
from hermes_testing.database import write_database
from hermes_testing.db_schema import Value
from hermes_testing.job import Job
from hermes_testing.profile import CommOp, Profile
from hermes_testing.truth import steps_of

Row = Sequence[Value]


def write_analysis_db(path: Path, job: Job, profile: Profile) -> None:
    """Write the file; below Level1 it has the table of steps only."""
    tables: list[tuple[str, list[Row]]] = [("StepTraceTime", list(_steps(profile)))]
    if job.level != "Level0" and profile.comms:
        tables += [
            ("CommAnalyzerTime", list(_times(profile))),
            ("CommAnalyzerBandwidth", list(_bandwidths(profile))),
            ("CommAnalyzerMatrix", list(_matrix(profile))),
        ]
    write_database(path, tables, "1.0")


def _us(ns: int) -> float:
    return ns / 1_000


def _steps(profile: Profile) -> Iterator[Row]:
    for row in steps_of(profile):
        times = (row.compute_ns, row.exposed_ns, row.overlapped_ns, row.comm_ns, row.free_ns, row.stage_ns)
        rest = (row.bubble_ns, row.exposed_without_receive_ns, row.preparing_ns)
        yield (str(row.step), *map(_us, times), *map(_us, rest))


def _operations(profile: Profile) -> Iterator[tuple[CommOp, str, str]]:
    for step, comms in by_step(profile).items():
        for comm in comms:
            yield comm, f"step{step}", "p2p" if comm.is_p2p else "collective"


def _times(profile: Profile) -> Iterator[Row]:
    for comm, step, kind in _operations(profile):
        split = split_of(comm)
        times = (split.elapse, split.transit, split.wait, split.sync, split.idle)
        start = epoch(profile, comm.start_ns) / 1_000
        yield (comm.name, comm.group.hash, start, *(ns / MEGA for ns in times), step, kind)


def _bandwidths(profile: Profile) -> Iterator[Row]:
    for comm, step, kind in _operations(profile):
        for transport, traffic in traffic_of(comm).items():
            if not traffic.bytes:
                continue
            sums = (traffic.bytes / MEGA, traffic.ns / MEGA, gb_per_s(traffic.bytes, traffic.ns), 0)
            for size, (count, ns) in traffic.sizes.items() or [(0, (0, 0))]:
                packet = (size / MEGA, count, ns / MEGA)
                yield (comm.name, comm.group.hash, transport, *sums, *packet, step, kind)


def _matrix(profile: Profile) -> Iterator[Row]:
    for step, comms in by_step(profile).items():
        for (p2p, name, group), same in classes_of(comms).items():
            for rank, picked in ranked(same):
                for link, op_name in summed_links(picked):
                    yield (
                        *(f"{shown_type(name)}-{rank}", group, str(link.src), str(link.dst), link.transport),
                        *(link.bytes / MEGA, link.ns / MEGA, gb_per_s(link.bytes, link.ns)),
                        *(f"step{step}", "p2p" if p2p else "collective", op_name),
                    )
