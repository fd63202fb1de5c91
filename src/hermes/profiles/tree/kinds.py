"""The leaves of a job by kind: which has the most that can be won, and how much of it a finding explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.model.finding import Loss
from hermes.model.leaf import Leaf, Risk
from hermes.model.leaf_time import JobLeaf
from hermes.model.limit import Limit
from hermes.profiles.tree.spread import spread_of

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
    def rank(self) -> int | None:
        """The rank for which the others wait while it is in this leaf, where that is much of what can be won."""
        sums = Counter[int]()
        for row in self.rows:
            if row.rank is not None:
                sums[row.rank] += row.curable_ns or 0
        rank, ns = max(sums.items(), key=lambda item: item[1], default=(None, 0))
        return rank if ns and ns >= LATE * sum(row.curable_ns or 0 for row in self.rows) else None


class Kinds:
    """The leaves of a job, each kind as one, the longest first."""

    def __init__(self, rows: Iterable[JobLeaf]) -> None:
        found: dict[Leaf, list[JobLeaf]] = {}
        for row in rows:
            if row.leaf.part != "outside" and row.total_ns:
                found.setdefault(row.leaf, []).append(row)
        self.whole_ns = sum(row.total_ns for kind in found.values() for row in kind)
        made = [self._kind(leaf, tuple(own)) for leaf, own in found.items()]
        self.every: tuple[Kind, ...] = tuple(sorted(made, key=lambda kind: (-kind.share, kind.leaf)))

    def _kind(self, leaf: Leaf, rows: tuple[JobLeaf, ...]) -> Kind:
        ns = sum(row.total_ns for row in rows)
        known = [row for row in rows if row.curable_ns is not None]
        return Kind(
            leaf=leaf, rows=rows, share=ns / self.whole_ns,
            curable=sum(row.curable_ns or 0 for row in known) / self.whole_ns,
            unknown=sum(row.total_ns for row in known) < MOSTLY * ns,
        )  # fmt: skip

    def explained(self, finding: Loss) -> tuple[Kind, ...]:
        """The kinds that a finding explains, the longest first."""
        if isinstance(finding.about, Risk):
            return ()
        leaves = finding.fault.explains if finding.fault else frozenset({finding.about})
        late = {blame.rank for blame in finding.blames if blame.is_rank} if finding.about is Leaf.WAIT else set()
        return tuple(
            kind for kind in self.every
            if (kind.leaf in leaves or (late and kind.rank in late)) and _on_its_ranks(finding, kind)
        )  # fmt: skip

    def claim(self, finding: Loss, step_ns: int) -> float:
        """The part of the steps that a finding stands for: all that can be won of its leaf, if it explains the leaf.

        A finding about work of the device, or about a risk, stands for what its own cure is expected to give; so does
        one that others explain. Work for which other ranks wait is a leaf like those of the host.
        """
        own, cost = _expected(finding, step_ns), finding.cost_ns / max(step_ns, 1)
        if isinstance(finding.about, Risk) or finding.explained_by or not self.every:
            return own
        kinds = self.explained(finding)
        claims = [
            kind.curable for kind in kinds
            if (kind.leaf not in WORK or kind.rank is not None) and cost >= PART * kind.share
        ]  # fmt: skip
        return max([*claims, min(own, sum(kind.share for kind in kinds))])

    def curable(self, kind: Kind, findings: Sequence[Loss], step_ns: int) -> float:
        """What can be won of a kind: by its roof, or as findings count work that need not be done."""
        if kind.leaf not in WORK:
            return kind.curable
        needless = [
            min(_expected(one, step_ns), kind.share)
            for one in findings if next(iter(self.explained(one)), None) is kind
        ]  # fmt: skip
        return max([kind.curable, *needless])


def _expected(finding: Loss, step_ns: int) -> float:
    """What a cure is expected to give, as such cures gave it; a part of the step."""
    return finding.gain.expected_ns * spread_of(finding.replay).median / max(step_ns, 1)


def _on_its_ranks(finding: Loss, kind: Kind) -> bool:
    """Whether the rank of a kind is one of those that a finding is about; a finding of all ranks names none."""
    if kind.rank is None or not finding.ranks:
        return True
    return kind.rank in finding.ranks or any(blame.rank == kind.rank for blame in finding.blames)


class LeafRoom:
    """How much a finding can cost at most: what its ranks spend in the leaves that it explains."""

    def __init__(self, spent: Mapping[int, Mapping[Leaf, int]]) -> None:
        self._spent = spent

    def most_ns(self, finding: Loss) -> int | None:
        """Nanoseconds of a step of the rank with most of them; None for a wait, a risk, and without a device."""
        if isinstance(finding.about, Risk) or finding.about is Leaf.WAIT or finding.endangers:
            return None
        leaves = finding.fault.explains if finding.fault else frozenset({finding.about})
        own = [self._spent[rank] for rank in finding.ranks or self._spent if rank in self._spent]
        return max((sum(sums.get(leaf, 0) for leaf in leaves) for sums in own), default=None)

    def within(self, finding: Loss) -> Loss:
        """The finding with a cost and a gain that its leaves have room for."""
        most = self.most_ns(finding)
        if most is None or finding.cost_ns <= most:
            return finding
        gain = replace(
            finding.gain, low_ns=min(finding.gain.low_ns, most), high_ns=min(finding.gain.high_ns, most),
            middle_ns=None if finding.gain.middle_ns is None else min(finding.gain.middle_ns, most),
        )  # fmt: skip
        return replace(finding, cost_ns=most, share=finding.share * most / finding.cost_ns, gain=gain)
