"""The blocks `overlap`, `input`, `host` and `memory` of the JSON report."""

from __future__ import annotations

from hermes.analyze.host_measures import (
    Dispatch,
    Fetches,
    HostEvents,
    HostSide,
    InputQueue,
    MemoryPeak,
    SettingValues,
    StepHost,
    StepOverlap,
    SyncCall,
    UnusedGradients,
)
from hermes.knowledge.host_work import ALLOCATION
from hermes.report.values import finite, maybe, ms, text_of, texts


def host_blocks(host: HostSide) -> dict[str, object]:
    """The four blocks, by name."""
    return {
        "overlap": [_overlap(row) for row in host.overlap],
        "input": _input(host),
        "host": _host(host),
        "memory": _memory(host),
    }


def _overlap(row: StepOverlap) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "window_ms": ms(row.window_ns),
        "absent": texts(row.absent),
        "parts": [
            {
                "component": text_of(part.component),
                "group": maybe(part.group),
                "events": part.events,
                "busy_ms": ms(part.busy_ns),
                "exposed_ms": ms(part.exposed_ns),
                "alone_ms": ms(part.alone_ns),
                "overlap": finite(part.overlap),
            }
            for part in row.parts
        ],
        "states": [{"components": texts(state.components), "ms": ms(state.ns)} for state in row.states],
    }


def _input(host: HostSide) -> dict[str, object]:
    return {
        "fetches": [_fetches(row) for row in host.fetches],
        "queues": [_queue(row) for row in host.queues],
        "rates": [
            {
                "rank": row.rank,
                "demand_per_s": finite(row.demand),
                "supply_per_s": finite(row.supply),
                "copies_per_s": finite(row.fetching),
                "workers_needed": row.workers_needed,
                "cores_free": finite(row.cores_free),
                "cores": row.cores,
            }
            for row in host.rates
        ],
        "copies": [
            {
                "rank": row.rank,
                "copies": row.copies,
                "bytes": row.bytes,
                "ms": ms(row.time_ns),
                "exposed_ms": ms(row.exposed_ns),
                "pageable_bytes": row.pageable_bytes,
            }
            for row in host.copies
        ],
    }


def _fetches(row: Fetches) -> dict[str, object]:
    return {
        "rank": row.rank,
        "kind": row.kind,
        "steps": row.steps,
        "fetches": row.fetches,
        "wait_ms": ms(row.wait_ns),
        "median_ms": ms(row.median_ns),
        "longest_ms": ms(row.longest_ns),
        "longest_step": row.longest_step,
        "long": row.long,
        "device_free_ms": ms(row.device_free_ns),
        "queue_wait_ms": ms(row.queue_wait_ns),
        "early": row.early,
        "epochs": row.epochs,
        "epoch_ms": ms(row.epoch_ns),
        "reading_ms": ms(row.reading_ns),
        "processing_ms": ms(row.processing_ns),
    }


def _queue(row: InputQueue) -> dict[str, object]:
    return {
        "rank": row.rank,
        "queue": row.queue,
        "name": text_of(row.name),
        "workers": row.workers,
        "capacity": row.capacity,
        "average": finite(row.average),
        "usage": finite(row.usage),
        "empty": finite(row.empty),
        "full": finite(row.full),
        "samples": row.samples,
        "source": text_of(row.source),
    }


def _host(host: HostSide) -> dict[str, object]:
    return {
        "steps": [_step(row) for row in host.steps],
        "dispatch": [_dispatch(row) for row in host.dispatch],
        "queue_depth": [
            {
                "rank": row.rank,
                "step": row.step,
                "device_id": row.device_id,
                "tasks": row.tasks,
                "mean": finite(row.mean),
                "median": row.median,
                "most": row.most,
                "empty": finite(row.empty),
                "full": finite(row.full),
                "curve": [finite(value) for value in row.curve],
            }
            for row in host.depths
        ],
        "sync_calls": [_sync(row) for row in host.syncs],
        "events": [_events(row) for row in host.events if row.what != ALLOCATION],
        "shapes": [
            {
                "rank": row.rank,
                "known": row.known,
                "dynamic": row.dynamic,
                "kernels": row.kernels,
                "distinct": row.distinct,
                "new": row.new,
            }
            for row in host.shapes
        ],
        "contention": [
            {"rank": row.rank, "cores": row.cores, "usage": finite(row.usage), "busiest": finite(row.busiest)}
            for row in host.contention
        ],
        "unused_gradients": [_unused(row) for row in host.unused],
        "settings": [_setting(row) for row in host.settings],
    }


