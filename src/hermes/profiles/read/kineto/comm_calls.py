"""Takes facts on collectives from the host's ranges, for older PyTorch, whose kernels and arguments lack them.

PyTorch opens a range around each call of a backend (`nccl:all_to_all`, `nccl:send 0->1`), and launches the kernel
inside it. NCCL has one kernel for sends, receives and all-to-alls, and RCCL one for everything: the range tells them
apart, and how much was moved.
"""

from __future__ import annotations

import json
import math
import re

import duckdb
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.units import whole_number
from hermes.knowledge.collectives import DEVICE_BACKENDS, op_of_words
from hermes.profiles.read.query import fetched, keep_frame

_CALL = rf"^(({'|'.join(DEVICE_BACKENDS)}):|c10d::)"
_BETWEEN = re.compile(r"(\d{1,7})\s*(?:->|<-)\s*(\d{1,7})$")
# The range of an all-gather names its input, of which all members give equally much.
_SAME_SIZE = ("all_reduce", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send", "recv")
_MOST_DIMS = 4_096
_VAGUE = ("send_recv", "unknown")


def with_calls(con: duckdb.DuckDBPyConnection, rows: pl.DataFrame, rank: int) -> pl.DataFrame:
    """The communication kernels with operation, size, type and peer from the range that launched them.

    Only kernels without any of these facts are filled in. The columns stay the same.
    """
    bare = rows.filter(pl.col("Collective name").is_null() & pl.col("correlation").is_not_null())
    called = _called(con, bare) if bare.height else bare
    if not called.height:
        return rows
    told = [_told(name, dims, rank) for name, dims in called.select("call", "dims").iter_rows()]
    facts = called.select("correlation", pl.col("types").str.extract(r'"([^"]+)"').alias("call_dtype")).with_columns(
        pl.Series("call_op", [op for op, _, _ in told], dtype=pl.String),
        pl.Series("call_peer", [peer for _, peer, _ in told], dtype=pl.String),
        pl.Series("call_size", [size for _, _, size in told], dtype=pl.String),
    )
    wide = rows.join(facts, on="correlation", how="left", maintain_order="left")
    vague = pl.col("op").is_in(_VAGUE) & (pl.col("call_op") != "unknown").fill_null(value=False)
    wide = wide.with_columns(pl.when(vague).then("call_op").otherwise("op").alias("op"))
    # A size belongs to the operation that the range names.
    sized = (pl.col("op") == pl.col("call_op")) & pl.col("op").is_in(_SAME_SIZE)
    mine = pl.col("Collective name").is_null()
    return wide.with_columns(
        pl.when(mine & sized).then("call_size").otherwise("In msg nelems").alias("In msg nelems"),
        pl.when(mine & sized).then("call_dtype").otherwise("dtype").alias("dtype"),
        pl.when(mine & (pl.col("op") == "send")).then("call_peer").otherwise("Dst Rank").alias("Dst Rank"),
        pl.when(mine & (pl.col("op") == "recv")).then("call_peer").otherwise("Src Rank").alias("Src Rank"),
    ).select(rows.columns)


def _called(con: duckdb.DuckDBPyConnection, bare: pl.DataFrame) -> pl.DataFrame:
    """For each correlation, the innermost range of a backend around the launch: `call`, `dims`, `types`."""
    calls = fetched(
        con,
        'SELECT name, pid_number AS pid, tid_number AS tid, ts_ns AS start_ns, dur_ns, args."Input Dims" AS dims, '
        f"args.\"Input type\" AS types FROM event WHERE what IN ('op', 'mark') AND regexp_matches(name, '{_CALL}')",
    )
    if not calls.height:
        return bare.clear()
    keep_frame(con, "bare", bare.select("correlation").unique())
    launches = fetched(
        con,
        "SELECT correlation, arg_min(pid_number, ts_ns) AS pid, arg_min(tid_number, ts_ns) AS tid, "
        "min(ts_ns) AS start_ns FROM event SEMI JOIN bare USING (correlation) "
        "WHERE what IN ('runtime', 'driver') GROUP BY correlation ORDER BY correlation",
    )
    place = enclosing(calls, launches)
    named = launches.select("correlation").with_columns(
        calls["name"].gather(place).alias("call"), calls["dims"].gather(place), calls["types"].gather(place)
    )
    return named.drop_nulls("call")


def _told(name: str, dims: str | None, rank: int) -> tuple[str, str | None, str | None]:
    """The operation, peer and number of elements that a range names."""
    backend, _, words = name.partition(":")
    between = _BETWEEN.search(words)
    op = op_of_words(words[: between.start()] if between else words)
    # The numbers are positions in the group: they are ranks of the job if the first number is this rank.
    peer = between.group(2) if between and whole_number(between.group(1)) == rank else None
    size = _elements(dims) if backend in DEVICE_BACKENDS else None
    return op, peer, None if size is None else str(size)


def _elements(dims: str | None) -> int | None:
    """The total number of elements of the tensors in `[[394241], [3, 5]]`."""
    if dims is None or len(dims) > _MOST_DIMS:
        return None
    try:
        tensors = json.loads(dims)
        return sum(math.prod(map(int, tensor)) for tensor in tensors if isinstance(tensor, list) and tensor) or None
    except (ValueError, TypeError, RecursionError):
        return None
