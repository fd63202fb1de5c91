"""Every measure that a symptom may name: its unit, what it means, and which fields of the report it comes from.

A share of a step is of its window, on the step of median length of a rank; where a measure is one a rank, group or
link, a symptom speaks of the one that it fits worst. `fields` are paths in the document `hermes.report/1`
(docs/report-json.md). Brackets choose among measures of one kind: `free.share[data loading]`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hermes.knowledge.host_work import REASONS

ANY = ("*",)
"""In brackets anything may stand: the name of an operator, of a setting; `*` in it stands for the rest of a name."""

BEFORE = "before the capture"
"""Source of the settings in which a capture of Hermes says what steps were like without its profiler."""

_HOST = tuple(dict.fromkeys((*REASONS, "checkpoint or logging")))
_EVENTS = (
    "compilation", "garbage collection", "checkpoint or logging", "loading of files",
    "starting of threads and processes",
)  # fmt: skip
_QUEUES = ("data", "host", "device")
_CLASSES = (
    "matmul", "batched matmul", "convolution", "attention", "attention backward", "normalisation", "softmax",
    "elementwise", "reduction", "pooling", "optimizer", "embedding", "indexing", "copy", "cast", "transpose",
    "format conversion", "other",
)  # fmt: skip
_DIMENSIONS = ("dp", "tp", "pp", "ep", "cp", "world", "any")
_METRICS = (
    "window", "compute", "exposed communication", "exposed copy", "free", "wait in communication", "transfer",
    "idle in communication", "transfer beside compute", "link speed", "tokens", "expert tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureName:
    """A name that symptoms may use. `of` lists what may stand in its brackets; empty: it has none.

    `unit` is `share` (0 to 1), `ratio`, `ms`, `bytes`, `count` or `text`.
    """

    name: str
    unit: str
    meaning: str
    fields: tuple[str, ...]
    of: tuple[str, ...] = ()


def _row(name: str, unit: str, meaning: str, fields: str, of: tuple[str, ...] = ()) -> MeasureName:
    return MeasureName(name=name, unit=unit, meaning=meaning, fields=tuple(fields.split()), of=of)


_STEP = "steps[].window_ms"

_ROWS: tuple[MeasureName, ...] = (
    # The step.
    _row("step.variation", "ratio", "longest step over the median step", _STEP),
    _row("compute.share", "share", "compute in the step", f"steps[].compute_ms {_STEP}"),
    _row("comm.exposed_share", "share", "communication beside which nothing is computed",
         f"steps[].exposed_comm_ms {_STEP}"),
    _row("copy.exposed_share", "share", "copies beside which nothing else runs", f"steps[].copy_exposed_ms {_STEP}"),
    _row("free.share", "share", "the device has nothing to do", f"steps[].free_ms {_STEP}"),
    _row("free.share_of", "share", "the device has nothing to do, for one reason", f"free_time[].ms {_STEP}", _HOST),
    _row("preparing.share", "share", "from the host's mark to the first device task",
         f"steps[].preparing_ms {_STEP}"),
    # The critical path.
    _row("path.host_share", "share", "what the host did on the critical path", "critical_path[].share", _HOST),
    _row("wait.share", "share", "waiting for the last rank of collectives", f"rank_waits[].total_ms {_STEP}"),
    # Names.
    _row("kernel.share", "share", "a type of kernel in all device time", "top.*[].share", ANY),
    _row("host_call.share", "share", "a runtime call in the host time of such calls", "top.*[].share", ANY),
    # Input.
    _row("input.wait_share", "share", "waiting for batches while the device is free",
         f"input.fetches[].device_free_ms input.fetches[].steps {_STEP}"),
    _row("input.variation", "ratio", "longest such call over the median",
         "input.fetches[].longest_ms input.fetches[].median_ms"),
    _row("input.long_share", "share", "fetches that found no batch ready",
         "input.fetches[].long input.fetches[].fetches"),
    _row("input.loader", "text", "`main process` or `workers`", "input.fetches[].kind"),
    _row("input.early_share", "share", "batches that came before the one that was due",
         "input.fetches[].early input.fetches[].fetches"),
    _row("input.epoch_share", "share", "making iterators, of the capture", f"input.fetches[].epoch_ms {_STEP}"),
    _row("input.reading_share", "share", "reading, of the time of fetches in the main process",
         "input.fetches[].reading_ms input.fetches[].wait_ms"),
    _row("input.processing_share", "share", "processing, of the time of fetches in the main process",
         "input.fetches[].processing_ms input.fetches[].wait_ms"),
    _row("input.queue_empty", "share", "samples in which a queue was empty", "input.queues[].empty", _QUEUES),
    _row("input.supply", "ratio", "batches that reading and processing give over those that the loop would take",
         "input.rates[].supply_per_s input.rates[].demand_per_s"),
    _row("input.copy_supply", "ratio", "batches that copies allow over those that the loop would take",
         "input.rates[].copies_per_s input.rates[].demand_per_s"),
    _row("input.workers_over_cores", "ratio", "workers that would keep up over cores to spare",
         "input.rates[].workers_needed input.rates[].cores_free"),
    _row("input.copy_share", "share", "exposed copies from the host to the device",
         f"input.copies[].exposed_ms {_STEP}"),
    _row("input.pageable_share", "share", "bytes copied from pageable memory",
         "input.copies[].pageable_bytes input.copies[].bytes"),
    _row("input.copies", "count", "copies from the host in a step", "input.copies[].copies"),
    _row("input.copy_size", "bytes", "mean size of such a copy", "input.copies[].bytes input.copies[].copies"),
    # The host.
    _row("host.share", "share", "a reason in the host's step", "host.steps[].parts[].ms host.steps[].host_ms", _HOST),
    _row("dispatch.ratio", "ratio", "the host's time for dispatch over that of all kernels", "host.dispatch[].ratio"),
    _row("dispatch.tasks", "count", "tasks of a step", "host.dispatch[].tasks"),
    _row("dispatch.small_share", "share", "kernels below 10 us, by number",
         "host.dispatch[].small host.dispatch[].linked"),
    _row("dispatch.late_share", "share", "tasks launched when the device had nothing left to do",
         "host.dispatch[].late host.dispatch[].linked"),
    _row("dispatch.task_queue", "text", "torch_npu's task queue: `on` or `off`", "host.dispatch[].task_queue"),
    _row("queue.empty", "share", "the window with nothing launched and not begun", "host.queue_depth[].empty"),
    _row("sync.share", "share", "calls that wait for the device", f"host.sync_calls[].wait_ms {_STEP}"),
    _row("sync.calls", "count", "such calls in a step", "host.sync_calls[].calls"),
    _row("sync.refill_share", "share", "the device is free after them until the next task",
         f"host.sync_calls[].refill_ms {_STEP}"),
    _row("event.share", "share", "calls of one kind over the capture", f"host.events[].ms {_STEP}", _EVENTS),
    _row("event.longest", "ms", "longest call of one kind", "host.events[].longest_ms", _EVENTS),
    _row("event.steps_share", "share", "steps with such calls", "host.events[].steps_hit host.events[].steps", _EVENTS),
    _row("shapes.dynamic_share", "share", "kernels built for any shape", "host.shapes[].dynamic host.shapes[].known"),
    _row("shapes.new_share", "share", "operators with shapes first seen after the first step",
         "host.shapes[].new host.shapes[].distinct"),
    _row("backward.unused_share", "share", "gradients of parameters that no optimizer has, of all",
         "host.unused_gradients[].unused host.unused_gradients[].gradients"),
    _row("backward.dropped_share", "share", "gradients that give way to others before an optimizer uses them, of all",
         "host.unused_gradients[].dropped host.unused_gradients[].gradients"),
    _row("cores.usage", "share", "mean load of the host's cores", "host.contention[].usage"),
    _row("cores.busiest", "share", "mean load of the busiest core", "host.contention[].busiest"),
    _row("setting", "text", "value of a setting of a rank; `unset` where it is known to have none",
         "host.settings[].values[].value", ANY),
    _row("setting.differs", "text", "`true` where ranks disagree on a setting", "host.settings[].differs", ANY),
    # Compute.
    _row("compute.mfu", "share", "model FLOPs utilisation", "steps[].mfu"),
    _row("compute.class_share", "share", "a class of operators in the time of all kernels",
         "compute.classes[].share", _CLASSES),
    _row("compute.roof_share", "share", "least time at the roof over time taken, of a class",
         "compute.classes[].roof_share", _CLASSES),
    _row("compute.limit", "text", "the lower roof of the longest operator: `compute` or `memory`",
         "compute.operators[].limit"),
    _row("compute.precision", "text", "type whose rate counts for the longest product, such as `fp32`",
         "compute.operators[].precision"),
    _row("compute.ai_cpu_share", "share", "kernels on AI CPU, of all kernels",
         "compute.steps[].ai_cpu_ms compute.steps[].kernels_ms"),
    _row("compute.cast_share", "share", "conversions between types",
         "compute.steps[].cast_ms compute.steps[].kernels_ms"),
    _row("compute.transpose_share", "share", "copies that change the order of elements",
         "compute.steps[].transpose_ms compute.steps[].kernels_ms"),
    _row("compute.conversion_share", "share", "conversions between storage formats",
         "compute.steps[].conversion_ms compute.steps[].kernels_ms"),
    _row("compute.frequency_share", "share", "lost because the clock was below its rated one",
         "compute.steps[].frequency_ms compute.steps[].kernels_ms"),
    _row("compute.blocks_share", "share", "lost because cores had no block to work on",
         "compute.steps[].blocks_ms compute.steps[].kernels_ms"),
    _row("compute.pipe_share", "share", "lost because no pipe of the core was busy for 80 % of the time",
         "compute.steps[].pipe_ms compute.steps[].kernels_ms"),
    _row("compute.unaligned_share", "share", "products with an axis that is no multiple of the chip's tile",
         "compute.steps[].unaligned_ms compute.steps[].kernels_ms"),
    _row("compute.recompute_share", "share", "work done a second time by activation checkpoints",
         "compute.steps[].recompute_ms compute.steps[].kernels_ms"),
    _row("compute.over_peers_share", "share", "what equal operators took beyond the median rank",
         "compute.steps[].over_peers_ms compute.steps[].kernels_ms"),
    # Communication.
    _row("comm.waste", "share", "waiting for the last member, of the time of operations",
         "communication.kinds[].waste", _DIMENSIONS),
    _row("comm.dimension_share", "share", "transfers of a dimension that nothing hides, in the step",
         f"communication.kinds[].transfer_ms communication.kinds[].hidden_ms {_STEP}", _DIMENSIONS),
    _row("comm.hidden_share", "share", "transfer beside which the rank computed",
         "communication.kinds[].hidden_ms communication.kinds[].transfer_ms", _DIMENSIONS),
    _row("comm.of_link", "share", "speed over what the link is built for", "communication.kinds[].of_link",
         _DIMENSIONS),
    _row("comm.operations", "count", "operations of a step", "communication.kinds[].operations", _DIMENSIONS),
    _row("comm.size", "bytes", "mean size of an operation",
         "communication.kinds[].bytes communication.kinds[].operations", _DIMENSIONS),
    _row("comm.idle_share", "share", "no task of the operation under way, after the last arrival",
         "communication.kinds[].idle_ms communication.kinds[].elapse_ms", _DIMENSIONS),
    _row("comm.group_size", "count", "members of groups", "communication.kinds[].size", _DIMENSIONS),
    _row("comm.transport", "text", "link that carries most of the time, such as `HCCS`, `RDMA`, `PCIE`",
         "communication.kinds[].transport", _DIMENSIONS),
    _row("comm.fixed_share", "share", "fixed cost of operations in their time", "communication.fits[].fixed_share"),
    _row("comm.small_share", "share", "bytes in transfers below 16 MB (SDMA) or 1 MB (RDMA)",
         "communication.packets[].least_bytes communication.packets[].bytes", ("SDMA", "RDMA")),
    _row("comm.unaligned_share", "share", "time of transfers whose size is no multiple of 512 bytes",
         "communication.alignment[].unaligned_time_ms communication.alignment[].time_ms"),
    _row("comm.stalled", "count", "transfers of ten times the usual time", "communication.stalls[].stalled"),
    _row("comm.longest_stall", "ms", "the longest of them", "communication.stalls[].longest_ms"),
    _row("comm.contention", "ratio", "time beside the other kind over time alone",
         "communication.contention[].slowdown", ("compute", "communication")),
    _row("comm.last_share", "share", "steps in which one rank held the others up longest",
         "communication.slow_ranks[].blocks_last communication.slow_ranks[].blocks"),
    _row("comm.link_ratio", "ratio", "time of one link over that of its peers for the same size",
         "communication.link_pairs[].ratio"),
    # Structure.
    _row("pipeline.bubble", "share", "waiting for another stage with nothing computed", "pipeline.bubble_share"),
    _row("pipeline.structural", "share", "bubble that the schedule costs in any case", "pipeline.structural_share"),
    _row("pipeline.imbalance", "share", "compute of the slowest stage over the mean, less one", "pipeline.imbalance"),
    _row("balance.imbalance", "share", "largest rank over the mean, less one", "balance[].imbalance",
         ("tokens", "expert tokens")),
    _row("balance.correlation", "ratio", "of that load with compute time", "balance[].correlation",
         ("tokens", "expert tokens")),
    _row("ranks.spread", "ratio", "largest less smallest rank over the median, of a metric",
         "rank_matrix.metrics[].most rank_matrix.metrics[].least rank_matrix.metrics[].median", _METRICS),
    # Memory.
    _row("memory.fragmentation", "share", "1 - allocated/reserved when most was reserved",
         "memory.peaks[].fragmentation"),
    _row("memory.reserved", "bytes", "most that an allocator took from the device", "memory.peaks[].reserved_bytes"),
    _row("memory.allocator_share", "share", "calls of the device's allocator",
         f"memory.allocator[].ms memory.allocator[].steps {_STEP}"),
    _row("memory.growth", "bytes", "growth from step to step", "memory.growth[].bytes_per_step"),
    _row("memory.growth_fit", "share", "how well a line fits that growth", "memory.growth[].r2"),
    _row("memory.recompute_share", "share", "forward kernels run again in backward, of all compute",
         "memory.recompute[].device_ms memory.recompute[].compute_ms"),
    _row("memory.holder_share", "share", "what an operator held when most was held", "memory.holders[].share", ANY),
)  # fmt: skip

MEASURES: dict[str, MeasureName] = {row.name: row for row in _ROWS}
"""All measures by name."""
