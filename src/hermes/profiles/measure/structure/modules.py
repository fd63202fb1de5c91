"""Measures device time by module and by named range: forward work, and the backward work that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.model.declare import field, measure
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.registry import RankTables, per_rank

_MODULE = "nn.Module: "
_RANGES = "mark"
_WORK = ["compute", "copy", "comm"]
_CALLS = ("kind", "name", "pid", "tid", "start_ns", "dur_ns")
_TASK = ("component", "name", "type", "start_ns", "dur_ns", "correlation", "stream")
_MOST = 300
_DEEPEST = 40
_ARROW = ("src_pid", "src_tid", "src_ns", "dst_tid", "dst_ns")
_LANE = ("pid", "tid", "start_ns")


@measure(
    "compute.modules",
    title="Device time by module and range",
    zh="按模块与标注区间的设备时间",
    about=(
        "A module or range counts what was launched while it ran, and the backward work of what it computed. "
        "`device_ms = own_device_ms +` that of what it holds. Sums over the capture; the 300 with most device time."
    ),
    most=_MOST,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTime:
    """All calls of one module, or of one named range, below the same callers.

    `backward_ns` is the part of `device_ns` that autograd launched for its forward operators; None if operators have no
    autograd number that joins the two.
    """

    rank: int = field("global rank", "Rank", "卡")
    kind: Literal["module", "range"] = field("`module`, or a `range` that the program named", "Kind", "类型")
    path: str = field("it and what holds it, outermost first, `/` between them", "Path", "路径")
    depth: int = field("how many hold it", "Depth", "层级")
    calls: int = field("calls", "Calls", "次数")
    host_ns: int = field("time on the host, what it holds included", "On the host", "主机时间")
    device_ns: int = field("time of its kernels and copies, added up", "On the device", "设备时间")
    own_device_ns: int = field("of it, of nothing that it holds", "Its own", "自身", of="device_ns")
    backward_ns: int | None = field("of it, in the backward pass", "Backward", "反向", of="device_ns")
    kernels: int = field("kernels and copies", "Kernels", "核函数数")
    share: float = field("of the device time of the capture", "Share", "占比")


@per_rank(
    ModuleTime,
    needs={"kernel": _TASK, "host_op": _CALLS},
)
def modules_of(rank: RankTables) -> tuple[ModuleTime, ...]:
    """The modules and ranges of a rank, by device time; empty if none was recorded or nothing was launched."""
    host_op, kernel = rank.table("host_op"), rank.table("kernel")
    named = host_op.filter(
        ((pl.col("kind") == "python") & pl.col("name").str.starts_with(_MODULE)) | (pl.col("kind") == _RANGES)
    )
    if not named.height or not kernel["component"].is_in(_WORK).any():
        return ()
    asked = rank.once(asked_of)
    whole = kernel.filter(pl.col("component").is_in(_WORK))["dur_ns"].sum()
    return module_times(rank.rank, named, asked, rank.once(nodes_of), whole_ns=int(whole))


def asked_of(rank: RankTables) -> pl.DataFrame:
    """The launches of all device tasks of a rank, with `pid, tid, start_ns` and the task's `dur_ns` and `name`.

    The name is the task's type, if it has one.
    """
    host_op = rank.table("host_op").select(_CALLS)
    work = (
        rank.table("kernel")
        .select(_TASK)
        .filter(pl.col("component").is_in(_WORK))
        .with_columns(pl.coalesce("type", "name").alias("name"))
    )
    runtime = rank.data.where("host_op", ("pid", "tid", "start_ns", "correlation"), pl.col("kind").is_in(RUNTIME_KINDS))
    flow = rank.data.where("flow", ("kind", *_ARROW), pl.col("kind").is_in(["operator", "queue"]))
    arrows, queued = flow.filter(pl.col("kind") == "operator"), flow.filter(pl.col("kind") == "queue")
    taken = host_op.filter(pl.col("kind") == "dequeue") if queued.height else host_op.clear()
    return from_the_queue(launches(work, runtime, arrows, "name"), taken, queued)


def nodes_of(rank: RankTables) -> pl.DataFrame:
    """The calls of a rank with an autograd number."""
    return rank.data.where("host_op", (*_CALLS, "sequence", "forward_tid"), pl.col("sequence").is_not_null())


def module_times(
    rank: int, named: pl.DataFrame, asked: pl.DataFrame, nodes: pl.DataFrame, *, whole_ns: int
) -> tuple[ModuleTime, ...]:
    """Rows of modules and ranges (`kind, name, pid, tid, start_ns, dur_ns`) by the device tasks that they launched.

    `asked` holds, for each device task, when and on which thread it was launched, and its `dur_ns`. `nodes` are
    operators with an autograd number: an operator with a `forward_tid` belongs where its forward operator ran.
    `whole_ns` is all device time of the capture. O(n log n).
    """
    calls = _Calls(named)
    place, behind = places(named, asked, nodes)
    duration = asked["dur_ns"].to_numpy()
    return tuple(calls.rows(rank, place, duration, behind, whole_ns or 1, known=nodes.height > 0))


def places(
    named: pl.DataFrame, asked: pl.DataFrame, nodes: pl.DataFrame
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """For each device task its row in `named` (-1: none), and whether it belongs there by its forward operator."""
    at = enclosing(named, asked).to_numpy().astype(np.float64)
    place = np.where(np.isnan(at), -1, at).astype(np.int64)
    if not nodes.height:
        return place, np.zeros(len(place), dtype=bool)
    later = _backward(named, asked, nodes)
    behind = (place < 0) & (later >= 0)
    return np.where(behind, later, place), behind


def launches(work: pl.DataFrame, runtime: pl.DataFrame, arrows: pl.DataFrame, *more: str) -> pl.DataFrame:
    """The launches of device tasks: `pid, tid, start_ns`, the task's `dur_ns`, and the columns `more`.

    Launches are found by arrows from operators, else by the correlation with a runtime call.
    """
    by_operator = arrows.unique(["dst_ns", "dst_tid"], keep="first").rename(
        {"src_pid": "pid", "src_tid": "tid", "src_ns": "asked_ns", "dst_ns": "start_ns", "dst_tid": "stream"}
    )
    first = work.join(by_operator, on=["start_ns", "stream"], how="inner")
    calls = runtime.drop_nulls("correlation").unique("correlation", keep="first")
    rest = work.join(by_operator, on=["start_ns", "stream"], how="anti").join(
        calls.rename({"start_ns": "asked_ns"}), on="correlation", how="inner"
    )
    columns = ["pid", "tid", pl.col("asked_ns").alias("start_ns"), "dur_ns", *more]
    return pl.concat([first.select(columns), rest.select(columns)])


def from_the_queue(asked: pl.DataFrame, taken: pl.DataFrame, queued: pl.DataFrame) -> pl.DataFrame:
    """The launches, where tasks that a thread took from a queue get the place and time at which they were queued.

    `taken` are the calls of that thread, `queued` the arrows that lead to them.
    """
    if not taken.height or not asked.height:
        return asked
    put = queued.unique(["dst_ns", "dst_tid"], keep="first").select("src_pid", "src_tid", "src_ns", "dst_tid", "dst_ns")
    origin = taken.select(_LANE).join(
        put, left_on=["start_ns", "tid"], right_on=["dst_ns", "dst_tid"], how="left", maintain_order="left"
    )
    at = enclosing(taken, asked)
    found = origin.select("src_pid", "src_tid", "src_ns")[at.fill_null(0)]
    known = pl.Series("known", at.is_not_null()) & found["src_ns"].is_not_null()
    chosen = pl.concat([asked, found, known.to_frame()], how="horizontal")
    return chosen.select(
        *(
            pl.when("known").then(new).otherwise(old).alias(old)
            for old, new in (("pid", "src_pid"), ("tid", "src_tid"), ("start_ns", "src_ns"))
        ),
        *(name for name in asked.columns if name not in _LANE),
    )


def _backward(
    named: pl.DataFrame, asked: pl.DataFrame, nodes: pl.DataFrame
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For each device task, the call in which the forward operator of its backward operator ran; -1 without one."""
    forward = nodes.filter(pl.col("forward_tid").is_null())
    ran_in = forward.select("sequence").with_columns(enclosing(named, forward.select(_LANE)).alias("call"))
    ran_in = ran_in.drop_nulls().unique("sequence", keep="first", maintain_order=True)
    backward = nodes.filter(pl.col("forward_tid").is_not_null())
    call = backward.join(ran_in, on="sequence", how="left", maintain_order="left")["call"]
    node = enclosing(backward, asked)
    found = call.gather(node.fill_null(0)) if len(call) else pl.Series([None] * asked.height, dtype=pl.Int64)
    known = node.is_not_null() & found.is_not_null()
    return np.where(known.to_numpy(), found.fill_null(-1).to_numpy(), -1)


