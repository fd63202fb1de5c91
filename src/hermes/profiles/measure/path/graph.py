"""The dependency graph of one rank: what each device task and each stretch of host work waited for.

A task waits for the task before it on its stream, for its launch, and for tasks of other streams (an event). A host
thread waits for the device in a blocking call. It also waits for the threads from which it gets work and to which it
gives work. Of all that a task or thread waits for, the last to arrive is what it *binds* to.

Explicit links of the trace come first: correlations of launches, queues between host threads, and event waits. Event
waits stand on a stream (Ascend), or name the record that ends them (`cuda_sync` of Kineto). Other links are inferred
from times. If a task starts later than its stream and its launch allow, it waited for the task of another stream that
ended last before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals, Ints, union_of_intervals
from hermes.knowledge.blocking_calls import FROM_PAGEABLE, is_blocking
from hermes.knowledge.vendor_traits import SHOWN_AS_OPERATIONS, traits
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.path.host_waits import calls_ended_by_task, found_done, jump_frame
from hermes.profiles.measure.path.previous_tasks import NONE, before_on, last_ended
from hermes.profiles.measure.path.tasks import Tasks

# The shortest pause in ns in which a thread can have waited for another thread: hand-offs inside PyTorch and Python
# take up to this time.
_PAUSE_NS = 20_000
_MOST_FILLING = 256
"""The most threads that may have filled a pause of another thread: no program computes in more at a time."""
_NO_TIMES = np.array([], dtype=np.int64)
_STREAM = "stream "
_ACTIVE = ("op", "enqueue", "dequeue", *RUNTIME_KINDS)
# The gap in ns that a device needs between tasks; a task that starts later was delayed by something.
SLACK_NS = 1_000
# The longest time in ns that a launch may be under way; a longer delay of a task is no launch.
UNDER_WAY_NS = 1_000_000
LONGEST_SWITCH_NS = 30_000
"""The most ns that a device needs between two tasks; HTA 0.5 takes 30 us as the limit of a "kernel wait"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostJumps:
    """Moments of one host thread at which it went on because something else had ended, by time.

    `task` is a device task or -1; else `thread` is the awaited thread. `since_ns` is the moment at which the awaited
    work ended, at or before `at_ns`; `idle_ns` the moment at which this thread began to wait.
    """

    at_ns: Ints
    idle_ns: Ints
    task: Ints
    thread: Ints
    since_ns: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The data of a walk back along the critical path.

    `threads` holds `(pid, tid)`; `main` is the thread of the step marks, or -1.

    `events` are the pairs of tasks that an event ties, as the trace says: the last task before its record, and the
    first task after the wait for it. `marked_ns` are the sorted launch times of collectives whose events appear as no
    tasks. PyTorch records an event on the computing stream before each (`syncStream` of ProcessGroupNCCL). `found_done`
    are, by thread like `jumps`, the ends of calls that wait for the device and did not have to.
    """

    tasks: Tasks
    events: tuple[tuple[int, int], ...]
    marked_ns: Ints
    threads: tuple[tuple[int | None, int | None], ...]
    jumps: tuple[HostJumps, ...]
    found_done: tuple[HostJumps, ...]
    main: int


def build(vendor: str, kernel: pl.DataFrame, comm_op: pl.DataFrame, host_op: pl.DataFrame, flow: pl.DataFrame) -> Graph:
    """The dependency graph of one rank, from any stretch of its rows; O(n log n).

    `host_op` needs `kind, name, pid, tid, start_ns, dur_ns, correlation`, `flow` its rows of kind `queue`, `launch` and
    `event`.
    """
    host = _with_threads(host_op)
    rows = _tasks(vendor, kernel, comm_op)
    events = _events(rows, flow)
    tasks = _bound(rows, _launches(rows, host, flow), events, hidden=not traits(vendor).event_tasks)
    threads = host.select("pid", "tid", "thread").unique().sort("thread")
    marks = host.filter(pl.col("kind") == "step")["thread"]
    return Graph(
        tasks=tasks,
        events=tuple(events.iter_rows()),
        marked_ns=_marked(vendor, tasks),
        threads=tuple(threads.select("pid", "tid").iter_rows()),
        jumps=_jumps(tasks, host, flow, threads.height),
        found_done=_by_thread(found_done(tasks, host.filter(pl.col("kind").is_in(_ACTIVE))), threads.height),
        main=int(marks[0]) if len(marks) else _busiest(host),
    )


def _with_threads(host_op: pl.DataFrame) -> pl.DataFrame:
    """Host rows with the number of their thread and their end."""
    threads = host_op.select("pid", "tid").unique().sort("pid", "tid").with_row_index("thread")
    joined = host_op.join(threads, on=["pid", "tid"], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col("thread").cast(pl.Int64), (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))


def _marked(vendor: str, tasks: Tasks) -> Ints:
    # Ascend shows events as tasks.
    hidden = (tasks.comm != NONE) & (tasks.called_ns != NONE) & (not traits(vendor).event_tasks)
    return np.sort(tasks.called_ns[hidden])


def _busiest(host: pl.DataFrame) -> int:
    active = (
        host.filter(pl.col("kind").is_in(_ACTIVE))
        .group_by("thread")
        .len()
        .sort("len", "thread", descending=[True, False])
    )
    return int(active["thread"][0]) if active.height else NONE


def _tasks(vendor: str, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> pl.DataFrame:
    """Device tasks by start. Communication is taken as operations if they are recorded."""
    columns = ["start_ns", "dur_ns", "stream", "correlation", "launch_ns", "step"]
    kinds = ["compute", "copy", *([] if comm_op.height else ["comm"])]
    if traits(vendor).event_tasks:
        # Event records and waits are tasks of their own; on other devices they are the host's calls.
        kinds += ["wait", "other"]
    # A CPU job communicates on its host threads.
    if not kernel.height and SHOWN_AS_OPERATIONS not in comm_op["library"]:
        comm_op = comm_op.clear()
    own = kernel.filter(pl.col("component").is_in(kinds)).select(
        *columns, pl.col("name").str.contains(FROM_PAGEABLE).cast(pl.Int64).alias("pageable"), "component",
        "kernel_id", pl.lit(NONE, dtype=pl.Int64).alias("comm_id"),
        pl.format(f"{_STREAM}{{}}", pl.col("stream").cast(pl.String).fill_null("?")).alias("line"),
    )  # fmt: skip
    group = pl.format("group {}", pl.col("group").fill_null("?"))
    comm = comm_op.select(
        *columns, pl.lit(0, dtype=pl.Int64).alias("pageable"), pl.lit("comm").alias("component"),
        pl.lit(NONE, dtype=pl.Int64).alias("kernel_id"), "comm_id",
        pl.when(pl.col("stream").is_null()).then(group).otherwise(pl.format(f"{_STREAM}{{}}", "stream")).alias("line"),
    )  # fmt: skip
    rows = pl.concat([own, comm]) if own.height or comm.height else own
    rows = rows.with_columns((pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
    return rows.sort("start_ns", "end_ns", "line", "kernel_id", "comm_id")


def _launches(rows: pl.DataFrame, host: pl.DataFrame, flow: pl.DataFrame) -> pl.DataFrame:
    """For each task, the thread and end of the innermost call that launched it; null if the rows lack the call.

    A call that waits for its task launched it at its begin. Without a recorded call (Ascend's Level0), the start of the
    arrow is taken.
    """
    calls = host.filter(pl.col("correlation").is_not_null() & pl.col("kind").is_in(RUNTIME_KINDS))
    waiting = [name for name in calls["name"].unique() if is_blocking(name)]
    calls = calls.select(
        "correlation",
        "thread",
        "start_ns",
        pl.when(pl.col("name").is_in(waiting)).then("start_ns").otherwise("end_ns").alias("launched_ns"),
    ).sort("launched_ns")
    calls = calls.unique("correlation", keep="first", maintain_order=True)
    # Ascend gives each layer of one process a number of its own; threads keep their numbers.
    threads = host.select("tid", pl.col("thread").alias("from_thread")).unique("tid", keep="first", maintain_order=True)
    arrows = flow.filter(pl.col("kind") == "launch").join(threads, left_on="src_tid", right_on="tid", how="inner")
    arrows = arrows.select("dst_ns", "dst_tid", "from_thread", "src_ns").sort("src_ns")
    arrows = arrows.unique(["dst_ns", "dst_tid"], keep="last", maintain_order=True)
    linked = rows.select("correlation", "start_ns", "stream", "pageable").join(
        calls.rename({"start_ns": "called_ns"}), on="correlation", how="left", maintain_order="left"
    )
    linked = linked.join(
        arrows, left_on=["start_ns", "stream"], right_on=["dst_ns", "dst_tid"], how="left", maintain_order="left"
    )
    return linked.select(
        pl.coalesce("thread", "from_thread").alias("thread"),
        pl.when(pl.col("thread").is_null())
        .then("src_ns")
        .when(pl.col("pageable") == 1)
        .then("called_ns")
        .otherwise("launched_ns")
        .alias("launched_ns"),
    )


def _events(rows: pl.DataFrame, flow: pl.DataFrame) -> pl.DataFrame:
    """Pairs `source`, `target` of tasks that an event between two streams ties, by the moments of their calls."""
    arrows = flow.filter(
        (pl.col("kind") == "event") & pl.col("src_tid").is_not_null() & pl.col("dst_tid").is_not_null()
    )
    tasks = rows.select("stream", "launch_ns", pl.int_range(pl.len(), dtype=pl.Int64).alias("task"))
    tasks = tasks.drop_nulls().sort("launch_ns", "task")
    sources = arrows.sort("src_ns").join_asof(
        tasks.rename({"task": "source"}), left_on="src_ns", right_on="launch_ns", by_left="src_tid", by_right="stream",
        strategy="backward", check_sortedness=False,
    )  # fmt: skip
    pairs = sources.sort("dst_ns").join_asof(
        tasks.rename({"task": "target"}), left_on="dst_ns", right_on="launch_ns", by_left="dst_tid", by_right="stream",
        strategy="forward", check_sortedness=False,
    )  # fmt: skip
    return pairs.select("source", "target").drop_nulls().unique(maintain_order=True)


def _bound(rows: pl.DataFrame, launches: pl.DataFrame, events: pl.DataFrame, *, hidden: bool) -> Tasks:
    """The tasks with the task or launch that each bound to; `hidden`: events do not appear as tasks."""
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    lane = rows["line"].rank("dense").cast(pl.Int64).to_numpy() if rows.height else np.empty(0, dtype=np.int64)
    component = rows["component"].to_list()
    never = np.iinfo(np.int64).min
    before = before_on(lane)
    # Operations of one group may run side by side: an operation still under way was not waited for.
    under_way = (before != NONE) & (end[before] > start + SLACK_NS)
    # A stream runs its tasks in turn, and may begin a task before the last one has ended.
    in_turn = rows["line"].str.starts_with(_STREAM).to_numpy() & (start[before] <= start)
    beside = np.where(under_way & in_turn, before, NONE)
    before = np.where(under_way, NONE, before)
    stream_ns = np.where(before == NONE, never, np.minimum(end[before], start))
    thread = launches["thread"].fill_null(NONE).to_numpy()
    # A task may start before the launching call returns.
    launch_ns = np.where(thread == NONE, never, np.minimum(launches["launched_ns"].fill_null(0).to_numpy(), start))
    known = np.maximum(stream_ns, launch_ns)
    waits = np.array([kind == "wait" for kind in component], dtype=bool)
    # An event wait ends when the awaited task has ended; any other task starts then.
    moment = np.where(waits, end, start)
    other = last_ended(end, ~waits, moment, lane)
    other_ns = np.where(other == NONE, never, end[other])
    since = np.where(waits, start, known + SLACK_NS)
    # A launch may be under way for long: a task that had ended well before did not delay the launched task.
    launching = hidden & ~waits & (launch_ns >= stream_ns) & (start - known <= UNDER_WAY_NS)
    soon = ~launching | (start - other_ns <= LONGEST_SWITCH_NS)
    held = (other != NONE) & (other_ns > since) & soon & ((start - known > SLACK_NS) | (known == never) | waits)
    # Links recorded in the trace come before inferred links.
    told = _told(events, end, known, start)
    held, other = held | (told != NONE), np.where(told != NONE, told, other)
    bind = np.where(held, other, np.where(stream_ns >= launch_ns, before, NONE))
    from_host = ~held & (launch_ns > stream_ns)
    return Tasks(
        start=start,
        end=end,
        component=tuple(component),
        line=tuple(rows["line"].to_list()),
        kernel=rows["kernel_id"].to_numpy(),
        comm=rows["comm_id"].to_numpy(),
        bind=bind,
        before=before,
        beside=beside,
        step=rows["step"].cast(pl.Int64).fill_null(NONE).to_numpy(),
        correlation=rows["correlation"].cast(pl.Int64).fill_null(NONE).to_numpy(),
        pageable=rows["pageable"].fill_null(0).to_numpy(),
        called_thread=thread,
        called_ns=np.where(thread == NONE, NONE, launch_ns),
        launch_thread=np.where(from_host, thread, NONE),
        launch_ns=np.where(from_host, launch_ns, NONE),
    )


def _told(events: pl.DataFrame, end: Ints, known: Ints, start: Ints) -> Ints:
    """For each task, the source of its events that ended last, if that source delayed the task."""
    source, target = events["source"].to_numpy(), events["target"].to_numpy()
    told = np.full(len(end), NONE, dtype=np.int64)
    # The last to end is written last.
    order = np.argsort(end[source], kind="stable")
    source, target = source[order], target[order]
    binding = (end[source] > known[target]) & (end[source] <= start[target] + SLACK_NS)
    told[target[binding]] = source[binding]
    return told


def _jumps(tasks: Tasks, host: pl.DataFrame, flow: pl.DataFrame, threads: int) -> tuple[HostJumps, ...]:
    """For each thread, the moments at which a wait of the thread ended."""
    active = host.filter(pl.col("kind").is_in(_ACTIVE))
    of_thread = active.partition_by("thread", as_dict=True)
    busy = [_busy(of_thread.get((thread,), active.clear())) for thread in range(threads)]
    parts = [calls_ended_by_task(tasks, active), _queued(active, flow, busy)]
    # A queue itself tells which thread its consumers wait for.
    fed = set(active.filter(pl.col("kind") == "dequeue")["thread"].unique())
    parts.append(_resumed(busy, fed))
    return _by_thread(pl.concat(parts), threads)


def _by_thread(rows: pl.DataFrame, threads: int) -> tuple[HostJumps, ...]:
    """The moments of each thread, by time."""
    ordered = rows.sort("at_ns", "since_ns", "thread", "task")
    of_thread = ordered.partition_by("thread", as_dict=True)
    return tuple(
        HostJumps(
            at_ns=own["at_ns"].to_numpy(),
            idle_ns=own["idle_ns"].to_numpy(),
            task=own["task"].to_numpy(),
            thread=own["other"].to_numpy(),
            since_ns=own["since_ns"].to_numpy(),
        )
        for own in (of_thread.get((thread,), ordered.clear()) for thread in range(threads))
    )


def _busy(rows: pl.DataFrame) -> Intervals:
    return union_of_intervals(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())


def _queued(active: pl.DataFrame, flow: pl.DataFrame, busy: list[Intervals]) -> pl.DataFrame:
    """Work that a thread took from an empty queue: the thread waited for the thread that filled it."""
    taken = active.filter(pl.col("kind") == "dequeue").select("pid", "tid", "thread", "start_ns", "end_ns")
    threads = active.select("pid", "tid", pl.col("thread").alias("other")).unique()
    arrows = flow.filter(pl.col("kind") == "queue").join(
        threads, left_on=["src_pid", "src_tid"], right_on=["pid", "tid"], how="inner"
    )
    hits = taken.join(
        arrows.select("dst_pid", "dst_tid", "dst_ns", "src_ns", "other"),
        left_on=["pid", "tid", "start_ns"], right_on=["dst_pid", "dst_tid", "dst_ns"], how="inner",
    ).filter((pl.col("src_ns") <= pl.col("start_ns")) & (pl.col("other") != pl.col("thread")))  # fmt: skip
    thread, start, since = (hits[name].to_numpy() for name in ("thread", "start_ns", "src_ns"))
    idle = np.array([_idle_since(busy[t], at) for t, at in zip(thread, start, strict=True)], dtype=np.int64)
    empty = since >= idle
    other = hits["other"].to_numpy()
    return jump_frame(
        thread[empty], start[empty], np.full(int(empty.sum()), NONE), other[empty], since[empty], idle[empty]
    )


def _idle_since(busy: Intervals, at: int) -> int:
    """The moment at which a thread that goes on at `at` had stopped."""
    place = int(np.searchsorted(busy.ends, at, side="left")) - 1
    return int(busy.ends[place]) if place >= 0 else np.iinfo(np.int64).min


def _resumed(busy: list[Intervals], fed: set[int]) -> pl.DataFrame:
    """Pauses of threads that another thread filled: the other was busy for at least half of the pause.

    For example backward runs on its own thread while the calling thread pauses, and the other way round. The first
    pause begins when the first of all threads began. Each pause is compared with only the busiest threads: comparing
    all pairs of threads would have no bound.
    """
    first_ns = min((span[0] for span in (own.span for own in busy) if span), default=0)
    pauses = {thread: _pauses(own, first_ns) for thread, own in enumerate(busy) if thread not in fed}
    starts, paused = (np.concatenate([_NO_TIMES, *(one[side] for one in pauses.values())]) for side in (0, 1))
    waiting = np.repeat(np.array([*pauses], dtype=np.int64), [len(one[0]) for one in pauses.values()])
    best = np.zeros(len(starts), dtype=np.int64)
    other, since = np.full(len(starts), NONE), np.zeros(len(starts), dtype=np.int64)
    for candidate in sorted(sorted(range(len(busy)), key=lambda one: -busy[one].total)[:_MOST_FILLING]):
        theirs = busy[candidate]
        if not len(theirs):
            continue
        place = np.searchsorted(theirs.ends, starts, side="right") - 1
        ended = np.where(place >= 0, theirs.ends[np.maximum(place, 0)], np.iinfo(np.int64).min)
        filled = theirs.lasted(starts) - theirs.lasted(paused)
        better = (candidate != waiting) & (ended > paused) & (2 * filled >= starts - paused) & (filled > best)
        best, other, since = (
            np.where(better, filled, best),
            np.where(better, candidate, other),
            np.where(better, ended, since),
        )
    found = other != NONE
    none = np.full(int(found.sum()), NONE)
    return jump_frame(waiting[found], starts[found], none, other[found], since[found], paused[found])


def _pauses(own: Intervals, first_ns: int) -> tuple[Ints, Ints]:
    """The moments at which a thread went on after its long pauses, and had stopped; empty without calls."""
    starts, paused = own.starts, np.concatenate([[first_ns], own.ends[:-1]])[: len(own)]
    long = starts - paused >= _PAUSE_NS
    return starts[long], paused[long]
