"""Compares two analysed inputs: takes the steps, names and settings of each input and computes the changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import polars as pl

from hermes.base.errors import InputError
from hermes.model.comparison import Comparison
from hermes.model.report import Report
from hermes.model.step_measures import StepSplit
from hermes.profiles.compare import messages
from hermes.profiles.compare.changes import compare
from hermes.profiles.compare.pair_steps import pair_all_steps, pair_typical_steps
from hermes.profiles.compare.run import ComparedFinding, ComparedRun
from hermes.profiles.load import Loaded, RankData
from hermes.profiles.pipeline.steps_of_one_rank import splits_of

_KEYS = ["kind", "name", "step"]
_KERNEL = ("name", "type", "component", "dur_ns", "step")
_COMM_OP = ("op", "dur_ns", "step")
_SUMS = (pl.col("ns").sum(), pl.col("calls").sum())


def compared(
    before: tuple[Loaded, Report],
    after: tuple[Loaded, Report],
    by: Literal["", "rank", "step"] = "",
    ranks: Literal["by number", "in order"] = "by number",
) -> Comparison:
    """The comparison of two analysed inputs; `by` adds rows for each rank, or for each step of each rank.

    With `ranks` in order, the first rank of one run is compared with the first rank of the other, whatever their
    numbers. Raises `InputError` if the two runs then have different numbers of ranks.
    """
    first, second = (run_of(loaded, found_in(report)) for loaded, report in (before, after))
    if ranks == "in order":
        second = _numbered_as(first, second)
    rows = pair_typical_steps(first, second) if by == "rank" else pair_all_steps(first, second) if by == "step" else ()
    return replace(compare(first, second), beside=rows)


def _numbered_as(first: ComparedRun, second: ComparedRun) -> ComparedRun:
    """The second run, renumbered with the rank numbers of the first run."""
    if len(first.ranks) != len(second.ranks):
        raise InputError(
            messages.not_pairs(before=messages.ranks(n=len(first.ranks)), after=messages.ranks(n=len(second.ranks))),
            where="--ranks", hint=messages.AS_MANY,
        )  # fmt: skip
    numbers = dict(zip(second.ranks, first.ranks, strict=True))
    splits = tuple(replace(split, rank=numbers[split.rank]) for split in second.splits)
    return replace(second, ranks=first.ranks, splits=splits)


def found_in(report: Report) -> tuple[ComparedFinding, ...]:
    """The findings of a report in the form in which they are compared."""
    return tuple(
        ComparedFinding(code=one.code, fault=one.fault, message=one.message, blames=one.blames, cost_ns=one.cost_ns)
        for one in report.findings
    )


def run_of(loaded: Loaded, found: Sequence[ComparedFinding]) -> ComparedRun:
    """The steps, names and settings of an input, with the findings of its analysis.

    Operators are device tasks by type and collectives by kind. Kernels are device tasks by name. Host time is the self
    time of calls and operators, without the calls inside them.
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
    return ComparedRun(
        title=", ".join(path.name or str(path) for path in loaded.paths),
        ranks=tuple(rank.rank for rank in loaded.ranks),
        splits=tuple(splits),
        names={key: pl.concat(parts).group_by(_KEYS).agg(*_SUMS) for key, parts in tables.items()},
        findings=tuple(found),
        settings={key: next(iter(own)) if len(own) == 1 else "differs by rank" for key, own in settings.items()},
        lacks=tuple(note.message for note in loaded.notes if note.level == "degraded"),
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
