"""Groups the leaves of a job by kind: the possible gain of each kind, and how much of it a finding explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from hermes.model.finding import Loss
from hermes.model.leaf import Leaf, Risk
from hermes.model.leaf_time import JobLeaf
from hermes.model.limit import Limit
from hermes.model.plan import Unprofiled
from hermes.profiles.tree.gain_spread import expected_ns

WORTH = Limit(
    value=0.03, unit="of the steps", source="two runs of a healthy job differ by that: docs/evidence/noise.md"
)
"""A leaf is no loss if its possible gain is below this, or below the noise of the steps."""
MOSTLY = 0.5
"""The least share of a kind's time that an operator or place must have for the kind to be named after it."""
LATE = 0.4
"""The least share of a kind's possible gain that one rank must have for the kind to be named after the rank."""
WORK = frozenset(leaf for leaf in Leaf if leaf.part == "compute") - {Leaf.AI_CPU} | {Leaf.TRANSFER}
"""Leaves of device work: only a roof, or what a rule counts, says how much of the work is needless."""
PART = 0.1
"""The share of a leaf below which a finding's cost does not explain the leaf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafKind:
    """All rows of one leaf: their share of all steps, and their possible gain as far as it is known.

    `most` is the upper end of the possible gain. `unknown` means that the possible gain of most of the leaf is unknown.
    """

    leaf: Leaf
    rows: tuple[JobLeaf, ...]
    share: float
    curable: float
    most: float
    unknown: bool

    @property
    def total_ns(self) -> int:
        """The time of the leaf in all steps, in ns."""
        return sum(row.total_ns for row in self.rows)

    def largest(self, name: Literal["what", "place"], least: float) -> str:
        """The operator or place with most of the leaf's time; empty if its share is less than `least`."""
        sums = Counter[str]()
        for row in self.rows:
            sums[getattr(row, name)] += row.total_ns
        said, ns = sums.most_common(1)[0]
        return said if ns >= least * self.total_ns else ""

    @property
    def rank(self) -> int | None:
        """The rank that spends more in this leaf than the others, if its excess is much of the possible gain."""
        sums = Counter[int]()
        for row in self.rows:
            if row.rank is not None:
                sums[row.rank] += row.curable_ns or 0
        rank, ns = max(sums.items(), key=lambda item: item[1], default=(None, 0))
        return rank if ns and ns >= LATE * sum(row.curable_ns or 0 for row in self.rows) else None


