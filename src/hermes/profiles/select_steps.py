"""The filter by step: keeps the rows of the selected steps of one rank, before anything is measured."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from hermes.base.errors import InputError
from hermes.model.tables import TABLES
from hermes.profiles import messages
from hermes.profiles.read import capture_messages as captures_say
from hermes.profiles.read.table_sink import Sink


def keep_steps(sink: Sink, steps: Collection[int]) -> None:
    """Drop rows of other steps, and rows of no step that start outside the selected steps.

    Rows recorded over the whole capture (memory, counters, settings) stay. Raises `InputError` if the rank has none of
    the selected steps.
    """
    marks = sink.read("step").drop("rank")
    kept = marks.filter(pl.col("step").is_in(list(steps)))
    if not kept.height:
        there = ", ".join(str(number) for number in marks["step"].sort().unique(maintain_order=True).to_list()[:20])
        raise InputError(
            messages.NONE_OF_STEPS,
            where=f"rank {sink.rank}",
            lost=captures_say.LOST_RANK,
            hint=messages.do_steps(steps=there) if there else messages.DO_NO_STEPS,
        )
    if gone := set(steps) - set(kept["step"]):
        sink.note("degraded", messages.steps_not_there(steps=gone), where="--steps", lost=messages.LOST_ASKED_STEPS)
    sink.frame("step", kept)
    begin, end = kept["start_ns"].min(), (kept["start_ns"] + kept["dur_ns"]).max()
    for name, table in TABLES.items():
        if name == "step" or "step" not in table.names:
            continue
        own = pl.col("step").is_in(list(steps))
        outside = pl.col("start_ns").is_between(begin, end) if "start_ns" in table.names else pl.lit(value=True)
        rows = sink.read(name)
        if rows.height:
            sink.frame(name, rows.filter(own | (pl.col("step").is_null() & outside)).drop("rank"))