class _Calls:
    """Calls of modules and ranges, and the node of the tree of paths that each call belongs to."""

    def __init__(self, named: pl.DataFrame) -> None:
        self._paths: dict[tuple[int, str, str], int] = {}
        self._about: list[tuple[int, str, str]] = []
        self._calls: list[int] = []
        self._host: list[int] = []
        self.node = np.full(named.height, -1, dtype=np.int64)
        self._grow(named)

    def _grow(self, named: pl.DataFrame) -> None:
        rows = named.with_row_index("at").with_columns((pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
        ordered = rows.sort("pid", "tid", "start_ns", "end_ns", descending=[False, False, False, True], nulls_last=True)
        lane: tuple[object, object] | None = None
        open_calls: list[tuple[int, int]] = []
        for at, kind, name, pid, tid, start, dur, end in ordered.select(
            "at", "kind", "name", "pid", "tid", "start_ns", "dur_ns", "end_ns"
        ).iter_rows():
            if lane != (pid, tid):
                lane, open_calls = (pid, tid), []
            while open_calls and open_calls[-1][0] < end:
                if open_calls[-1][0] > start:
                    break
                open_calls.pop()
            parent = open_calls[-1][1] if open_calls else -1
            if len(open_calls) < _DEEPEST:
                parent = self._node(parent, "range" if kind == _RANGES else "module", name.removeprefix(_MODULE))
            self.node[at] = parent
            self._calls[parent] += 1
            self._host[parent] += dur
            open_calls.append((end, parent))

    def _node(self, parent: int, kind: str, name: str) -> int:
        key = (parent, kind, name)
        if key not in self._paths:
            self._paths[key] = len(self._about)
            self._about.append(key)
            self._calls.append(0)
            self._host.append(0)
        return self._paths[key]

    def rows(
        self,
        rank: int,
        place: np.ndarray[tuple[int], np.dtype[np.int64]],
        duration: np.ndarray[tuple[int], np.dtype[np.int64]],
        behind: np.ndarray[tuple[int], np.dtype[np.bool_]],
        whole_ns: int,
        *,
        known: bool,
    ) -> Iterator[ModuleTime]:
        """The tree's nodes that launched device tasks, by device time."""
        count = len(self._about)
        inside = place >= 0
        node = self.node[place[inside]]
        own = np.bincount(node, weights=duration[inside], minlength=count).astype(np.int64)
        later = np.bincount(node, weights=duration[inside] * behind[inside], minlength=count).astype(np.int64)
        kernels = np.bincount(node, minlength=count)
        total, backward = own.copy(), later.copy()
        # A caller stands before its callees.
        for at in range(count - 1, -1, -1):
            parent = self._about[at][0]
            if parent >= 0:
                total[parent] += total[at]
                backward[parent] += backward[at]
                kernels[parent] += kernels[at]
        order = sorted(np.flatnonzero(total).tolist(), key=lambda at: (-int(total[at]), at))
        for at in order[:_MOST]:
            path = self._path(at)
            yield ModuleTime(
                rank=rank, kind="range" if self._about[at][1] == "range" else "module", path="/".join(path),
                depth=len(path) - 1, calls=self._calls[at], host_ns=self._host[at], device_ns=int(total[at]),
                own_device_ns=int(own[at]), backward_ns=int(backward[at]) if known else None,
                kernels=int(kernels[at]), share=float(total[at]) / whole_ns,
            )  # fmt: skip

    def _path(self, at: int) -> list[str]:
        names: list[str] = []
        while at >= 0:
            parent, _, name = self._about[at]
            names.append(name)
            at = parent
        return names[::-1]
