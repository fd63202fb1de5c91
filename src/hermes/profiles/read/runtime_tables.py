"""Writes tables for profilers that record runtime and device, but no framework: their calls, ranges and tasks.

A runtime call and its tasks share one number, `correlation`. Programs describe their work by ranges with a text (NVTX,
ROCTX): steps by their numbers, operators of PyTorch if it ran under `emit_nvtx`.
"""

from __future__ import annotations

from contextlib import closing

import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.knowledge.blocking_calls import OF_GRAPH
from hermes.knowledge.collectives import collective_of_kernel
from hermes.profiles.read.assign_rows_to_steps import own_device, own_host
from hermes.profiles.read.kineto.unmarked_steps import found_steps
from hermes.profiles.read.nest_calls import nest
from hermes.profiles.read.query import keep_frame
from hermes.profiles.read.table_sink import Sink

_STEP = r"(?i)^(?:train(?:ing)?[ _-]?)?(?:profilerstep|iteration|iter|step)[ :#_-]*(\d{1,9})$"
_OPERATOR = r"^(aten::[\w:.]+|c10d::\w+|record_param_comms)(?:,|$)"
_SEQUENCE, _SIZES = r", seq = (\d{1,18})", r", sizes = \[(.*)\]"
_FEWEST_STEPS = 2


def said_by_range(text: pl.Expr) -> tuple[pl.Expr, ...]:
    """`kind`, `name`, `sequence` and `shapes` of a range, from its text."""
    operator = text.str.extract(_OPERATOR)
    return (
        pl.when(operator.is_not_null()).then(pl.lit("op")).otherwise(pl.lit("mark")).alias("kind"),
        pl.coalesce(operator, text).alias("name"),
        text.str.extract(_SEQUENCE).cast(pl.Int64, strict=False).alias("sequence"),
        # `[[8, 16], [16, 32]]` becomes `8,16;16,32`.
        text.str.extract(_SIZES).str.replace_all(r"\], ?\[", ";").str.replace_all(r"[\[\] ]", "").alias("shapes"),
    )


def as_work(ranges: pl.DataFrame) -> pl.DataFrame:
    """The ranges as operators of the host, for a capture that records nothing else; steps and moments stay marks."""
    work = ~pl.col("name").str.contains(_STEP) & (pl.col("dur_ns") > 0)
    return ranges.with_columns(pl.when(work).then(pl.lit("op")).otherwise("kind").alias("kind"))


def write_tables(
    ranges: pl.DataFrame, calls: pl.DataFrame, tasks: pl.DataFrame, sink: Sink, vendor: str = ""
) -> pl.DataFrame:
    """Write `step`, `host_op`, `kernel` and `comm_op` of one process; returns the rows of `host_op`.

    `ranges` and `calls` have the columns of `host_op` as far as they are known. `tasks` have `what` (`kernel`, `memcpy`
    or `memset`) and columns of `kernel`. `vendor` tells which of two libraries with the same kernel names a collective
    belongs to.
    """
    tasks = tasks.sort("start_ns", "stream", "dur_ns", "correlation", maintain_order=True)
    step = _steps(ranges, calls, tasks, sink)
    host = own_host(step, nest(pl.concat([ranges, calls], how="diagonal")))
    sink.frame("host_op", host)
    _device(_with_collectives(tasks, vendor), host, step, sink)
    return host


def _with_collectives(tasks: pl.DataFrame, vendor: str) -> pl.DataFrame:
    """The tasks with `op` and `library`, which are set for communication kernels."""
    names = tasks.filter(pl.col("what") == "kernel")["name"].unique().to_list()
    found = {name: made for name in names if (made := collective_of_kernel(name, vendor)) is not None}
    op = {name: made.op for name, made in found.items()}
    library = {name: made.library for name, made in found.items()}
    return tasks.with_columns(
        pl.col("name").replace_strict(op, default=None, return_dtype=pl.String).alias("op"),
        pl.col("name").replace_strict(library, default=None, return_dtype=pl.String).alias("library"),
    )


def _steps(ranges: pl.DataFrame, calls: pl.DataFrame, tasks: pl.DataFrame, sink: Sink) -> pl.DataFrame:
    """The table `step`, also returned: ranges numbered as steps, else steps found by repeated launches."""
    number = pl.col("name").str.extract(_STEP).cast(pl.Int64, strict=False)
    marked = ranges.with_columns(number.alias("step")).drop_nulls("step").filter(pl.col("dur_ns") > 0)
    # Of nested ranges with the same number, the longest counts.
    marked = marked.sort("dur_ns", descending=True).unique("step", keep="first", maintain_order=True).sort("start_ns")
    if marked.height >= _FEWEST_STEPS:
        step = marked.select("step", "start_ns", "dur_ns", "name")
    else:
        with closing(sink.connect()) as con:
            rows = [
                own.select(pl.lit("X").alias("ph"), what, "name", pl.col("start_ns").alias("ts_ns"), "dur_ns", link)
                for own, what, link in (
                    (ranges, pl.col("kind").alias("what"), pl.lit(None, pl.Int64).alias("correlation")),
                    (calls, pl.col("kind").alias("what"), pl.col("correlation")),
                    (tasks, pl.col("what"), pl.col("correlation")),
                )
            ]
            keep_frame(con, "event", pl.concat(rows))
            step = found_steps(con)
    sink.frame("step", step)
    return step


def _device(tasks: pl.DataFrame, host: pl.DataFrame, step: pl.DataFrame, sink: Sink) -> None:
    """Write the tables `kernel` and `comm_op`: each task with its launching call and the operator around it."""
    calls = host.filter(pl.col("kind").is_in(["runtime", "driver"]) & pl.col("correlation").is_not_null())
    calls = calls.sort("start_ns").unique("correlation", keep="first", maintain_order=True)
    operators = host.filter(pl.col("kind") == "op")
    at = enclosing(operators, calls)
    launched = calls.select(
        "correlation", pl.col("start_ns").alias("launch_ns"),
        pl.col("name").str.ends_with("GraphLaunch").alias("graph"),
    ).with_columns(
        operators["name"].gather(at).alias("type"), operators["shapes"].gather(at).alias("input_shapes"),
        operators["op_id"].gather(at).alias("call"),
    )  # fmt: skip
    rows = own_device(step, tasks.join(launched, on="correlation", how="left", maintain_order="left"))
    comm, kernel = pl.col("op").is_not_null(), pl.col("what") == "kernel"
    part = pl.when(comm).then(pl.lit("comm")).when(kernel)
    rows = rows.with_columns(
        part.then(pl.lit("compute")).otherwise(pl.lit("copy")).alias("component"),
        part.then(pl.lit("sm")).otherwise(pl.lit("copy")).alias("unit"),
        pl.when(pl.col("graph")).then(pl.lit(OF_GRAPH)).otherwise("what").alias("task_type"),
        pl.when(kernel).then("type").alias("type"), pl.when(kernel).then("input_shapes").alias("input_shapes"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("kernel_id"),
    )  # fmt: skip
    sink.frame("kernel", rows.drop("what", "op", "library", "graph"))
    comms = rows.filter(comm).select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("comm_id"), "name", "op", "library", "stream", "start_ns",
        "dur_ns", "step", "correlation", "launch_ns",
    )  # fmt: skip
    sink.frame("comm_op", comms)
