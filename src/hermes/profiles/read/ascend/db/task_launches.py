"""Finds the call that launched a device task: a framework operator or a CANN call; writes the arrows between them."""

from __future__ import annotations

import polars as pl

from hermes.profiles.read.ascend.db.capture_databases import Profile, WantedColumns
from hermes.profiles.read.ascend.db.host import Host

_END = ("pid", "tid", "start_ns")


class Launches:
    """Finds the launching call of a connection id."""

    def __init__(self, profile: Profile, host: Host) -> None:
        wanted = WantedColumns(
            table="CONNECTION_IDS", ints=("connectionId",), keys=("id",), required=("id", "connectionId")
        )
        ids = profile.read(wanted).unique(maintain_order=True)
        calls = host.calls.drop_nulls("link").unique("link", keep="first", maintain_order=True)
        linked = ids.join(calls, left_on="id", right_on="link").rename({"connectionId": "connection"})
        ops = linked.filter(pl.col("kind") == "op")
        self._queue = _pairs(linked.filter(pl.col("kind").is_in(["enqueue", "dequeue"])), "kind", ["connection"])
        pairs = ["connection", "sequence"]
        self._autograd = _pairs(ops.drop_nulls("sequence"), "start_ns", pairs)
        # The id of a forward-backward pair may equal a launch's by chance: its operators launch nothing by it.
        launching = ops.join(self._autograd.select(pairs), on=pairs, how="anti")
        self._ops = launching.select("connection", *_END).sort("start_ns")
        self._cann = (
            host.cann.drop_nulls("connection")
            .sort("start_ns")
            .unique("connection", keep="first", maintain_order=True)
            .select("connection", *_END)
        )

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """`rows` (with `correlation`, `start_ns`) with `launch_ns`, `launch_pid`, `launch_tid`.

        The launch is the last operator that has the id and started before the CANN call, or else that call.
        """
        before = [pl.col(name).alias(f"cann_{name}") for name in _END]
        rows = rows.with_row_index("place").join(
            self._cann.select("connection", *before),
            left_on="correlation",
            right_on="connection",
            how="left",
            maintain_order="left",
        )
        bound = pl.coalesce("cann_start_ns", "start_ns").alias("bound")
        ops = self._ops.select("connection", *(pl.col(name).alias(f"op_{name}") for name in _END))
        found = (
            rows.with_columns(bound)
            .sort("bound")
            .join_asof(
                ops.with_columns(pl.col("op_start_ns").alias("bound")).sort("bound"),
                on="bound",
                by_left="correlation",
                by_right="connection",
                strategy="backward",
                check_sortedness=False,
            )
            .sort("place")
        )
        by_op = pl.col("op_start_ns").is_not_null()
        ends = [
            pl.when(by_op).then(pl.col(f"op_{name}")).otherwise(pl.col(f"cann_{name}")).alias(target)
            for name, target in zip(_END, ("launch_pid", "launch_tid", "launch_ns"), strict=True)
        ]
        return (
            found.with_columns(ends)
            .select(*[name for name in rows.columns if name in found.columns], *_TARGETS)
            .drop("place", *(f"cann_{name}" for name in _END))
        )

    def write_flows(self, profile: Profile, kernels: pl.DataFrame) -> None:
        """Write `flow`: arrows of launches to the given kernels, of queue pairs, and from forward to backward."""
        launched = kernels.drop_nulls("launch_ns").select(
            pl.lit("launch").alias("kind"),
            pl.col("correlation").cast(pl.String).alias("flow_id"),
            pl.col("launch_pid").alias("src_pid"),
            pl.col("launch_tid").alias("src_tid"),
            pl.col("launch_ns").alias("src_ns"),
            pl.lit(None, dtype=pl.Int64).alias("dst_pid"),
            pl.col("stream").alias("dst_tid"),
            pl.col("start_ns").alias("dst_ns"),
        )
        queue = self._queue.with_columns(pl.lit("queue").alias("kind"))
        autograd = self._autograd.drop("sequence").with_columns(pl.lit("forward_backward").alias("kind"))
        arrows = pl.concat([queue, autograd]).rename({"connection": "flow_id"})
        arrows = arrows.with_columns(pl.col("flow_id").cast(pl.String)).select(launched.columns)
        profile.write("flow", pl.concat([launched, arrows]).sort("src_ns"))


_TARGETS = ("launch_pid", "launch_tid", "launch_ns")


def _pairs(rows: pl.DataFrame, order: str, keys: list[str]) -> pl.DataFrame:
    """One arrow for each key that two rows share: from the first to the last row in that order."""
    # "enqueue" sorts after "dequeue".
    rows = rows.sort(order, "start_ns", descending=[order == "kind", False])
    ends = rows.group_by(keys, maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col(order).n_unique().alias("distinct"),
        *(pl.col(name).first().alias(f"src_{name}") for name in _END),
        *(pl.col(name).last().alias(f"dst_{name}") for name in _END),
    )
    ends = ends.filter((pl.col("count") >= 2) & (pl.col("distinct") >= 2)).drop("count", "distinct")
    return ends.rename({"src_start_ns": "src_ns", "dst_start_ns": "dst_ns"})
