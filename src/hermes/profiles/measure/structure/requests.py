"""Measures requests of an inference service: time to first token, time per token, queues, and batch pauses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from hermes.base.intervals import EMPTY, Intervals, union_of_intervals, window
from hermes.model.service_measures import BatchPauses, Requests
from hermes.model.symptom import ratio
from hermes.profiles.measure.registry import RankTables, per_rank

_SERVER = "server"


ratio(
    BatchPauses, "service.pauses", "no batch running while requests are under way", "idle_ns", "window_ns", by="server",
    of=("mindie", "vllm", "unknown", "any"),
)  # fmt: skip


@per_rank(Requests, beside=("request",))
def requests_of(rank: RankTables) -> Requests | None:
    """The requests of a rank; None if no service's profiler recorded any."""
    rows = rank.data.table("request")
    return requests(rank.rank, rows) if rows.height else None


@per_rank(BatchPauses, beside=("batch",))
def pauses_of(rank: RankTables) -> tuple[BatchPauses, ...]:
    """The pauses between batches of each process that ran batches of a rank."""
    batches = rank.data.table("batch")
    if not batches.height:
        return ()
    named = rank.data.table("setting").filter((pl.col("source") == "job") & (pl.col("name") == _SERVER))
    server = str(named["value"][0]) if named.height else "unknown"
    return tuple(pauses(rank.rank, server, batches, rank.data.table("request")))


def requests(rank: int, rows: pl.DataFrame) -> Requests:
    """One row that sums all requests; `rows` are rows of the table `request`."""
    behind = pl.col("output_tokens") - 1
    further = ((pl.col("dur_ns") - pl.col("first_token_ns")) / pl.when(behind > 0).then(behind)).round()
    rows = rows.with_columns(further.cast(pl.Int64).alias("further_ns"))
    whole = rows.drop_nulls(["start_ns", "dur_ns"])
    span = _last(whole) - int(whole["start_ns"].min() or 0) if whole.height else None  # type: ignore[arg-type]
    written = _total(rows["output_tokens"])
    # The queue time of requests that record both times.
    both = rows.drop_nulls(["queue_ns", "dur_ns"])
    lasted = _total(both["dur_ns"])
    return Requests(
        rank=rank, requests=rows.height, input_tokens=_total(rows["input_tokens"]), output_tokens=written, span_ns=span,
        tokens_per_second=written / (span / 1e9) if written and span else None,
        took_ns=_part(rows["dur_ns"], 0.5), took_99_ns=_part(rows["dur_ns"], 0.99),
        first_token_ns=_part(rows["first_token_ns"], 0.5), first_token_99_ns=_part(rows["first_token_ns"], 0.99),
        further_token_ns=_part(rows["further_ns"], 0.5), further_token_99_ns=_part(rows["further_ns"], 0.99),
        queue_ns=_part(rows["queue_ns"], 0.5), queue_99_ns=_part(rows["queue_ns"], 0.99),
        queue_share=(_total(both["queue_ns"]) or 0) / lasted if lasted else None,
        transfer_ns=_part(rows["transfer_ns"], 0.5),
    )  # fmt: skip


def pauses(rank: int, server: str, batches: pl.DataFrame, requests: pl.DataFrame) -> Iterator[BatchPauses]:
    """One row for each process; `batches` and `requests` are rows of the tables of these names. O(n log n)."""
    # If both kinds were recorded, the forward passes are the device's part of an execution.
    kind = "execute" if batches.filter(pl.col("kind") == "execute").height else "forward"
    made = _spans(batches.filter(pl.col("kind") == "schedule"))
    asked = requests.drop_nulls(["start_ns", "dur_ns"])
    for (process,), own in (
        batches.filter(pl.col("kind") == kind).partition_by("process", as_dict=True, maintain_order=True).items()
    ):
        ran = _spans(own)
        if ran.span is None:
            continue
        # The unseen beginning or end of a request is no pause.
        under_way = _spans(asked).clip(*ran.span) if asked.height else _between(own, ran)
        idle = under_way - ran
        yield BatchPauses(
            rank=rank, server=server, process=process if isinstance(process, str) else None, batches=own.height,
            window_ns=under_way.total, running_ns=(under_way & ran).total, idle_ns=idle.total,
            scheduling_ns=(idle & made).total,
        )  # fmt: skip


def _spans(rows: pl.DataFrame) -> Intervals:
    if not rows.height:
        return EMPTY
    starts = rows["start_ns"].to_numpy()
    return union_of_intervals(starts, starts + rows["dur_ns"].to_numpy())


def _between(own: pl.DataFrame, ran: Intervals) -> Intervals:
    """Batches together with the pauses between them that are no longer than the longest batch."""
    longest = int(np.max(own["dur_ns"].to_numpy()))
    gaps = ran.starts[1:] - ran.ends[:-1]
    near = gaps <= longest
    return (
        ran | union_of_intervals(ran.ends[:-1][near], ran.starts[1:][near])
        if len(gaps)
        else window(*(ran.span or (0, 0)))
    )


def _last(rows: pl.DataFrame) -> int:
    return int(np.max(rows["start_ns"].to_numpy() + rows["dur_ns"].to_numpy()))


def _total(values: pl.Series) -> int | None:
    found = values.drop_nulls()
    return int(found.sum()) if len(found) else None


def _part(values: pl.Series, part: float) -> int | None:
    """The quantile of the values: always one of the values, never between two."""
    found = values.drop_nulls().quantile(part, interpolation="higher" if part > 0.5 else "nearest")
    return None if found is None else int(found)
