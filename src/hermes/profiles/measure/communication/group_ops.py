"""Measures communication by group and operation: times, sizes, bandwidths and latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.knowledge.links import LinkSpec, bus_factor, device_link, link_spec
from hermes.model.comm_measures import GroupKind, GroupOp, LatencyFit
from hermes.model.tables.collective_keys import BETWEEN_TWO
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo

Floats = NDArray[np.float64]
_Timed = tuple[int | None, float | None, int | None]
_Moved = tuple[str, int, int]

# A line has two unknowns: a third size checks the line, and sizes that hardly differ tell nothing about a slope.
_FIT_SIZES, _FIT_OPERATIONS, _FIT_RANGE = 3, 6, 4
_MOST_SIZES = 64
# Names that PyTorch, Megatron-LM, MindSpeed and torch_npu give the groups of each dimension.
_WORDS: tuple[tuple[str, str], ...] = (
    ("default", "world"),
    ("world", "world"),
    ("tensor_model", "tp"),
    ("pipeline", "pp"),
    ("expert", "ep"),
    ("context", "cp"),
    ("data_parallel", "dp"),
    ("data-parallel", "dp"),
)
_EXACT = {
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "cp": "cp",
    "ep": "ep",
    "exp": "ep",
    "mp": "tp",
    "fsdp": "dp",
    "dp_cp": "dp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """The host and the chip name of a rank; None if not recorded."""

    host: str | None
    chip: str | None


def traffic_by_group(own: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    """Bytes and time of the transfers of one rank by `group`, `op` and `transport`."""
    return (
        moves.join(own.select("comm_id", "group", "op"), on="comm_id", how="inner")
        .group_by("group", "op", "transport")
        .agg(pl.col("bytes").sum(), pl.col("dur_ns").sum().alias("time_ns"))
    )


def group_ops(
    rows: pl.DataFrame,
    traffic: pl.DataFrame,
    groups: Mapping[str, GroupInfo],
    places: Mapping[int, RankPlace],
    world: int,
) -> tuple[GroupOp, ...]:
    """One row for each operation of each group, the longest elapsed time first.

    `rows` come from `collectives.operations`, with `idle_ns` and `hidden_ns`; `traffic` sums the results of
    `traffic_by_group`.
    """
    if not rows.height:
        return ()
    kinds = rows.group_by("group").agg(pl.col("op").unique())
    used = {group: set(ops) for group, ops in kinds.iter_rows()}
    timed = _speeds(_timed(rows))
    sums = {(row["group"], row["op"]): row for row in _sums(rows).iter_rows(named=True)}
    moved = _links(traffic)
    found = []
    for (group, op), row in sums.items():
        info = groups.get(group or "", GroupInfo(label=group or "not recorded", members=None, size=None))
        parallel, source = parallel_of(info, used.get(group, set()), world)
        seen = tuple(row["ranks"])
        chip = next((places[rank].chip for rank in seen), None)
        hosts = {places[rank].host for rank in seen}
        fast = device_link(chip) if len(hosts) == 1 and None not in hosts and info.size == len(seen) else None
        found.append(
            _group_op(
                row,
                info,
                (parallel, source),
                timed.get((group, op), (None, None, None)),
                moved.get((group, op)),
                chip,
                fast,
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.elapse_ns, one.group, one.op, one.ranks)))


def _sums(rows: pl.DataFrame) -> pl.DataFrame:
    part = pl.col("split")
    return (
        rows.group_by("group", "op", maintain_order=True)
        .agg(
            pl.col("rank").unique().sort().alias("ranks"),
            pl.col("library").first(),
            pl.col("key").drop_nulls().n_unique().alias("keys"),
            pl.len().alias("rows"),
            part.sum().alias("split_rows"),
            pl.col("key").filter(~pl.col("matched")).n_unique().alias("unmatched"),
            pl.col("dur_ns").sum().alias("elapse_ns"),
            pl.col("dur_ns").filter(part).sum().alias("split_elapse_ns"),
            pl.col("wait_ns").filter(part).sum(),
            pl.col("idle_ns").filter(part).sum(),
            pl.col("idle_ns").filter(part).count().alias("idle_rows"),
            pl.col("hidden_ns").filter(part).sum(),
            pl.col("error_ns").max(),
        )
    )  # fmt: skip


_OPERATION = ("group", "op", "manner", "key")


def _timed(rows: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """One row per operation with a known last arrival: its size, and its median ns from that arrival to the end."""
    # Select only the needed columns: the rows are those of all ranks.
    return (
        rows.lazy()
        .filter("split")
        .select(pl.col(_OPERATION).cast(pl.Categorical), "bytes", "time_ns")
        .collect()
        # Group by numbers in place of texts, which would be copied.
        .group_by(_OPERATION, maintain_order=True)
        .agg(
            pl.col("bytes").max(),
            pl.col("time_ns").median(),
        )
        .with_columns(pl.col(_OPERATION).cast(pl.String))
    )


def _group_op(
    row: Mapping[str, Any],
    info: GroupInfo,
    parallel: tuple[str | None, Literal["name", "inferred", "unknown"]],
    timed: _Timed,
    moved: _Moved | None,
    chip: str | None,
    fast: LinkSpec | None,
) -> GroupOp:
    split = row["split_rows"]
    size = 2 if row["op"] in BETWEEN_TWO else info.size
    total, speed, median = timed
    factor = bus_factor(row["op"], size or 0)
    bus = speed * factor if speed is not None and factor is not None else None
    transport, link, limit = _link(moved, chip)
    if transport is None and fast is not None:
        transport, link, limit = fast.transport, bus, fast.gb_per_s
    idle = row["idle_ns"] if row["idle_rows"] == split and split else None
    return GroupOp(
        group=info.label,
        parallel=parallel[0],
        parallel_source=parallel[1],
        members=info.members,
        members_source=info.source if info.size is not None else "unknown",
        size=info.size,
        ranks=tuple(row["ranks"]),
        op=row["op"],
        library=row["library"],
        operations=row["keys"] or -(-row["rows"] // max(len(row["ranks"]), 1)),
        rows=row["rows"],
        split_rows=split,
        unmatched=row["unmatched"],
        elapse_ns=row["elapse_ns"],
        split_elapse_ns=row["split_elapse_ns"],
        wait_ns=row["wait_ns"] if split else None,
        transfer_ns=row["split_elapse_ns"] - row["wait_ns"] - (idle or 0) if split else None,
        idle_ns=idle,
        hidden_ns=row["hidden_ns"] if split else None,
        waste=row["wait_ns"] / row["split_elapse_ns"] if split and row["split_elapse_ns"] else None,
        error_ns=row["error_ns"],
        bytes=total,
        transfer_median_ns=median,
        algorithm_gb_per_s=speed,
        bus_gb_per_s=bus,
        transport=transport,
        link_gb_per_s=link,
        link_limit_gb_per_s=limit,
        of_link=link / limit if link is not None and limit else None,
    )


def _speeds(timed: pl.DataFrame) -> dict[tuple[str | None, str], _Timed]:
    """By group and operation: total size, median time, and the speed of operations with size and time."""
    sized = (pl.col("bytes") > 0) & (pl.col("time_ns") > 0)
    sums = timed.group_by("group", "op").agg(
        pl.col("bytes").filter(sized).sum(),
        pl.col("time_ns").filter(sized).sum().alias("sum_ns"),
        pl.col("time_ns").median().alias("median_ns"),
        sized.sum().alias("sized"),
    )
    return {
        (group, op): (
            size if count else None,
            size / sum_ns if count else None,
            round(middle) if middle is not None else None,
        )
        for group, op, size, sum_ns, middle, count in sums.iter_rows()
    }


def _links(traffic: pl.DataFrame) -> dict[tuple[str | None, str], _Moved]:
    """By group and operation: the transport with most of the time, with its bytes and time."""
    most = (
        traffic.group_by("group", "op", "transport")
        .agg(pl.col("bytes").sum(), pl.col("time_ns").sum())
        .sort("time_ns", "transport", descending=[True, False])
        .unique(["group", "op"], keep="first", maintain_order=True)
    )
    return {(group, op): (transport, size, time) for group, op, transport, size, time in most.iter_rows()}


def _link(moved: _Moved | None, chip: str | None) -> tuple[str | None, float | None, float | None]:
    """The transport with most of the time, the speed that one of its links achieved, and the speed it is built for."""
    if moved is None:
        return None, None, None
    transport, size, time = moved
    known = link_spec(chip, transport)
    return transport, size / time if time else None, known.gb_per_s if known else None


def group_kinds(groups: Sequence[GroupOp]) -> tuple[GroupKind, ...]:
    """Merge groups of one dimension, operation and size into one row: thousands of ranks have thousands of groups."""
    parts: dict[tuple[str, str, int | None], list[GroupOp]] = {}
    for group in groups:
        parts.setdefault((group.parallel or group.group, group.op, group.size), []).append(group)
    made = [_group_kind(kind, op, size, own) for (kind, op, size), own in parts.items()]
    return tuple(sorted(made, key=lambda one: (-one.elapse_ns, one.kind, one.op, one.size or 0)))


def _group_kind(kind: str, op: str, size: int | None, own: Sequence[GroupOp]) -> GroupKind:
    timed = sorted((one for one in own if one.bus_gb_per_s is not None), key=lambda one: (one.bus_gb_per_s, one.ranks))
    middle = timed[len(timed) // 2] if timed else None
    wait, elapse = _total(own, "wait_ns"), sum(one.split_elapse_ns for one in own)
    links = [one.of_link for one in own if one.of_link is not None]
    return GroupKind(
        kind=kind,
        op=op,
        size=size,
        groups=len(own),
        timed=len(timed),
        ranks=len({rank for one in own for rank in one.ranks}),
        operations=sum(one.operations for one in own),
        elapse_ns=sum(one.elapse_ns for one in own),
        wait_ns=wait,
        transfer_ns=_total(own, "transfer_ns"),
        idle_ns=_total(own, "idle_ns"),
        hidden_ns=_total(own, "hidden_ns"),
        waste=wait / elapse if wait is not None and elapse else None,
        bytes=_total(own, "bytes"),
        algorithm_gb_per_s=middle.algorithm_gb_per_s if middle else None,
        bus_gb_per_s=middle.bus_gb_per_s if middle else None,
        least_bus_gb_per_s=timed[0].bus_gb_per_s if timed else None,
        slowest=timed[0].members or timed[0].ranks if timed else (),
        transport=next((one.transport for one in own if one.transport), None),
        of_link=float(np.median(links)) if links else None,
    )


def _total(own: Sequence[GroupOp], field: str) -> int | None:
    known = [value for one in own if (value := getattr(one, field)) is not None]
    return sum(known) if known else None


def parallel_of(
    info: GroupInfo, ops: set[str], world: int
) -> tuple[str | None, Literal["name", "inferred", "unknown"]]:
    """The dimension that a group serves: by its name, else by its operations, as communicators show it.

    Sends and receives mean a pipeline, all-to-all among some of the ranks means experts, all ranks mean the world.
    Consecutive ranks that gather or reduce count as tensor parallelism, ranks further apart as data parallelism. That
    is the order of Megatron-LM and of frameworks that follow it (`initialize_model_parallel`, order tp-cp-ep-dp-pp).
    """
    name = info.label.lower()
    if name in _EXACT:
        return _EXACT[name], "name"
    for word, dimension in _WORDS:
        if word in name:
            return dimension, "name"
    whole = len(info.members or ()) >= world > 2
    if ops & set(BETWEEN_TWO) and not (whole and "all_to_all" in ops):
        return "pp", "inferred"
    if "all_to_all" in ops and not whole:
        return "ep", "inferred"
    if not info.members or len(info.members) < 2:
        return None, "unknown"
    if len(info.members) >= world > 0:
        return "world", "inferred"
    near = info.members[-1] - info.members[0] == len(info.members) - 1
    return ("tp" if near else "dp"), "inferred"


def latency_fits(rows: pl.DataFrame, groups: Mapping[str, GroupInfo]) -> tuple[LatencyFit, ...]:
    """Fixed and size-dependent part of the transfer time, by operation and members; empty without enough samples.

    A fit needs at least six operations of three sizes, the largest four times the smallest. Groups of the same members
    are merged: they use the same links. The slope is a weighted median (Theil and Sen): of the slopes between the
    medians of all pairs of sizes, weighted by their distance. The fixed part is the weighted median of the remainder.
    One stalled operation changes neither.
    """
    timed = _timed(rows.lazy().filter(pl.col("bytes") > 0)).select("group", "op", "bytes", "time_ns")
    pairs = timed.select("group", "op").unique(maintain_order=True)
    names: dict[tuple[str, object], set[str]] = {}
    numbers: dict[tuple[str, object], int] = {}
    of = []
    for group, op in pairs.iter_rows():
        info = groups.get(group, GroupInfo(label=group or "", members=None, size=None))
        key = (op, info.members or group)
        names.setdefault(key, set()).add(info.label)
        of.append(numbers.setdefault(key, len(numbers)))
    found = []
    for (op, members), sizes in zip(names, _by_size(timed, pairs, of, len(names)), strict=True):
        whole = members if isinstance(members, tuple) else None
        fit = _fit(sizes, bus_factor(op, 2 if op in BETWEEN_TWO else len(whole or ())))
        if fit:
            found.append(LatencyFit(op=op, members=whole, groups=tuple(sorted(names[op, members])), **fit))
    return tuple(sorted(found, key=lambda one: (-one.fixed_total_ns, one.op, one.groups)))


def _by_size(timed: pl.DataFrame, pairs: pl.DataFrame, of: Sequence[int], many: int) -> Iterator[Floats]:
    """For each of `many` links: bytes, operations, median and total ns, one column for each size, the smallest first.

    `of` is the link of each pair of group and operation. All links are summed at once: a job has thousands.
    """
    linked = timed.join(
        pairs.with_columns(pl.Series("link", of, dtype=pl.Int64)), on=["group", "op"], how="left", nulls_equal=True
    )
    time = pl.col("time_ns")
    sums = linked.group_by("link", "bytes").agg(
        pl.len().alias("n"), time.median().alias("median_ns"), time.sum().alias("sum_ns")
    )
    sums = sums.sort("link", "bytes")
    edges = np.searchsorted(sums["link"].to_numpy(), np.arange(many + 1))
    values = np.array([sums[name].to_numpy().astype(np.float64) for name in ("bytes", "n", "median_ns", "sum_ns")])
    yield from (values[:, first:last] for first, last in pairwise(edges.tolist()))


def _fit(sizes: Floats, factor: float | None) -> dict[str, Any] | None:
    size, count, time, sums = sizes
    operations = int(count.sum())
    if factor is None or operations < _FIT_OPERATIONS or len(size) < _FIT_SIZES or size[-1] < _FIT_RANGE * size[0]:
        return None
    distinct = len(size)
    if distinct > _MOST_SIZES:
        # The most frequent sizes stand for all sizes.
        kept = np.sort(np.argsort(-count, kind="stable")[:_MOST_SIZES])
        size, count, time = size[kept], count[kept], time[kept]
    one, other = np.triu_indices(len(size), 1)
    apart = size[other] - size[one]
    slope = _weighted_median((time[other] - time[one]) / apart, apart * np.minimum(count[one], count[other]))
    if slope <= 0:
        return None
    fixed = max(0.0, _weighted_median(time - slope * size, count / time))
    total = float(sums.sum())
    return {
        "operations": operations,
        "sizes": distinct,
        "fixed_ns": round(fixed),
        "peak_bus_gb_per_s": factor / slope,
        "fixed_total_ns": round(fixed * operations),
        "fixed_share": min(1.0, fixed * operations / total) if total else 0.0,
        "error": float(np.median(np.abs(fixed + slope * size - time) / time)),
    }


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reach = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reach, reach[-1] / 2)])
