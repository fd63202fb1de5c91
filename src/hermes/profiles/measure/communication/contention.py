"""Measures contention: the slowdown of compute beside communication, and of communication beside compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from hermes.base.intervals import covered_lengths, union_of_intervals
from hermes.model.comm_measures import Contention
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo

_BESIDE, _ALONE = 0.8, 0.05
"""Work counts as beside the other kind from the first share of its time on, and as alone up to the second share; work
between the two does not count.
"""
_SAMPLES = 5
_MOST = 50
_SHORTEST_NS = 5_000
"""The shortest kernels in ns that are measured: shorter ones hardly depend on work beside them, and are many."""


def compute_contention(own: pl.DataFrame, kernel: pl.DataFrame) -> tuple[Contention, ...]:
    """Kernels of one rank by name and shapes, beside transfers and alone, with at least five samples of each.

    `own` are the rank's operations (waiting moves no data and slows no kernel). `kernel` needs `name, type, start_ns,
    dur_ns` and `input_shapes` of compute kernels.
    """
    begin = own.select(pl.coalesce("arrival_ns", "start_ns"))["arrival_ns"].to_numpy()
    comm = union_of_intervals(begin, (own["start_ns"] + own["dur_ns"]).to_numpy())
    rows = kernel.filter(pl.col("dur_ns") >= _SHORTEST_NS)
    if not len(comm) or rows.height < 2 * _SAMPLES:
        return ()
    starts, lasts = rows["start_ns"].to_numpy(), rows["dur_ns"].to_numpy()
    share = covered_lengths(comm, starts, starts + lasts) / lasts
    rows = rows.with_columns(pl.Series("share", share), pl.coalesce("type", "name").alias("label"))
    return _contrasts(rows, ["label", "input_shapes"], "dur_ns", "compute")


def comm_contention(rows: pl.DataFrame, groups: Mapping[str, GroupInfo]) -> tuple[Contention, ...]:
    """Operations of all ranks by group and size, beside compute and alone: their time from the last arrival on."""
    timed = rows.filter(pl.col("split") & (pl.col("bytes") > 0) & (pl.col("time_ns") > 0))
    labels = {identity: info.label for identity, info in groups.items()}
    timed = timed.with_columns(
        (pl.col("hidden_ns") / pl.col("time_ns")).alias("share"),
        pl.format("{} {}", "op", pl.col("group").replace_strict(labels, default="", return_dtype=pl.String)).alias(
            "label"
        ),
        pl.format("{} bytes", "bytes").alias("input_shapes"),
    )
    return _contrasts(timed, ["label", "input_shapes"], "time_ns", "communication")


def _contrasts(rows: pl.DataFrame, by: list[str], time: str, kind: str) -> tuple[Contention, ...]:
    beside, alone = pl.col(time).filter(pl.col("share") >= _BESIDE), pl.col(time).filter(pl.col("share") <= _ALONE)
    made = (
        rows.group_by(by)
        .agg(
            beside.len().alias("beside"),
            alone.len().alias("alone"),
            beside.median().alias("beside_ns"),
            alone.median().alias("alone_ns"),
            beside.sum().alias("beside_sum"),
        )
        .filter((pl.col("beside") >= _SAMPLES) & (pl.col("alone") >= _SAMPLES) & (pl.col("alone_ns") > 0))
    )
    return tuple(
        Contention(
            kind="compute" if kind == "compute" else "communication",
            name=row["label"],
            detail=row["input_shapes"] or "",
            beside=row["beside"],
            alone=row["alone"],
            beside_median_ns=round(row["beside_ns"]),
            alone_median_ns=round(row["alone_ns"]),
            slowdown=row["beside_ns"] / row["alone_ns"],
            loss_ns=round(row["beside_sum"] * (1 - row["alone_ns"] / row["beside_ns"])),
        )
        for row in made.iter_rows(named=True)
    )


def merge_ranks(found: Sequence[Contention]) -> tuple[Contention, ...]:
    """Merge the same work of several ranks into one row: samples and losses add up, medians are the median rank's."""
    parts: dict[tuple[str, str, str], list[Contention]] = {}
    for one in found:
        parts.setdefault((one.kind, one.name, one.detail), []).append(one)
    rows = []
    for (_, name, detail), own in parts.items():
        middle = sorted(own, key=lambda one: (one.slowdown, one.alone_median_ns))[len(own) // 2]
        rows.append(
            Contention(
                kind=middle.kind,
                name=name,
                detail=detail,
                beside=sum(one.beside for one in own),
                alone=sum(one.alone for one in own),
                beside_median_ns=middle.beside_median_ns,
                alone_median_ns=middle.alone_median_ns,
                slowdown=middle.slowdown,
                loss_ns=sum(one.loss_ns for one in own),
            )
        )
    return tuple(sorted(rows, key=lambda one: (-abs(one.loss_ns), one.kind, one.name, one.detail))[:_MOST])
