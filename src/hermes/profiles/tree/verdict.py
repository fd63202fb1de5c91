"""Makes the verdict of a report: the kind of leaf with the largest possible gain, or what the steps consist of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from hermes.base.message import Message, Text
from hermes.knowledge.recorders import Recorder
from hermes.model.finding import Loss
from hermes.model.leaf import Leaf, Part
from hermes.model.leaf_time import LeafTime
from hermes.model.limit import Limit
from hermes.model.report import Verdict
from hermes.model.service_measures import Requests
from hermes.model.sum_measures import RecordedSum
from hermes.model.typical_step import JobSteps
from hermes.profiles.tree import messages as say_that
from hermes.profiles.tree.leaf_kinds import MOSTLY, WORTH, LeafKind, LeafKinds
from hermes.profiles.tree.long_steps import LongSteps, long_steps
from hermes.profiles.tree.path_of_waits import Change, WaitPath
from hermes.profiles.tree.start_up import start_up
from hermes.profiles.tree.sums import of_host, of_sums

UNLIKE = Limit(
    value=3.0, unit="times as long as the steps before the capture, or as short", source="docs/evidence/noise.md"
)
QUEUED = Limit(
    value=0.5, unit="of the time of requests", source="the largest part: more than all work on them together"
)
KNOWN = Limit(value=0.1, unit="of the steps", source="docs/tree.md: unknown roofs never hide a loss of a tenth")
_UNEVEN = 0.1
"""The share by which mean step and typical step must differ for both to be shown."""
_NAMED, _SHOWN = 0.3, 3
"""The least share of its kind that an operator needs to be named, and how many kinds a healthy job's headline names."""
_BOUNDS: dict[Part, str] = {"compute": "compute", "communication": "communication", "copy": "copy", "idle": "host"}
_IN_PYTHON = frozenset(
    {Leaf.HOST_OPERATOR, Leaf.DISPATCH, Leaf.SYNCHRONISATION, Leaf.BLOCKING_COPY, Leaf.ALLOCATOR, Leaf.NOT_RECORDED}
)
"""Leaves for which a line of Python says more than an operator."""
_LINE = re.compile(r":\d+ `")


