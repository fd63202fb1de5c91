"""Measures the input pipeline: fetches of batches, input queues, supply against demand, and copies to the device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals, Ints
from hermes.knowledge.input_work import (
    END_FRAME,
    EPOCH_FRAME,
    LONG_NS,
    MAIN_PROCESS,
    NEXT_FRAME,
    PROCESSING,
    RANGE,
    READING,
    TAKE_FRAME,
    WAIT_FRAME,
    WORKERS,
)
from hermes.model.host_measures import CoreLoad
from hermes.model.input_measures import Fetches, InputCopies, InputQueue, InputRates
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.host.select_host_calls import outermost, spans
from hermes.profiles.measure.steps.breakdown import spread

_FULL = 1_000
_LOWER = pl.col("name").str.to_lowercase()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRows:
    """What one rank's capture holds about its input.

    `notable` are the calls of `host_events.notable`. `inside` are the calls and frames inside the fetches, with the
    column `frames` of their stacks. `framed` tells whether the capture has Python frames. `busy` is when the device
    worked, None if no device work is recorded; `launched` and `begun` are the sorted moments of its tasks.
    """

    rank: int
    splits: Sequence[StepSplit]
    notable: pl.DataFrame
    inside: pl.DataFrame
    framed: bool
    busy: Intervals | None
    launched: Ints
    begun: Ints


def fetch_rows(notable: pl.DataFrame) -> pl.DataFrame:
    """The calls that fetch a batch, each once: the profiler's ranges if any, else frames, else other calls."""
    for chosen in (_LOWER.str.contains(RANGE), _LOWER.str.contains(NEXT_FRAME), _LOWER.str.contains("getnext")):
        rows = notable.filter(chosen)
        if rows.height:
            return outermost(rows)
    return notable.clear()


def fetches(rows: InputRows) -> Fetches | None:
    """How the training loop fetched its batches; None if no call that fetches a batch is recorded."""
    calls = fetch_rows(rows.notable)
    if not calls.height:
        return None
    ended = spans(rows.notable.filter(_LOWER.str.contains(END_FRAME)))
    calls = _without(calls, ended)
    _, median, longest = spread(calls["dur_ns"].to_list())
    last = calls.sort("dur_ns", "start_ns", descending=[True, False]).row(0, named=True)
    when = spans(calls)
    kind = _kind(calls)
    taken = rows.notable.filter(_LOWER.str.contains(TAKE_FRAME)).height
    made = rows.notable.filter(_LOWER.str.contains(EPOCH_FRAME))
    waited = spans(rows.notable.filter(_LOWER.str.contains(WAIT_FRAME))) & when
    told = kind == "workers" and rows.framed
    reading, processing = _split(rows.inside, when) if kind == "main process" else (None, None)
    return Fetches(
        rank=rows.rank,
        kind=kind,
        steps=max(1, len(rows.splits)),
        fetches=calls.height,
        wait_ns=when.total,
        median_ns=median,
        longest_ns=longest,
        longest_step=_step_at(rows.splits, int(last["start_ns"] + last["dur_ns"]) - 1),
        long=calls.filter(pl.col("dur_ns") >= LONG_NS).height,
        device_free_ns=None if rows.busy is None else (when - rows.busy).total,
        queue_wait_ns=waited.total if told else None,
        early=max(0, taken - calls.height) if told else None,
        epochs=made.height if rows.framed else None,
        epoch_ns=(spans(made) | ended).total if rows.framed else None,
        reading_ns=reading,
        processing_ns=processing,
        first_ns=_first(calls, made) if rows.framed else None,
    )


def _first(calls: pl.DataFrame, made: pl.DataFrame) -> int:
    """The time in ns of the first fetch after each iterator was made."""
    ordered = calls.sort("start_ns")
    ends = (made["start_ns"] + made["dur_ns"]).unique().to_numpy()
    places = {int(place) for place in ordered["start_ns"].to_numpy().searchsorted(ends)}
    return sum(ordered["dur_ns"][place] for place in places if place < ordered.height)


def _without(calls: pl.DataFrame, ended: Intervals) -> pl.DataFrame:
    """The fetches without the time at their ends in which they end workers."""
    start = calls["start_ns"].to_numpy()
    lost = ended.lasted(start + calls["dur_ns"].to_numpy()) - ended.lasted(start)
    return calls.with_columns(pl.col("dur_ns") - pl.Series(lost, dtype=pl.Int64))


def _kind(calls: pl.DataFrame) -> Literal["main process", "workers", "not told"]:
    if calls.filter(_LOWER.str.contains(WORKERS)).height:
        return "workers"
    return "main process" if calls.filter(_LOWER.str.contains(MAIN_PROCESS)).height else "not told"


def _step_at(splits: Sequence[StepSplit], moment: int) -> int | None:
    """The step that contains a moment."""
    inside = (split.step for split in splits if 0 <= moment - split.start_ns < split.window_ns)
    return next(inside, None)


