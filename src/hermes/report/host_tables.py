"""Tables of the report on overlap, input pipeline, host and memory."""

from __future__ import annotations

import re

from hermes.analyze.host_measures import (
    Contention,
    Dispatch,
    Fetches,
    Holder,
    HostEvents,
    HostPart,
    InputCopies,
    InputQueue,
    InputRates,
    MemoryGrowth,
    MemoryPeak,
    OverlapPart,
    OverlapState,
    QueueDepth,
    Recompute,
    SettingValues,
    Shapes,
    StepHost,
    StepOverlap,
    SyncCall,
    UnusedGradients,
)
from hermes.report.cells import (
    Cell,
    Column,
    Table,
    absent,
    count,
    decimal,
    fraction_cell,
    name,
    size_cell,
    table,
    time,
    whole,
    words,
)
from hermes.report.format import clip, duration, numbers
from hermes.report.model import Report

_VALUE_LIMIT = 200
_LONG_NUMBER = re.compile(r"\d{12,}")


def host_tables(report: Report) -> tuple[Table, ...]:
    """All of them, in the order of the page; a table without rows is there too."""
    host = report.host
    return (
        table(
            "overlap", "Overlap", "What each component took of a typical step, and what of it nothing before it hid: "
            "compute, communication, copies, data input, host.",
            _PARTS, [(row, part) for row in host.overlap for part in row.parts],
        ),
        table(
            "overlap-states", "Overlap: what ran at once",
            "How long exactly these components ran together; the rows of one rank add up to the window.",
            _STATES, [(row, state) for row in host.overlap for state in row.states],
        ),
        *_input_tables(report),
        *_host_tables(report),
        *_memory_tables(report),
    )  # fmt: skip


def _input_tables(report: Report) -> tuple[Table, ...]:
    host = report.host
    return (
        table(
            "input-fetches", "Input pipeline", "How long the training loop waited for its batches, over the capture.",
            _FETCHES, host.fetches,
        ),
        table("input-queues", "Input pipeline: queues", "How full each queue on the way of a batch was.", _QUEUES,
              host.queues),
        table(
            "input-rates", "Input pipeline: rates",
            "Batches a second that each stage gives, against what the loop would take if it never waited.",
            _RATES, host.rates,
        ),
        table("input-copies", "Input pipeline: copies to the device", "Over the capture.", _COPIES, host.copies),
    )  # fmt: skip


def _host_tables(report: Report) -> tuple[Table, ...]:
    host = report.host
    return (
        table(
            "host-steps", "Host", "What the dispatching threads did in a typical step; the rows of one rank add up to "
            "the host's part of the step.",
            _STEPS, [(row, part) for row in host.steps for part in row.parts],
        ),
        table("host-dispatch", "Host: dispatch", "How the host fed the device in a typical step.", _DISPATCH,
              host.dispatch),
        table(
            "queue-depth", "Host: queue depth", "Tasks launched and not begun over the window of a typical step, "
            "weighted by time; the curve is in report.json.",
            _DEPTHS, host.depths,
        ),
        table(
            "sync-calls", "Host: synchronising calls",
            "Calls that waited for the device in a typical step, what it did meanwhile, and how long it then had "
            "nothing to do.",
            _SYNCS, host.syncs,
        ),
        table("host-events", "Host: compilation, collections, logging", "Over the capture.", _EVENTS,
              [row for row in host.events if row.calls != 0]),
        table("shapes", "Host: shapes", "Shapes of kernels over the capture.", _SHAPES, host.shapes),
        table("host-cores", "Host: cores", "Load of the host's processors, where it was sampled.", _CONTENTION,
              host.contention),
        table("unused-gradients", "Host: gradients that no optimizer uses", "Of a typical step, and what its backward "
              "pass took for them: nodes that lead to these alone, and nodes that compute one on the way to others.",
              _UNUSED, host.unused),
        table(
            "settings", "Host: settings that differ", "Settings whose values are not the same on all ranks; all others "
            "are in report.json.",
            _SETTINGS, [row for row in host.settings if row.differs or (row.absent and len(report.inputs) > 1)],
        ),
    )  # fmt: skip


