"""What a rule is made of: a code, a page (its module's docstring), thresholds with sources, and a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from hermes.analyze.breakdown import median_split, middle_split
from hermes.analyze.comm_measures import Communication
from hermes.analyze.compute_measures import NO_COMPUTE, Compute
from hermes.analyze.host_measures import HostSide
from hermes.analyze.measures import Held, PeerWait, StepFree, StepPath, StepSplit
from hermes.analyze.structure_measures import Structure
from hermes.diagnose.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Everything a rule may look at; each part may be empty.

    `held` is over all steps of a rank; `steps_of_rank` says how many those are. `vendors` and `inputs` are by rank:
    `ascend`, `nvidia`, `amd`, `cpu`, and the file.
    """

    splits: tuple[StepSplit, ...]
    waits: tuple[PeerWait, ...]
    steps_of_rank: Mapping[int, int]
    exposed_by_op: Mapping[int, Mapping[str, int]]
    held: tuple[Held, ...]
    inputs: Mapping[int, str]
    vendors: Mapping[int, str] = field(default_factory=dict)
    host: HostSide = field(default_factory=HostSide)
    compute: Compute = NO_COMPUTE
    communication: Communication = field(default_factory=Communication)
    structure: Structure = field(default_factory=Structure)
    paths: tuple[StepPath, ...] = ()
    free: tuple[StepFree, ...] = ()
    certainty: float
    """1 for a whole input, less where something was missing."""

    def waited_per_step(self, wait: PeerWait) -> int:
        """Nanoseconds per step that a rank waited for a peer, at least.

        Waits on several planes run at once: then the longest is a lower bound, and divided by the steps it stays one.
        """
        mean = wait.total_ns // max(1, self.steps_of_rank.get(wait.rank, 1))
        return mean if wait.disjoint else min(wait.longest_ns, mean)

    def median_of(self, rank: int) -> StepSplit | None:
        """The step of median window of a rank, of those that a device measured where it did; None without steps."""
        own = [split for split in self.splits if split.rank == rank]
        return (median_split(own) or middle_split(own)) if own else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A number that decides, with its unit and where it comes from."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: its code, the text of its page, what finds, and the causes of the case base that it may point to."""

    code: str
    page: str
    find: Callable[[Measures], Iterator[Finding]]
    cases: tuple[str, ...] = ()


def by_share(threshold: Threshold, share: float) -> bool:
    """Whether a share of the window is beyond the threshold."""
    return share > threshold.value