def _step(row: StepHost) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "start_ns": row.start_ns,
        "host_ms": ms(row.host_ns),
        "threads": row.threads,
        "queue_ms": ms(row.queue_ns),
        "parts": [
            {"reason": text_of(part.reason), "ms": ms(part.ns), "device_free_ms": ms(part.device_free_ns)}
            for part in row.parts
        ],
    }


def _dispatch(row: Dispatch) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "tasks": row.tasks,
        "linked": row.linked,
        "interval_ms": ms(row.interval_ns),
        "kernel_ms": ms(row.kernel_ns),
        "ratio": finite(row.ratio),
        "small": row.small,
        "late": row.late,
        "late_free_ms": ms(row.late_free_ns),
        "delay_ms": ms(row.delay_ns),
        "task_queue": row.task_queue,
        "task_queue_source": text_of(row.task_queue_source),
    }


def _sync(row: SyncCall) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "names": texts(row.names),
        "operator": text_of(row.operator),
        "source": maybe(row.source),
        "calls": row.calls,
        "wait_ms": ms(row.wait_ns),
        "compute_ms": ms(row.compute_ns),
        "comm_ms": ms(row.comm_ns),
        "copy_ms": ms(row.copy_ns),
        "idle_ms": ms(row.idle_ns),
        "refill_ms": ms(row.refill_ns),
        "longest_ms": ms(row.longest_ns),
    }


def _events(row: HostEvents) -> dict[str, object]:
    return {
        "rank": row.rank,
        "what": text_of(row.what),
        "steps": row.steps,
        "steps_hit": row.steps_hit,
        "calls": row.calls,
        "ms": ms(row.ns),
        "longest_ms": ms(row.longest_ns),
        "device_free_ms": ms(row.device_free_ns),
        "names": [{"name": text_of(name), "calls": calls, "ms": ms(ns)} for name, calls, ns in row.names],
        "source": text_of(row.source),
    }


def _unused(row: UnusedGradients) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "gradients": row.gradients,
        "unused": row.unused,
        "dropped": row.dropped,
        "shapes": [{"shape": text_of(shape), "gradients": count} for shape, count in row.shapes],
        "whole_host_ms": ms(row.whole.host_ns),
        "whole_device_ms": ms(row.whole.device_ns),
        "partly_host_ms": ms(row.partly.host_ns),
        "partly_device_ms": ms(row.partly.device_ns),
        "compute_ms": ms(row.compute_ns),
    }


def _setting(row: SettingValues) -> dict[str, object]:
    return {
        "source": text_of(row.source),
        "name": text_of(row.name),
        "differs": row.differs,
        "values": [{"value": maybe(value), "ranks": list(ranks)} for value, ranks in row.values],
        "absent": list(row.absent),
    }


def _memory(host: HostSide) -> dict[str, object]:
    return {
        "peaks": [_peak(row) for row in host.peaks],
        "allocator": [_events(row) for row in host.events if row.what == ALLOCATION],
        "growth": [
            {
                "rank": row.rank,
                "component": text_of(row.component),
                "device_id": row.device_id,
                "steps": row.steps,
                "bytes_per_step": finite(row.bytes_per_step),
                "r2": finite(row.r2),
            }
            for row in host.growth
        ],
        "recompute": [
            {
                "rank": row.rank,
                "step": row.step,
                "ops": row.ops,
                "host_ms": ms(row.host_ns),
                "device_ms": ms(row.device_ns),
                "compute_ms": ms(row.compute_ns),
            }
            for row in host.recompute
        ],
        "holders": [
            {
                "rank": row.rank,
                "module": maybe(row.module),
                "operator": text_of(row.operator),
                "blocks": row.blocks,
                "bytes": row.bytes,
                "share": finite(row.share),
            }
            for row in host.holders
        ],
    }


def _peak(row: MemoryPeak) -> dict[str, object]:
    return {
        "rank": row.rank,
        "component": text_of(row.component),
        "device_id": row.device_id,
        "samples": row.samples,
        "allocated_bytes": row.allocated_bytes,
        "allocated_at_ns": row.allocated_at_ns,
        "allocated_step": row.allocated_step,
        "reserved_bytes": row.reserved_bytes,
        "active_bytes": row.active_bytes,
        "fragmentation": finite(row.fragmentation),
    }