def _memory_tables(report: Report) -> tuple[Table, ...]:
    host = report.host
    return (
        table("memory-peaks", "Memory", "Highest marks of each allocator over the capture.", _PEAKS, host.peaks),
        table("memory-growth", "Memory: growth", "What allocators held where the steps begin, as a line.", _GROWTH,
              host.growth),
        table("memory-recompute", "Memory: recomputation", "Forward work done again in the backward pass of a typical "
              "step.", _RECOMPUTE, host.recompute),
        table(
            "memory-holders", "Memory: holders",
            "Who held the blocks taken during the capture, when these were most.", _HOLDERS, host.holders,
        ),
    )  # fmt: skip


def _short(text: str) -> str:
    """Keys of groups that have no name are numbers of twenty digits: the last six tell them apart."""
    return _LONG_NUMBER.sub(lambda found: f"…{found[0][-6:]}", text)


def _line(source: str | None) -> Cell:
    """The line without its folders: what tells lines apart stands at the end. All of it is in report.json."""
    return absent() if source is None else words(source.rsplit("/", 1)[-1])


def _ranks_of(row: SettingValues) -> Cell:
    said = [
        f"{'unset' if value is None else clip(value, _VALUE_LIMIT)}: {numbers(ranks)}" for value, ranks in row.values
    ]
    if row.absent:
        said.append(f"not recorded: {numbers(row.absent)}")
    return name("; ".join(said))


def _names_of(row: HostEvents) -> Cell:
    return name(", ".join(f"{called} x{calls} {duration(ns)}" for called, calls, ns in row.names)) if row.names else (
        words(row.source)
    )  # fmt: skip


