"""The leaves of a job by kind: which has the most that can be won, and how much of it a finding explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from hermes.model.finding import Loss
from hermes.model.leaf import Leaf, Risk
from hermes.model.leaf_time import JobLeaf
from hermes.model.limit import Limit
from hermes.profiles.tree.spread import expected_ns

WORTH = Limit(
    value=0.03, unit="of the steps", source="two runs of a healthy job differ by that: docs/evidence/noise.md"
)
"""A leaf of which less can be won than this, or than the noise of the steps, is no loss."""
MOSTLY = 0.5
"""An operator or a place is that of a kind which has this part of it."""
LATE = 0.4
"""So is a rank that others wait for. Its own time in the leaf is not in that part: half of the leaf of two ranks."""
WORK = frozenset(leaf for leaf in Leaf if leaf.part == "compute") - {Leaf.AI_CPU} | {Leaf.TRANSFER}
"""Work of the device: only a roof, or what a rule counts, says how much of it need not be."""
PART = 0.1
"""A finding that costs less than this part of a leaf does not explain the leaf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """All rows of one leaf: their part of all steps, and what can be won of them as far as that is known.

    `unknown`: of most of it nobody knows what can be won.
    """

    leaf: Leaf
    rows: tuple[JobLeaf, ...]
    share: float
    curable: float
    unknown: bool

    @property
    def total_ns(self) -> int:
        """How long it takes in all steps."""
        return sum(row.total_ns for row in self.rows)

    def largest(self, name: Literal["what", "place"], least: float) -> str:
        """The operator or the place that has most of it; empty where that is less than this part."""
        sums = Counter[str]()
        for row in self.rows:
            sums[getattr(row, name)] += row.total_ns
        said, ns = sums.most_common(1)[0]
        return said if ns >= least * self.total_ns else ""

    @property
    def rank(self) -> int | None:
        """The rank for which the others wait while it is in this leaf, where that is much of what can be won."""
        sums = Counter[int]()
        for row in self.rows:
            if row.rank is not None:
                sums[row.rank] += row.curable_ns or 0
        rank, ns = max(sums.items(), key=lambda item: item[1], default=(None, 0))
        return rank if ns and ns >= LATE * sum(row.curable_ns or 0 for row in self.rows) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """The leaves of a job, each kind as one, the longest first; together they take `whole_ns`."""

    every: tuple[Kind, ...]
    whole_ns: int

    @classmethod
    def of(cls, rows: Iterable[JobLeaf]) -> Kinds:
        """The kinds of the rows of a tree, but for what lies outside of the steps."""
        found: dict[Leaf, list[JobLeaf]] = {}
        for row in rows:
            if row.leaf.part != "outside" and row.total_ns:
                found.setdefault(row.leaf, []).append(row)
        whole = sum(row.total_ns for kind in found.values() for row in kind)
        every = [_kind(leaf, tuple(own), whole) for leaf, own in found.items()]
        return cls(every=tuple(sorted(every, key=lambda kind: (-kind.share, kind.leaf))), whole_ns=whole)

    def explained(self, finding: Loss) -> tuple[Kind, ...]:
        """The kinds that a finding explains, the longest first."""
        late = {blame.rank for blame in finding.blames if blame.is_rank} if finding.about is Leaf.WAIT else set()
        return tuple(
            kind for kind in self.every
            if (kind.leaf in finding.explains or (late and kind.rank in late)) and _on_its_ranks(finding, kind)
        )  # fmt: skip

    def claim(self, finding: Loss, step_ns: int) -> float:
        """The part of the steps that a finding stands for: all that can be won of its leaf, if it explains the leaf.

        A finding about work of the device, or about a risk, stands for what its own cure is expected to give; so does
        one that others explain. Work for which other ranks wait is a leaf like those of the host.
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

    def counting(self, findings: Iterable[Loss], step_ns: int) -> Kinds:
        """The kinds, where of work of the device can be won, too, what findings count as work that need not be done."""
        needless: dict[Leaf, float] = {}
        for one in findings:
            for kind in self.explained(one)[:1]:
                gain = min(expected_ns(one) / max(step_ns, 1), kind.share)
                needless[kind.leaf] = max(needless.get(kind.leaf, 0.0), gain)
        every = (
            replace(kind, curable=max(kind.curable, needless.get(kind.leaf, 0.0))) if kind.leaf in WORK else kind
            for kind in self.every
        )
        return replace(self, every=tuple(every))


def _kind(leaf: Leaf, rows: tuple[JobLeaf, ...], whole_ns: int) -> Kind:
    ns = sum(row.total_ns for row in rows)
    known = [row for row in rows if row.curable_ns is not None]
    return Kind(
        leaf=leaf, rows=rows, share=ns / whole_ns, curable=sum(row.curable_ns or 0 for row in known) / whole_ns,
        unknown=sum(row.total_ns for row in known) < MOSTLY * ns,
    )  # fmt: skip


def _on_its_ranks(finding: Loss, kind: Kind) -> bool:
    """Whether the rank of a kind is one of those that a finding is about; a finding of all ranks names none."""
    if kind.rank is None or not finding.ranks:
        return True
    return kind.rank in finding.ranks or any(blame.rank == kind.rank for blame in finding.blames)
