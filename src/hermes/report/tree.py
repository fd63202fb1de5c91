"""Prepares the time tree for the terminal and pages: parts, their leaves, and the rows of each leaf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hermes.base.message import Message
from hermes.model.leaf import Leaf, Part
from hermes.model.leaf_time import How, JobLeaf, PathRank
from hermes.model.report import Report
from hermes.report import tree_messages as say_that

LEAST = 0.01
"""Leaves with a smaller share of the time are shown together as one."""
_ROWS = 10
_PARTS: dict[Part, Message] = {
    "idle": say_that.IDLE, "compute": say_that.COMPUTE, "communication": say_that.COMMUNICATION,
    "copy": say_that.COPIES, "outside": say_that.OUTSIDE,
}  # fmt: skip
_OF_HOST: dict[Part, Message] = {**_PARTS, "idle": say_that.BETWEEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """A row of a leaf: its operator or call, its place, a rank, and its largest gain.

    The rank has more of the leaf than the others, or is awaited, as `whose` says.
    """

    how: Message | None
    what: str
    place: str
    rank: int | None
    whose: Message | None
    ns: int
    curable_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLeaf:
    """A leaf with its rows, the largest first, unnamed time last.

    `leaf` is None for the small leaves together, which have a row each.
    """

    leaf: Leaf | None
    title: Message
    ns: int
    rows: tuple[TreeRow, ...]

    @property
    def largest(self) -> str:
        """The operator, call or place with a third of the leaf's time or more, if its name is not that of the leaf."""
        sums = Counter[str]()
        for row in self.rows:
            sums[row.what or row.place] += row.ns
        name, ns = sums.most_common(1)[0]
        same = self.leaf is not None and name.replace(" ", "_") == self.leaf.value
        return name if 3 * ns >= self.ns and not same else ""

    @property
    def shown(self) -> tuple[TreeRow, ...]:
        """The largest rows of the leaf, and the other rows as one."""
        if len(self.rows) <= _ROWS + 1:
            return self.rows
        return (*self.rows[:_ROWS], _together(self.rows[_ROWS:], say_that.OTHERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePart:
    """A part of the time tree: a kind of device work or idle time, with its leaves."""

    part: Part
    title: Message
    ns: int
    leaves: tuple[TreeLeaf, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTree:
    """The parts of the time tree, the largest first, which add up to `whole_ns` over the marked steps.

    The number of steps is 0 for a capture without marks. Time outside of the steps comes last, and is not in
    `whole_ns`. `ranks` is the number of ranks through which the path of waits could lead.
    """

    whole_ns: int
    steps: int
    ranks: int
    parts: tuple[TreePart, ...]

    @property
    def of(self) -> Message:
        """The message that says what time span the tree covers."""
        each = say_that.EACH_STEP if self.ranks < 2 else say_that.EACH_STEP_OF_PATH
        return each if self.steps else say_that.WHOLE

    def of_steps(self, part: TreePart) -> int:
        """The time that a part is a share of: the time of the steps; 0 for time outside of steps."""
        return 0 if part.part == "outside" else self.whole_ns

    def each(self, ns: int) -> int:
        """A total time as nanoseconds in each step."""
        return ns // max(self.steps, 1)


def time_tree(report: Report, most: int | None = None) -> TimeTree | None:
    """The time tree with at most `most` leaves of a part shown separately; None if no time was accounted for."""
    rows = report.rows(JobLeaf)
    whole = sum(row.total_ns for row in rows if row.leaf.part != "outside")
    if not rows:
        return None
    steps = report.measures.job.steps
    parts = []
    for part, title in (_PARTS if steps.devices else _OF_HOST).items():
        own = [row for row in rows if row.leaf.part == part]
        if own:
            leaves = tuple(_leaves(own, whole, report.verdict.leaf, most))
            parts.append(TreePart(part=part, title=title, ns=sum(row.total_ns for row in own), leaves=leaves))
    parts.sort(key=lambda part: (part.part == "outside", -part.ns))
    spanned = next((row.steps for row in report.rows(PathRank)), steps.marked)
    return TimeTree(whole_ns=whole, steps=spanned, ranks=len(steps.ranks), parts=tuple(parts))


def _leaves(rows: Iterable[JobLeaf], whole: int, chosen: Leaf | None, most: int | None) -> Iterator[TreeLeaf]:
    """The leaves, the largest first, small leaves as one; the verdict's leaf is always shown separately."""
    by_leaf: dict[Leaf, list[TreeRow]] = {}
    for row in rows:
        by_leaf.setdefault(row.leaf, []).append(_row(row))
    every = sorted(
        (_leaf(leaf, leaf.message, own) for leaf, own in by_leaf.items()), key=lambda one: (-one.ns, one.leaf)
    )
    shown = [one for one in every if one.ns >= LEAST * whole or one.leaf is chosen][:most]
    rest = [one for one in every if one not in shown]
    yield from shown
    if len(rest) == 1:
        yield rest[0]
    elif rest:
        yield _leaf(None, say_that.OTHERS, [_together(one.rows, one.title) for one in rest])


def _leaf(leaf: Leaf | None, title: Message, rows: Sequence[TreeRow]) -> TreeLeaf:
    ordered = tuple(sorted(rows, key=lambda row: (row.how == How.OTHERS.message, -row.ns)))
    return TreeLeaf(leaf=leaf, title=title, ns=sum(row.ns for row in rows), rows=ordered)


def _row(row: JobLeaf) -> TreeRow:
    named = row.how is How.CALL and (row.what or row.rank is not None)
    whose = say_that.awaited if row.leaf is Leaf.WAIT else say_that.on
    return TreeRow(
        how=None if named else row.how.message, what=row.what, place=row.place, rank=row.rank,
        whose=None if row.rank is None else whose(rank=row.rank), ns=row.total_ns, curable_ns=row.curable_ns,
    )  # fmt: skip


def _together(rows: Sequence[TreeRow], title: Message) -> TreeRow:
    """Rows merged into one; its possible gain is known only if each row's gain is known."""
    known = [row.curable_ns for row in rows if row.curable_ns is not None]
    return TreeRow(
        how=title, what="", place="", rank=None, whose=None, ns=sum(row.ns for row in rows),
        curable_ns=sum(known) if len(known) == len(rows) else None,
    )  # fmt: skip