@dataclass(frozen=True, kw_only=True)
class LeafKinds:
    """The leaves of a job, one entry for each kind, the longest first; together they take `whole_ns` in `steps`."""

    every: tuple[LeafKind, ...]
    whole_ns: int
    steps: int = 0

    @property
    def step_ns(self) -> int:
        """The length of a step in ns, or of the whole capture if no step was marked."""
        return self.whole_ns // max(self.steps, 1)

    @classmethod
    def of(cls, rows: Iterable[JobLeaf], steps: int = 0) -> LeafKinds:
        """The kinds of the rows of a tree that spans some marked steps, without rows outside the steps."""
        found: dict[Leaf, list[JobLeaf]] = {}
        for row in rows:
            if row.leaf.part != "outside" and row.total_ns:
                found.setdefault(row.leaf, []).append(row)
        whole = sum(row.total_ns for kind in found.values() for row in kind)
        every = [_kind(leaf, tuple(own), whole) for leaf, own in found.items()]
        return cls(every=tuple(sorted(every, key=lambda kind: (-kind.share, kind.leaf))), whole_ns=whole, steps=steps)

    @cached_property
    def late(self) -> LeafKind | None:
        """The wait for one rank that is late in several kinds of leaf, none with most of the wait; None without one."""
        sums = Counter[int]()
        rows = [row for kind in self.every for row in kind.rows if row.rank is not None and row.leaf is not Leaf.WAIT]
        for row in rows:
            sums[row.rank or 0] += row.total_ns
        if not sums:
            return None
        rank, ns = max(sums.items(), key=lambda item: (item[1], -item[0]))
        own = [replace(row, what="", curable_ns=row.total_ns) for row in rows if row.rank == rank]
        by_leaf = Counter[Leaf]()
        for row in own:
            by_leaf[row.leaf] += row.total_ns
        if max(by_leaf.values()) >= MOSTLY * ns:
            return None
        return _kind(Leaf.WAIT, tuple(own), self.whole_ns)

    @property
    def competing(self) -> tuple[LeafKind, ...]:
        """Kinds that may become the headline: all kinds, and last the wait for a rank that is late in several kinds."""
        return self.every if self.late is None else (*self.every, self.late)

    def explained(self, finding: Loss) -> tuple[LeafKind, ...]:
        """The kinds that a finding explains, the longest first."""
        late = finding.awaited
        return tuple(
            kind for kind in self.competing
            if (kind.leaf in finding.explains or (late and kind.rank in late)) and _on_its_ranks(finding, kind)
        )  # fmt: skip

    def answers(self, finding: Loss, kind: LeafKind, share: float) -> bool:
        """Whether a finding explains a kind, and costs enough to be the cause of this share of the steps."""
        return kind in self.explained(finding) and finding.cost_ns >= PART * share * self.step_ns

    def placed(self, finding: Loss) -> Loss:
        """A finding about waiting for a rank, about the leaf in which that rank spends most beyond the others.

        Where the path of waits leads to the rank, the tree has that leaf in place of the wait.
        """
        sums = Counter[Leaf]()
        for row in (row for kind in self.every for row in kind.rows):
            if row.rank in finding.awaited and row.leaf is not Leaf.WAIT:
                sums[row.leaf] += row.total_ns
        return replace(finding, about=max(sums, key=lambda leaf: (sums[leaf], leaf))) if sums else finding

    def claim(self, finding: Loss, step_ns: int) -> float:
        """The share of the steps that a finding stands for: the possible gain of its leaf, if it explains the leaf.

        A finding about device work or a risk stands for the expected gain of its own fix, and so does a finding that
        others explain. Device work in which a rank spends more than the others counts like a leaf of the host.
        """
        own, cost = expected_ns(finding) / max(step_ns, 1), finding.cost_ns / max(step_ns, 1)
        if isinstance(finding.about, Risk) or finding.explained_by or not self.every:
            return own
        kinds = self.explained(finding)
        claims = [
            kind.curable for kind in kinds
            if (kind.leaf not in WORK or kind.rank is not None) and cost >= PART * kind.share
        ]  # fmt: skip
        return max([*claims, min(own, sum(kind.share for kind in kinds))])

    def without_profiler(self, step: Unprofiled | None) -> LeafKinds:
        """The kinds, with less to gain from dispatch: much of it may be the profiler's time for each call.

        The possible gain is the middle of two cases. In one, all that the profiler added is dispatch. In the other, the
        profiler lengthened dispatch like the rest. Without a known `step` the kinds stay as they are.
        """
        if step is None or step.captured_ns <= step.step_ns:
            return self
        added = (step.captured_ns - step.step_ns) / step.captured_ns
        every = (_less(kind, added) if kind.leaf is Leaf.DISPATCH else kind for kind in self.every)
        return replace(self, every=tuple(every))

    def counting(self, findings: Iterable[Loss], step_ns: int) -> LeafKinds:
        """The kinds, with the device work that findings count as needless added to the possible gain."""
        needless: dict[Leaf, tuple[float, float]] = {}
        for one in findings:
            for kind in self.explained(one)[:1]:
                gain, most = (min(ns / max(step_ns, 1), kind.share) for ns in (expected_ns(one), one.gain.high_ns))
                needless[kind.leaf] = max(needless.get(kind.leaf, (0.0, 0.0)), (gain, most))
        every = (_needless(kind, *needless.get(kind.leaf, (0.0, 0.0))) for kind in self.every)
        return replace(self, every=tuple(every))


def _needless(kind: LeafKind, gain: float, most: float) -> LeafKind:
    """The kind with a possible gain of at least `gain`, up to `most`, if it is device work; as shares of the step."""
    if kind.leaf not in WORK or gain <= kind.curable:
        return kind
    return replace(kind, curable=gain, most=max(gain, most))


def _less(kind: LeafKind, added: float) -> LeafKind:
    """The kind with less to gain: the profiler may have added up to the share `added` of the captured step to it."""
    least = max(0.0, kind.curable - added) / (1 - added)
    return replace(kind, curable=min(kind.curable, (least + kind.curable) / 2))


def _kind(leaf: Leaf, rows: tuple[JobLeaf, ...], whole_ns: int) -> LeafKind:
    ns = sum(row.total_ns for row in rows)
    known = [row for row in rows if row.curable_ns is not None]
    curable = sum(row.curable_ns or 0 for row in known) / whole_ns
    return LeafKind(
        leaf=leaf, rows=rows, share=ns / whole_ns, curable=curable, most=curable,
        unknown=sum(row.total_ns for row in known) < MOSTLY * ns,
    )  # fmt: skip


def _on_its_ranks(finding: Loss, kind: LeafKind) -> bool:
    """Whether the rank of a kind is among the ranks of a finding; a finding of all ranks names none."""
    if kind.rank is None or not finding.ranks:
        return True
    return kind.rank in finding.ranks or any(blame.rank == kind.rank for blame in finding.blames)
