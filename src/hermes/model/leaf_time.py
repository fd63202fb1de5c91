"""Rows of the time tree: nanoseconds of one leaf on a rank or in the job, by operator and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hermes.base.message import Word
from hermes.model.declare import field, measure
from hermes.model.leaf import Leaf


class How(Word):
    """The part of a leaf that a row is about, where the name of a call does not say so."""

    CALL = "call"
    LAUNCH_CALLS = "launch_calls"
    BETWEEN_CALLS = "between_calls"
    OPERATORS = "operators"
    LATENCY = "latency"
    BEHIND = "behind"
    INSIDE_GRAPH = "inside_graph"
    BEFORE = "before"
    LOST_LEAD = "lost_lead"
    OTHERS = "others"


@measure("leaves", title="Where the time of the steps went", zh="各步时间的去向", shown=lambda _: False)
@dataclass(frozen=True, slots=True, kw_only=True)
class LeafTime:
    """The time of one leaf on one rank: of a kernel, a call or a line, at one place of the program."""

    rank: int = field("Global rank.", "rank", "卡")
    leaf: Leaf = field("The leaf.", "leaf", "去向", kind="word")
    how: How = field("What of the leaf it is.", "part", "部分", kind="word")
    what: str = field("The operator, the kernel or the call; empty where nothing names it.", "of", "对象", kind="name")
    place: str = field("The line, else the range, else the operator that it lies in.", "in", "位置", kind="name")
    awaited: int | None = field(
        "The rank that is waited for; null where none is, or it is not known.", "for rank", "等待的卡"
    )
    total_ns: int = field("How long, in all steps.", "all steps", "全部步")
    step_ns: int = field("How long, in the typical step.", "typical step", "典型步")
    long_ns: int = field("How long, in steps of at least 1.5 times the typical one.", "long steps", "长步")


def spent(times: Iterable[LeafTime], steps: Mapping[int, int]) -> Mapping[int, Mapping[Leaf, int]]:
    """For each rank, the nanoseconds of each leaf a step: of the typical or the mean step, whichever is more."""
    found: dict[int, dict[Leaf, tuple[int, int]]] = {}
    for row in times:
        own = found.setdefault(row.rank, {})
        total, typical = own.get(row.leaf, (0, 0))
        own[row.leaf] = (total + row.total_ns, typical + row.step_ns)
    return {
        rank: {leaf: max(total // max(steps.get(rank, 1), 1), typical) for leaf, (total, typical) in own.items()}
        for rank, own in found.items()
    }


def lengths(times: Iterable[LeafTime], steps: Mapping[int, int]) -> Mapping[int, int]:
    """For each rank, the length of its mean step in nanoseconds: the sum of all leaves inside steps."""
    found = Counter[int]()
    for row in times:
        if row.leaf.part != "outside":
            found[row.rank] += row.total_ns
    return {rank: ns // max(steps.get(rank, 1), 1) for rank, ns in found.items()}


@measure(
    "idle_stretches", title="Longest idle stretches", zh="最长空闲段",
    about="Of the ranks whose devices are idle longest; a gap with two leaves is two rows.",
)  # fmt: skip
@dataclass(frozen=True, slots=True, kw_only=True)
class IdleStretch:
    """A stretch in which a device had nothing to do, with the leaf that its time is in."""

    rank: int = field("whose device", "Rank", "卡")
    step: int | None = field("the step that it lies in", "Step", "步")
    leaf: Leaf = field("the leaf", "Leaf", "去向", kind="word")
    what: str = field("the call that takes most of it; empty where nothing names it", "Name", "名称", kind="name")
    place: str = field("the line, else the range, else the operator that it lies in", "In", "位置", kind="name")
    start_ns: int = field("on the clock of the rank", "Start", "开始", kind="moment")
    ns: int = field("how long", "Time", "时间")


@measure("tree", title="Where the time of the job went", zh="作业时间的去向", shown=lambda _: False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobLeaf:
    """The time of one leaf on the path of waits through the ranks, of a kernel, a call or a line at one place.

    See docs/tree.md.
    """

    leaf: Leaf = field("The leaf.", "leaf", "去向", kind="word")
    how: How = field("What of the leaf it is.", "part", "部分", kind="word")
    what: str = field("The operator, the kernel or the call; empty where nothing names it.", "of", "对象", kind="name")
    place: str = field("The line, else the range, else the operator that it lies in.", "in", "位置", kind="name")
    rank: int | None = field(
        "The rank that spends this more than the others; null for what all ranks spend. Of a wait the awaited rank.",
        "rank",
        "卡",
    )
    total_ns: int = field("How long, in all steps.", "all steps", "全部步")
    share: float = field("Of the time of all steps.", "share", "占比")
    curable_ns: int | None = field(
        "The part that can be won at most; null where that is not known.", "curable", "可优化"
    )


@measure("path_of_waits", title="The path of waits", zh="等待路径", shown=lambda _: False)
@dataclass(frozen=True, slots=True, kw_only=True)
class PathRank:
    """How long the path of waits lies on one rank. At each wait that binds, the path leads to the awaited rank."""

    rank: int = field("Global rank.", "rank", "卡")
    steps: int = field("The steps that the path spans; 0 for a capture without marks.", "steps", "步数")
    total_ns: int = field("How long the path lies on the rank, in all steps.", "all steps", "全部步")
    share: float = field("Of the length of the path.", "share", "占比")
