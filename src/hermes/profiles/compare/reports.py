"""Use case: what two runs are compared by, out of their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import polars as pl

from hermes.model.comparison import Comparison
from hermes.model.measures import StepSplit
from hermes.model.report import Report
from hermes.profiles.compare.beside import by_rank, by_step
from hermes.profiles.compare.changes import Found, Run, compare
from hermes.profiles.load import Loaded, RankData
from hermes.profiles.pipeline.steps_of_one_rank import splits_of

_KEYS = ["kind", "name", "step"]
_KERNEL = ("name", "type", "component", "dur_ns", "step")
_COMM_OP = ("op", "dur_ns", "step")
_SUMS = (pl.col("ns").sum(), pl.col("calls").sum())


def compared(
    before: tuple[Loaded, Report], after: tuple[Loaded, Report], by: Literal["", "rank", "step"] = ""
) -> Comparison:
    """Two analysed inputs beside each other; `by` adds rows for each rank, or for each step of each rank."""
    runs = [run_of(loaded, found_in(report)) for loaded, report in (before, after)]
    rows = by_rank(*runs) if by == "rank" else by_step(*runs) if by == "step" else ()
    return replace(compare(*runs), beside=rows)


def found_in(report: Report) -> tuple[Found, ...]:
    """The findings of a report as they are compared."""
    return tuple(
        Found(code=one.code, fault=one.fault, message=one.message, blames=one.blames, cost_ns=one.cost_ns)
        for one in report.findings
    )


def run_of(loaded: Loaded, found: Sequence[Found]) -> Run:
    """The steps, names and settings of an input, with the findings of its analysis.

    Operators are device tasks by type and collectives by kind; kernels are device tasks by name; host time is what
    calls and operators take themselves, without those inside them.
    """
    splits: list[StepSplit] = []
    tables: dict[str, list[pl.DataFrame]] = {"operators": [], "kernels": [], "host": []}
    settings: dict[tuple[str, str], set[str]] = {}
    for rank in loaded.ranks:
        kernel, comm_op = rank.table("kernel", *_KERNEL), rank.table("comm_op", *_COMM_OP)
        splits += splits_of(rank)
        for key, rows in _names(rank, kernel, comm_op).items():
            tables[key].append(rows.group_by(_KEYS).agg(*_SUMS))
        for source, name, value in rank.table("setting", "source", "name", "value").iter_rows():
            settings.setdefault((source, name), set()).add(value or "")
    return Run(
        title=", ".join(path.name or str(path) for path in loaded.paths),
        splits=tuple(splits),
        names={key: pl.concat(parts).group_by(_KEYS).agg(*_SUMS) for key, parts in tables.items()},
        findings=tuple(found),
        settings={key: next(iter(own)) if len(own) == 1 else "differs by rank" for key, own in settings.items()},
    )


def _names(rank: RankData, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> dict[str, pl.DataFrame]:
    own = kernel.filter(pl.col("component").is_in(["compute", "copy", "comm"]))
    time = (pl.col("dur_ns").alias("ns"), pl.lit(1, dtype=pl.Int64).alias("calls"))
    kinds = own.filter(pl.col("component") != "comm") if comm_op.height else own
    host = rank.where("host_op", ["kind", "name", "step", "self_ns"], pl.col("kind") != "step")
    return {
        "operators": pl.concat(
            [
                kinds.select(
                    pl.col("component").alias("kind"), pl.coalesce("type", "name").alias("name"), "step", *time
                ),
                comm_op.select(pl.lit("comm").alias("kind"), pl.col("op").alias("name"), "step", *time),
            ]
        ),
        "kernels": own.select(pl.col("component").alias("kind"), "name", "step", *time),
        "host": host.select("kind", "name", "step", pl.col("self_ns").fill_null(0).alias("ns"), time[1]),
    }