@dataclass(frozen=True, kw_only=True)
class VerdictGrounds:
    """The grounds of a verdict: steps, leaves of ranks and of the job, findings as planned, and the collected ranks.

    `kinds` include the work that `problems` find needless. `expected` is the job's number of ranks; None if unknown.
    `noise` is the share of a step below which a loss does not count. `unprofiled_ns` is the step without its profiler,
    if known. `requests` are the requests that an inference service answered. `path` is the path of waits. `limits` tell
    what limits the work of a kind. `sums` are those of ranks without a timeline. `recorder` is the program that
    recorded the capture, if known; `host`: calls of the host were recorded.
    """

    steps: JobSteps
    times: Sequence[LeafTime]
    kinds: LeafKinds
    problems: tuple[Loss, ...] = ()
    expected: int | None = None
    noise: float = 0.0
    unprofiled_ns: int | None = None
    requests: tuple[Requests, ...] = ()
    path: WaitPath = WaitPath(times={})
    limits: Callable[[LeafKind], tuple[Message, ...]] = lambda _: ()
    sums: tuple[RecordedSum, ...] = ()
    recorder: Recorder | None = None
    host: bool = True

    @cached_property
    def long(self) -> LongSteps | None:
        """The steps that take much longer than the typical step, if there are such steps."""
        return long_steps(self.steps, self.times)

    @property
    def device(self) -> bool:
        """Whether tasks of a device were recorded."""
        return bool(self.steps.devices)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that were collected."""
        return tuple(sorted(self.steps.ranks))


def verdict(given: VerdictGrounds) -> Verdict:
    """The verdict: the kind with the largest possible gain; if no gain exceeds noise, what the steps consist of."""
    slowest = given.steps.slowest
    if slowest is None or not given.kinds.every:
        said = _served(given) or of_sums(given.sums, given.recorder) or say_that.UNKNOWN
        return Verdict(bound="unknown", message=said, rank=None, step=None)
    kind = headline(given)
    top = kind or given.kinds.every[0]
    rank = top.rank if top.rank in given.ranks else _most_of(given, top.leaf, slowest.rank)
    first = next(iter(given.problems), None)
    ends = first.message if first is not None and first.endangers else None
    begun = start_up(given.steps, given.kinds)
    # What costs little of the steps answers neither a large leaf nor a capture that is mostly the start of the job.
    named = max(top.share, begun)
    explained = first is not None and (first.endangers or given.kinds.answers(first, top, named))
    best, most = _best(given), given.kinds.every[0]
    won = best if best.curable >= _worth(given) else None
    said = _made_of(given) if won is None else _said(given, most, won)
    message = say_that.of(
        size=_size(given), start=say_that.start(share=begun) if begun else None, state=_state(given, kind),
        ends=None if ends is None else say_that.ends(what=ends),
        waits=_waits(given, top), said=said, long=_long(given), line=_no_line(given, top) if kind else None,
        unlike=_unlike(given), device=None if given.device else say_that.NO_DEVICE,
    )  # fmt: skip
    return Verdict(
        bound=_BOUNDS.get(top.leaf.part, "host") if given.device else "host", message=message, rank=rank,
        step=slowest.step if rank == slowest.rank else _typical(given, rank), leaf=top.leaf,
        share=top.share, most=most.leaf, most_share=most.share,
        awaited=top.rank if top.rank is not None else _awaited(given),
        fault=first.fault if first is not None and explained else None,
    )  # fmt: skip


def headline(given: VerdictGrounds) -> LeafKind | None:
    """The kind with the largest possible gain; None if no gain is worth a fix.

    If the roof of the largest computation is unknown, it comes before losses of less than a tenth.
    """
    best = _best(given)
    if best.curable < _worth(given) or (given.kinds.every[0].unknown and best.curable < KNOWN.value):
        return None
    return best


def _worth(given: VerdictGrounds) -> float:
    """The least share of the steps that counts as a loss: more than noise, and a tenth always counts."""
    return max(WORTH.value, min(given.noise, KNOWN.value))


def _best(given: VerdictGrounds) -> LeafKind:
    """The kind with the largest possible gain."""
    return max(given.kinds.competing, key=lambda kind: kind.curable)


def _most_of(given: VerdictGrounds, leaf: Leaf, slowest: int) -> int:
    """The rank that has most of a leaf; of ranks with about as much, the slowest rank, else the first."""
    sums = Counter[int]()
    for row in given.times:
        if row.leaf is leaf:
            sums[row.rank] += row.total_ns
    most = max(sums.values(), default=0)
    about = sorted(rank for rank, ns in sums.items() if ns >= (1 - _UNEVEN) * most)
    return slowest if slowest in about or not about else about[0]


def _typical(given: VerdictGrounds, rank: int) -> int | None:
    split = given.steps.typical(rank)
    return split.step if split else None


def _size(given: VerdictGrounds) -> Message:
    """The message part with the number of ranks and steps, and the length of a step."""
    seen = len(given.ranks)
    part = given.expected is not None and given.expected > seen
    ranks = say_that.part_of_ranks(n=seen, expected=given.expected or 0) if part else say_that.ranks(n=seen)
    if not given.steps.marked:
        length = say_that.a_capture(length=given.kinds.whole_ns)
    else:
        mean = given.kinds.step_ns
        typical = _typical_ns(given) or mean
        uneven = abs(mean - typical) > _UNEVEN * typical
        length = say_that.steps(n=given.steps.marked, length=typical, mean=mean if uneven else None)
    return say_that.size(ranks=ranks if seen > 1 or part else None, steps=length)


def _typical_ns(given: VerdictGrounds) -> int:
    """The length of the typical step in ns, as the mean over the ranks."""
    ranks = {row.rank for row in given.times}
    return sum(row.step_ns for row in given.times) // max(len(ranks), 1)


def _state(given: VerdictGrounds, kind: LeafKind | None) -> Message | None:
    """The message part on how idle or busy devices are: of the rank that a kind lies on, else along the path."""
    if not given.device:
        return None
    rank = kind.rank if kind and kind.rank in given.ranks and len(given.ranks) > 1 else None
    if rank is not None:
        rows = [row for row in given.times if row.rank == rank]
        return say_that.idle_on(rank=rank, share=_share(rows, lambda row: row.leaf.part == "idle"))
    idle = sum(one.share for one in given.kinds.every if one.leaf.part == "idle")
    return say_that.idle(share=idle) if idle >= MOSTLY else say_that.busy(share=1 - idle)


def _waits(given: VerdictGrounds, kind: LeafKind) -> Message | None:
    """The message part on how long ranks wait, and for which rank most, if the kind does not say so."""
    if kind.leaf is Leaf.WAIT or kind.rank is not None:
        return None
    share = _share(given.times, lambda row: row.leaf is Leaf.WAIT)
    return say_that.waits(share=share, rank=_awaited(given)) if share >= KNOWN.value else None


def _share(times: Sequence[LeafTime], which: Callable[[LeafTime], bool]) -> float:
    """The share of the steps that the selected rows take."""
    whole = sum(row.total_ns for row in times if row.leaf.part != "outside")
    return sum(row.total_ns for row in times if which(row)) / whole if whole else 0.0


def _awaited(given: VerdictGrounds) -> int | None:
    """The rank for which others wait most of the waiting time; None without such a rank, or if ranks hardly wait."""
    if _share(given.times, lambda row: row.leaf is Leaf.WAIT) < KNOWN.value:
        return None
    sums = Counter[int | None]()
    for row in given.times:
        if row.leaf is Leaf.WAIT:
            sums[row.awaited] += row.total_ns
    rank, ns = max(sums.items(), key=lambda item: item[1], default=(None, 0))
    return rank if ns >= MOSTLY * sum(sums.values()) else None


def _said(given: VerdictGrounds, most: LeafKind, won: LeafKind) -> Message:
    """The message part with the kind that takes most of the time, and the kind with most to win; one if both are one.

    The wait for a rank that is late in several kinds is made of these kinds, and stands alone.
    """
    if won.leaf is most.leaf or won is given.kinds.late:
        return _loss(given, won)
    return say_that.two(most=_loss(given, most), loss=_loss(given, won))


def _loss(given: VerdictGrounds, kind: LeafKind) -> Message:
    """The message part with the kind of leaf, its share of each step, its rank, its place and what limits it."""
    rare = bool(given.steps.marked) and _in_long_steps(given, kind)
    ns = round(kind.share * (given.kinds.whole_ns if rare else given.kinds.step_ns))
    named = "" if kind.leaf is Leaf.NOT_RECORDED else kind.largest("what", _NAMED)
    place = kind.largest("place", MOSTLY)
    change = _change(given, kind)
    return say_that.loss(
        share=kind.share, of=say_that.ALL_STEPS if rare else _whole(given), ns=ns,
        leaf=_leaf(given, kind),
        what=named or None, place=place if place and place != named else None,
        rank=change.first if change else _rank(given, kind), then=None if change is None else _then(change),
        limit=_limits(given, kind) or None,
        curable=say_that.curable(share=kind.most) if 0 < kind.most < (1 - _UNEVEN) * kind.share else None,
        alone=_alone(given, kind),
    )  # fmt: skip


def _whole(given: VerdictGrounds) -> Message:
    return say_that.EACH_STEP if given.steps.marked else say_that.THE_CAPTURE


def _in_long_steps(given: VerdictGrounds, kind: LeafKind) -> bool:
    """Whether most of a kind's time lies in steps that are much longer than the typical step."""
    if given.long is None:
        return False
    rows = [row for row in given.times if row.leaf is kind.leaf and kind.rank in (None, row.rank)]
    return sum(row.long_ns for row in rows) > MOSTLY * sum(row.total_ns for row in rows)