_PARTS: tuple[Column[tuple[StepOverlap, OverlapPart]], ...] = (
    Column(title="Rank", cell=lambda row: whole(row[0].rank)),
    Column(title="Step", cell=lambda row: whole(row[0].step)),
    Column(title="Component", cell=lambda row: words(_short(row[1].label)), words=True),
    Column(title="Busy", cell=lambda row: time(row[1].busy_ns, row[0].window_ns), unit="ns"),
    Column(title="Exposed", cell=lambda row: time(row[1].exposed_ns, row[0].window_ns), unit="ns"),
    Column(title="Alone", cell=lambda row: time(row[1].alone_ns, row[0].window_ns), unit="ns"),
    Column(title="Overlap", cell=lambda row: fraction_cell(row[1].overlap)),
    Column(title="Events", cell=lambda row: whole(row[1].events)),
)
_STATES: tuple[Column[tuple[StepOverlap, OverlapState]], ...] = (
    Column(title="Rank", cell=lambda row: whole(row[0].rank)),
    Column(title="Step", cell=lambda row: whole(row[0].step)),
    Column(title="Running", cell=lambda row: words(_short(" + ".join(row[1].components)) or "nothing"), words=True),
    Column(title="Time", cell=lambda row: time(row[1].ns, row[0].window_ns), unit="ns"),
)
_FETCHES: tuple[Column[Fetches], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Batches come from", cell=lambda row: words(row.kind), words=True),
    Column(title="Fetches", cell=lambda row: whole(row.fetches)),
    Column(title="Waited", cell=lambda row: time(row.wait_ns), unit="ns"),
    Column(title="Median", cell=lambda row: time(row.median_ns), unit="ns"),
    Column(title="Longest", cell=lambda row: time(row.longest_ns), unit="ns"),
    Column(title="In step", cell=lambda row: whole(row.longest_step)),
    Column(title="Over 1 ms", cell=lambda row: whole(row.long)),
    Column(title="Device free", cell=lambda row: time(row.device_free_ns, row.wait_ns), unit="ns"),
    Column(title="At the queue", cell=lambda row: time(row.queue_wait_ns), unit="ns"),
    Column(title="Came early", cell=lambda row: count(row.early)),
    Column(title="Iterators made", cell=lambda row: count(row.epochs)),
    Column(title="Making them", cell=lambda row: time(row.epoch_ns), unit="ns"),
    Column(title="Reading", cell=lambda row: time(row.reading_ns), unit="ns"),
    Column(title="Processing", cell=lambda row: time(row.processing_ns), unit="ns"),
)
_QUEUES: tuple[Column[InputQueue], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Queue", cell=lambda row: words(row.queue), words=True),
    Column(title="Of", cell=lambda row: words(row.name), words=True),
    Column(title="Empty", cell=lambda row: fraction_cell(row.empty)),
    Column(title="Full", cell=lambda row: fraction_cell(row.full)),
    Column(title="Mean", cell=lambda row: decimal(row.average)),
    Column(title="Capacity", cell=lambda row: count(row.capacity)),
    Column(title="Filling", cell=lambda row: fraction_cell(row.usage)),
    Column(title="Workers", cell=lambda row: count(row.workers)),
    Column(title="Looked at", cell=lambda row: count(row.samples)),
    Column(title="Told by", cell=lambda row: words(row.source), words=True),
)
_RATES: tuple[Column[InputRates], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Demand, 1/s", cell=lambda row: decimal(row.demand)),
    Column(title="Reading and processing, 1/s", cell=lambda row: decimal(row.supply)),
    Column(title="Copies, 1/s", cell=lambda row: decimal(row.fetching)),
    Column(title="Workers needed", cell=lambda row: count(row.workers_needed)),
    Column(title="Cores free", cell=lambda row: decimal(row.cores_free)),
    Column(title="Cores", cell=lambda row: count(row.cores)),
)
_COPIES: tuple[Column[InputCopies], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Copies", cell=lambda row: whole(row.copies)),
    Column(title="Size", cell=lambda row: size_cell(row.bytes), unit="bytes"),
    Column(title="Time", cell=lambda row: time(row.time_ns), unit="ns"),
    Column(title="Exposed", cell=lambda row: time(row.exposed_ns, row.time_ns), unit="ns"),
    Column(title="From pageable memory", cell=lambda row: size_cell(row.pageable_bytes), unit="bytes"),
)
_STEPS: tuple[Column[tuple[StepHost, HostPart]], ...] = (
    Column(title="Rank", cell=lambda row: whole(row[0].rank)),
    Column(title="Step", cell=lambda row: whole(row[0].step)),
    Column(title="Reason", cell=lambda row: words(row[1].reason), words=True),
    Column(title="Time", cell=lambda row: time(row[1].ns, row[0].host_ns), unit="ns"),
    Column(title="Device free", cell=lambda row: time(row[1].device_free_ns, row[0].host_ns), unit="ns"),
)
_DISPATCH: tuple[Column[Dispatch], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Step", cell=lambda row: whole(row.step)),
    Column(title="Tasks", cell=lambda row: whole(row.tasks)),
    Column(title="With launch", cell=lambda row: whole(row.linked)),
    Column(title="Launch interval", cell=lambda row: time(row.interval_ns), unit="ns"),
    Column(title="Kernel", cell=lambda row: time(row.kernel_ns), unit="ns"),
    Column(title="Dispatch / kernels", cell=lambda row: decimal(row.ratio)),
    Column(title="Kernels below 10 us", cell=lambda row: whole(row.small)),
    Column(title="Launched late", cell=lambda row: whole(row.late)),
    Column(title="Device free before them", cell=lambda row: time(row.late_free_ns), unit="ns"),
    Column(title="Launch to start", cell=lambda row: time(row.delay_ns), unit="ns"),
    Column(title="Task queue", cell=lambda row: words(row.task_queue or "not told"), words=True),
)
_DEPTHS: tuple[Column[QueueDepth], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Step", cell=lambda row: whole(row.step)),
    Column(title="Device", cell=lambda row: whole(row.device_id)),
    Column(title="Mean", cell=lambda row: decimal(row.mean)),
    Column(title="Median", cell=lambda row: whole(row.median)),
    Column(title="Most", cell=lambda row: whole(row.most)),
    Column(title="Empty", cell=lambda row: fraction_cell(row.empty)),
    Column(title="1,000 and more", cell=lambda row: fraction_cell(row.full)),
    Column(title="Tasks", cell=lambda row: whole(row.tasks)),
)
_SYNCS: tuple[Column[SyncCall], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Operator", cell=lambda row: name(row.operator or ", ".join(row.names)), words=True),
    Column(title="Line", cell=lambda row: _line(row.source), words=True),
    Column(title="Calls", cell=lambda row: whole(row.calls)),
    Column(title="Waited", cell=lambda row: time(row.wait_ns), unit="ns"),
    Column(title="Device computed", cell=lambda row: time(row.compute_ns, row.wait_ns), unit="ns"),
    Column(title="Communicated", cell=lambda row: time(row.comm_ns, row.wait_ns), unit="ns"),
    Column(title="Copied", cell=lambda row: time(row.copy_ns, row.wait_ns), unit="ns"),
    Column(title="Was free", cell=lambda row: time(row.idle_ns, row.wait_ns), unit="ns"),
    Column(title="Free after it", cell=lambda row: time(row.refill_ns), unit="ns"),
    Column(title="Runtime calls", cell=lambda row: name(", ".join(row.names)), words=True),
)
_EVENTS: tuple[Column[HostEvents], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="What", cell=lambda row: words(row.what), words=True),
    Column(title="Calls", cell=lambda row: count(row.calls)),
    Column(title="Time", cell=lambda row: time(row.ns), unit="ns"),
    Column(title="Longest", cell=lambda row: time(row.longest_ns), unit="ns"),
    Column(title="Device free", cell=lambda row: time(row.device_free_ns), unit="ns"),
    Column(title="In steps", cell=lambda row: count(row.steps_hit)),
    Column(title="Steps", cell=lambda row: whole(row.steps)),
    Column(title="Names", cell=_names_of, words=True),
)
_SHAPES: tuple[Column[Shapes], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Kernels with shapes", cell=lambda row: whole(row.kernels)),
    Column(title="Distinct", cell=lambda row: whole(row.distinct)),
    Column(title="New after the first step", cell=lambda row: count(row.new)),
    Column(title="Built for any shape", cell=lambda row: count(row.dynamic if row.known else None)),
)
_CONTENTION: tuple[Column[Contention], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Cores", cell=lambda row: whole(row.cores)),
    Column(title="Mean load", cell=lambda row: fraction_cell(row.usage)),
    Column(title="Busiest core", cell=lambda row: fraction_cell(row.busiest)),
)
_UNUSED: tuple[Column[UnusedGradients], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Step", cell=lambda row: whole(row.step)),
    Column(title="Gradients", cell=lambda row: whole(row.gradients)),
    Column(title="Unused", cell=lambda row: whole(row.unused)),
    Column(title="Alone, host", cell=lambda row: time(row.whole.host_ns), unit="ns"),
    Column(title="Alone, device", cell=lambda row: time(row.whole.device_ns, row.compute_ns or 0), unit="ns"),
    Column(title="On the way, host", cell=lambda row: time(row.partly.host_ns), unit="ns"),
    Column(title="On the way, device", cell=lambda row: time(row.partly.device_ns, row.compute_ns or 0), unit="ns"),
)
_SETTINGS: tuple[Column[SettingValues], ...] = (
    Column(title="Setting", cell=lambda row: name(row.name), words=True),
    Column(title="From", cell=lambda row: words(row.source), words=True),
    Column(title="Value: ranks", cell=_ranks_of, words=True),
)
_PEAKS: tuple[Column[MemoryPeak], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Allocator", cell=lambda row: name(row.component), words=True),
    Column(title="Device", cell=lambda row: whole(row.device_id)),
    Column(title="Allocated", cell=lambda row: size_cell(row.allocated_bytes), unit="bytes"),
    Column(title="Reserved", cell=lambda row: size_cell(row.reserved_bytes), unit="bytes"),
    Column(title="Active", cell=lambda row: size_cell(row.active_bytes), unit="bytes"),
    Column(title="Fragmentation", cell=lambda row: fraction_cell(row.fragmentation)),
    Column(title="In step", cell=lambda row: whole(row.allocated_step)),
    Column(title="Samples", cell=lambda row: whole(row.samples)),
)
_GROWTH: tuple[Column[MemoryGrowth], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Allocator", cell=lambda row: name(row.component), words=True),
    Column(title="Device", cell=lambda row: whole(row.device_id)),
    Column(title="Bytes a step", cell=lambda row: decimal(row.bytes_per_step)),
    Column(title="Fit (R2)", cell=lambda row: decimal(row.r2)),
    Column(title="Steps", cell=lambda row: whole(row.steps)),
)
_RECOMPUTE: tuple[Column[Recompute], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Step", cell=lambda row: whole(row.step)),
    Column(title="Operators", cell=lambda row: whole(row.ops)),
    Column(title="Host", cell=lambda row: time(row.host_ns), unit="ns"),
    Column(title="Device", cell=lambda row: time(row.device_ns, row.compute_ns or 0), unit="ns"),
)
_HOLDERS: tuple[Column[Holder], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Module", cell=lambda row: words("no module") if row.module is None else name(row.module), words=True),
    Column(title="Operator", cell=lambda row: name(row.operator), words=True),
    Column(title="Size", cell=lambda row: size_cell(row.bytes), unit="bytes"),
    Column(title="Share", cell=lambda row: fraction_cell(row.share)),
    Column(title="Blocks", cell=lambda row: whole(row.blocks)),
)
