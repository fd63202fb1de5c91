"""Short factories for the measures that rules judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

from hermes.knowledge.host_work import ALLOCATION
from hermes.model.host_measures import AllocatorCalls, Dispatch, HostEvents, HostPart, StepHost, SyncCall
from hermes.model.input_measures import Fetches
from hermes.model.job import Job, JobMeasures
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime, spent
from hermes.model.step_measures import PeerWait, StepSplit
from hermes.model.typical_step import JobSteps


def _split(rank: int, step: int | None, parts: Mapping[str, int]) -> StepSplit:
    """A measured step; the rest of `window` after the parts is compute."""
    window = parts.get("window", 1_000)
    exposed, copy, free = (parts.get(name, 0) for name in ("exposed", "copy", "free"))
    return StepSplit(
        rank=rank, step=step, window_kind="device", start_ns=0, window_ns=window,
        compute_ns=window - exposed - copy - free,
        comm_ns=exposed, exposed_comm_ns=exposed, overlapped_comm_ns=0, copy_ns=copy, copy_exposed_ns=copy,
        free_ns=free,
        preparing_ns=0, host_ns=parts.get("host", 1_000),
    )  # fmt: skip


@pytest.fixture
def split() -> Callable[..., StepSplit]:
    """Makes a split: `split(rank, step, window=…, exposed=…, copy=…, free=…, host=…)`."""

    def make(rank: int = 0, step: int | None = 0, **parts: int) -> StepSplit:
        return _split(rank, step, parts)

    return make


@pytest.fixture
def wait() -> Callable[..., PeerWait]:
    """Makes a wait of one rank for another."""

    def make(
        rank: int,
        peer: int,
        longest: int,
        *,
        total: int | None = None,
        waits: int = 1,
        collected: bool = False,
        disjoint: bool = False,
    ) -> PeerWait:
        return PeerWait(
            rank=rank,
            peer=peer,
            peer_collected=collected,
            waits=waits,
            total_ns=longest if total is None else total,
            longest_ns=longest,
            longest_at_ns=0,
            disjoint=disjoint,
        )

    return make


@pytest.fixture
def held() -> Callable[..., LeafTime]:
    """Makes the idle time of a device in calls that wait for it, in ns a step: `held("aten::item", 300)`."""

    def make(call: str, ns: int, *, rank: int = 0) -> LeafTime:
        return LeafTime(
            rank=rank, leaf=Leaf.SYNCHRONISATION, how=How.CALL, what=call, place="", awaited=None, total_ns=ns,
            step_ns=ns, long_ns=0,
        )  # fmt: skip

    return make


@pytest.fixture
def measures() -> Callable[..., JobMeasures]:
    """Makes measures of steps and of rows of any kind: `measures([split()], event("compilation", 300))`."""

    def make(
        splits: Sequence[StepSplit], *rows: object, vendors: Mapping[int, str] | None = None, certainty: float = 1.0
    ) -> JobMeasures:
        steps = JobSteps(tuple(splits))
        job = Job(
            steps=steps,
            spent=spent((row for row in rows if isinstance(row, LeafTime)), steps.counts),
            inputs={rank: f"rank{rank}_ascend_pt" for rank in sorted({split.rank for split in splits})},
            vendors=vendors or {},
            certainty=certainty,
        )
        return JobMeasures(job, rows)

    return make


@pytest.fixture
def blind() -> Callable[..., StepSplit]:
    """Makes a step of a job without a device: only its length on the host is known."""

    def make(rank: int = 0, step: int | None = 0, host: int = 1_000) -> StepSplit:
        return StepSplit(
            rank=rank, step=step, window_kind="host", start_ns=0, window_ns=host, compute_ns=None, comm_ns=None,
            exposed_comm_ns=None, overlapped_comm_ns=None, copy_ns=None, copy_exposed_ns=None, free_ns=None,
            preparing_ns=None, host_ns=host,
        )  # fmt: skip

    return make


@pytest.fixture
def fetches() -> Callable[..., Fetches]:
    """Makes the data fetches of a rank, one a step: `wait` is their total time, in which the device is free."""

    def make(kind: Literal["main process", "workers", "not told"], wait: int, **more: Any) -> Fetches:
        steps = more.pop("steps", 1)
        made = Fetches(
            rank=0, kind=kind, steps=steps, fetches=steps, wait_ns=wait, median_ns=wait // steps,
            longest_ns=wait // steps, longest_step=0, long=steps, device_free_ns=wait, queue_wait_ns=None, early=None,
            epochs=None, epoch_ns=None, reading_ns=None, processing_ns=None,
        )  # fmt: skip
        return replace(made, **more)

    return make


@pytest.fixture
def event() -> Callable[..., HostEvents]:
    """Makes the calls of one kind of a rank; by default the device is free in all of their time."""

    def make(what: str, ns: int, **more: Any) -> HostEvents:
        made = (AllocatorCalls if what == ALLOCATION else HostEvents)(
            rank=0, what=what, steps=1, steps_hit=1, calls=1, ns=ns, longest_ns=ns, device_free_ns=ns,
            names=(("a call", 1, ns),), source="names of host calls",
        )  # fmt: skip
        return replace(made, **more)

    return make


@pytest.fixture
def idle() -> Callable[..., list[LeafTime]]:
    """Makes the idle leaves of a rank, in ns a step: `idle(dispatch=90, python=10)`."""

    def make(rank: int = 0, **leaves: int) -> list[LeafTime]:
        return [
            LeafTime(
                rank=rank, leaf=Leaf(name), how=How.CALL, what="", place="", awaited=None, total_ns=ns, step_ns=ns,
                long_ns=0,
            )
            for name, ns in leaves.items()
        ]  # fmt: skip

    return make


@pytest.fixture
def host_step() -> Callable[..., StepHost]:
    """Makes the host's part of a step; each reason with its time, in which the device was free."""

    def make(parts: Mapping[str, int], rank: int = 0) -> StepHost:
        return StepHost(
            rank=rank, step=0, start_ns=0, host_ns=sum(parts.values()), threads=1, queue_ns=None,
            parts=tuple(HostPart(reason=reason, ns=ns, device_free_ns=ns) for reason, ns in parts.items()),
        )  # fmt: skip

    return make


@pytest.fixture
def dispatch() -> Callable[..., Dispatch]:
    """Makes the row on how the host fed the device in a step of 100 tasks."""

    def make(**more: Any) -> Dispatch:
        made = Dispatch(
            rank=0, step=0, tasks=100, linked=100, interval_ns=8, kernel_ns=4, ratio=2.0, small=0, late=50,
            late_free_ns=0, delay_ns=1, task_queue=None, task_queue_source="not recorded",
        )  # fmt: skip
        return replace(made, **more)

    return make


@pytest.fixture
def sync() -> Callable[..., SyncCall]:
    """Makes calls of one place that wait; the device is free for `idle` of the wait and for `refill` after it."""

    def make(operator: str, idle: int, refill: int = 0, source: str | None = None, **more: Any) -> SyncCall:
        made = SyncCall(
            rank=0, step=0, names=("cudaStreamSynchronize",), operator=operator, source=source, calls=1, wait_ns=idle,
            compute_ns=0, comm_ns=0, copy_ns=0, idle_ns=idle, refill_ns=refill, longest_ns=idle,
            longest_at_ns=7,
        )  # fmt: skip
        return replace(made, **more)

    return make