def _split(inside: pl.DataFrame, when: Intervals) -> tuple[int | None, int | None]:
    """The time of reading and processing in fetches, by frames or by stacks of operators; None if unknown."""
    frames = inside.filter(pl.col("kind") == "python")
    texts = frames.with_columns(_LOWER.alias("text")) if frames.height else inside.filter(
        pl.col("frames").is_not_null()
    ).with_columns(pl.col("frames").str.to_lowercase().alias("text"))  # fmt: skip
    if not texts.height:
        return None, None
    reading = spans(texts.filter(pl.col("text").str.contains(READING))) & when
    processing = (spans(texts.filter(pl.col("text").str.contains(PROCESSING))) & when) - reading
    # An operator reads nothing: its stack tells processing time, and nothing about the rest.
    return (reading.total if frames.height else None), processing.total


def copies_in(rank: int, kernel: pl.DataFrame, device: Intervals) -> InputCopies | None:
    """Copies from the host over the capture; `device` is when the device computed or communicated."""
    rows = kernel.filter((pl.col("component") == "copy") & (pl.col("direction") == "h2d"))
    if not rows.height:
        return None
    known = rows["bytes"].drop_nulls()
    when = spans(rows)
    # CUPTI names the kind of host memory: `Memcpy HtoD (Pageable -> Device)`.
    tells = rows.filter(pl.col("name").str.contains(r"(Pageable|Pinned) ->"))
    pageable = tells.filter(pl.col("name").str.contains("Pageable ->"))
    return InputCopies(
        rank=rank,
        copies=rows.height,
        bytes=int(known.sum()) if len(known) else None,
        time_ns=when.total,
        exposed_ns=(when - device).total,
        pageable_bytes=int(pageable["bytes"].sum() or 0) if tells.height else None,
    )


def rates(
    found: Fetches | None, splits: Sequence[StepSplit], copies: InputCopies | None, cores: CoreLoad | None
) -> InputRates | None:
    """The rate of each input stage against the loop's demand; None if no fetch was seen."""
    if found is None:
        return None
    lengths = [split.host_ns for split in splits if split.host_ns]
    per_step = found.fetches / found.steps
    step_ns = spread(lengths)[1] if lengths else None
    wait_ns = found.wait_ns / found.steps
    own_ns = step_ns - wait_ns if step_ns is not None else None
    demand = per_step / own_ns * 1e9 if own_ns is not None and own_ns > 0 else None
    mean_ns = found.wait_ns / found.fetches
    supply = None
    if found.kind == "main process" and mean_ns > 0:
        supply = 1e9 / mean_ns
    elif found.kind == "workers" and found.long == found.fetches and step_ns:
        # The loop waited for each batch: batches came just as fast as the loop took them.
        supply = per_step / step_ns * 1e9
    fetching = 1e9 * found.fetches / copies.time_ns if copies and copies.time_ns else None
    needed = math.ceil(demand * mean_ns / 1e9) if demand is not None and found.kind == "main process" else None
    return InputRates(
        rank=found.rank,
        demand=demand,
        supply=supply,
        fetching=fetching,
        workers_needed=needed,
        cores_free=None if cores is None else cores.cores * (1 - cores.usage),
        cores=None if cores is None else cores.cores,
    )


def queues(rows: InputRows, found: Fetches | None, input_queue: pl.DataFrame) -> Iterator[InputQueue]:
    """The queues of input operations, host and device, as far as the capture records them."""
    yield from _pipeline(rows.rank, input_queue)
    if found is not None and found.kind == "workers":
        yield InputQueue(
            rank=rows.rank, queue="host", name="results of the workers", workers=None, capacity=None, average=None,
            usage=None, empty=found.long / found.fetches, full=None, samples=found.fetches,
            source="fetches that took at least 1 ms",
        )  # fmt: skip
    calls = fetch_rows(rows.notable)
    if calls.height and len(rows.launched):
        moments = calls["start_ns"].to_numpy()
        depth = np.searchsorted(rows.launched, moments, side="right") - np.searchsorted(
            rows.begun, moments, side="right"
        )
        yield InputQueue(
            rank=rows.rank, queue="device", name="tasks launched, not begun", workers=None, capacity=None,
            average=float(depth.mean()), usage=None, empty=float((depth <= 0).mean()),
            full=float((depth >= _FULL).mean()), samples=calls.height, source="launch links, where each fetch begins",
        )  # fmt: skip


def _pipeline(rank: int, input_queue: pl.DataFrame) -> Iterator[InputQueue]:
    """MindSpore's operations by their output queues; the queue nearest to the loop is the host's queue."""
    known = input_queue.filter(pl.col("queue_size").is_not_null() | pl.col("queue_usage").is_not_null()).sort("op_id")
    nearest = known["op_id"].min() if known.height else None
    for row in known.iter_rows(named=True):
        yield InputQueue(
            rank=rank,
            queue="host" if row["op_id"] == nearest else "data",
            name=row["op"],
            workers=row["workers"],
            capacity=row["queue_size"],
            average=row["queue_average"],
            usage=row["queue_usage"],
            empty=row["queue_empty"],
            full=row["queue_full"],
            samples=row["samples"],
            source="minddata pipeline",
        )