def _long(given: VerdictGrounds) -> Message | None:
    """The message part on long steps, with their numbers if these are few."""
    long = given.long
    if long is None:
        return None
    return say_that.long_steps(
        n=len(long.steps), of=long.marked, which=long.steps if len(long.steps) <= _SHOWN else None,
        rank=long.rank if len(given.ranks) > 1 else None, times=round(long.times, 1), leaf=long.leaf.message,
        extra=long.extra_ns,
    )  # fmt: skip


def _rank(given: VerdictGrounds, kind: LeafKind) -> int | None:
    """The rank on which a kind lies. None for a wait, whose name has the rank, and in a job of one rank."""
    return kind.rank if kind.leaf is not Leaf.WAIT and len(given.ranks) > 1 else None


def _alone(given: VerdictGrounds, kind: LeafKind) -> Message | None:
    """The message part on what curing the named rank alone gives, if another rank is late in the same steps."""
    rank = _rank(given, kind)
    lead = given.path.leads.get(rank) if rank is not None else None
    if rank is None or lead is None:
        return None
    excess = sum(row.total_ns for row in kind.rows if row.rank == rank)
    if lead.ns >= (1 - _UNEVEN) * excess:
        return None
    return say_that.alone(rank=rank, ns=lead.ns // max(given.kinds.steps, 1), second=lead.second)


def _change(given: VerdictGrounds, kind: LeafKind) -> Change | None:
    """The change of the path of waits from one rank to another, if the kind lies on both ranks."""
    change = given.path.change
    if change is None or _rank(given, kind) not in (change.first, change.then):
        return None
    return change if {change.first, change.then} <= {row.rank for row in kind.rows} else None


def _then(change: Change) -> Message:
    """The message part that names the rank to which the path of waits moves."""
    if change.step is not None:
        return say_that.from_step(step=change.step, rank=change.then)
    return say_that.after(ns=change.after_ns, rank=change.then)


def _leaf(given: VerdictGrounds, kind: LeafKind) -> Text:
    """The name of the leaf: a wait names the awaited rank; unrecorded time names the call that follows it."""
    if kind.leaf is Leaf.WAIT and kind.rank is not None:
        absent = None if kind.rank in given.ranks else say_that.ABSENT
        return say_that.wait_for(rank=kind.rank, absent=absent)
    if kind.leaf is Leaf.NOT_RECORDED and (following := kind.largest("what", _NAMED)):
        return say_that.not_recorded(following=following)
    return kind.leaf.message


def _made_of(given: VerdictGrounds) -> Message:
    """The message part with the largest kinds of the steps, and what limits the largest."""
    kinds = given.kinds.every[:_SHOWN]
    parts = [
        say_that.part(share=kind.share, leaf=kind.leaf.message, what=kind.largest("what", _NAMED) or None)
        for kind in kinds if kind.share >= WORTH.value
    ]  # fmt: skip
    top = kinds[0]
    return say_that.made_of(parts=parts, place=top.largest("place", MOSTLY) or None, limit=_limits(given, top) or None)


def _limits(given: VerdictGrounds, kind: LeafKind) -> tuple[Message, ...]:
    """What limits the work of a device, else how close it is to what the chip attains; empty for other kinds."""
    if kind.leaf.part != "compute" or not given.device:
        return ()
    told = given.limits(kind)
    if told or kind.rank is not None:
        return told
    if kind.unknown:
        return (say_that.NO_ROOF,)
    known = [row for row in kind.rows if row.curable_ns is not None]
    lost = sum(row.curable_ns or 0 for row in known)
    return (say_that.attained(share=1 - lost / sum(row.total_ns for row in known)),)


def _no_line(given: VerdictGrounds, kind: LeafKind) -> Message | None:
    """The hint that the host or no Python stack was recorded, if a call or a line of code would say more; else None."""
    if not given.host:
        how = given.recorder.host if given.recorder else None
        return say_that.no_host(how=how, sums=of_host(given.sums)) if kind.leaf is Leaf.NOT_RECORDED else None
    if not any(row.what for row in kind.rows):
        return None
    if kind.leaf not in _IN_PYTHON or any(_LINE.search(row.place) or _LINE.search(row.what) for row in given.times):
        return None
    return say_that.NO_LINE


def _unlike(given: VerdictGrounds) -> Message | None:
    """The warning that captured steps are so unlike the steps before the capture that losses may differ; else None."""
    mean = given.steps.length_ns
    if given.unprofiled_ns is None or 1 / UNLIKE.value < mean / given.unprofiled_ns < UNLIKE.value:
        return None
    return say_that.UNLIKE


def _served(given: VerdictGrounds) -> Message | None:
    """The message on where requests to a service spend their time, for the rank with most requests; None if unknown."""
    row = max(given.requests, key=lambda one: one.requests, default=None)
    if row is None or row.took_ns is None:
        return None
    parts: Message | None = None
    if row.queue_share is not None and row.queue_share > QUEUED.value:
        parts = say_that.queues(share=row.queue_share)
    elif row.first_token_ns is not None and row.queue_share is not None:
        parts = say_that.first_token(first=row.first_token_ns / row.took_ns, queues=row.queue_share)
    return say_that.requests(took=row.took_ns, parts=parts)
