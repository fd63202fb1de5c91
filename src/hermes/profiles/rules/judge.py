"""Runs the rules, and says in one sentence what bounds the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from hermes.base.message import Message
from hermes.model.code_measures import CalledAgain, CodeLine
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Loss
from hermes.model.job import JobMeasures
from hermes.model.limit import Limit
from hermes.model.measures import StepSplit
from hermes.model.path_measures import StepPath
from hermes.model.report import Verdict
from hermes.model.service_measures import Requests
from hermes.model.typical_step import JobSteps
from hermes.profiles.rules import ALL
from hermes.profiles.rules import verdict_messages as say_that
from hermes.profiles.rules._code import beside_training
from hermes.profiles.rules._moments import moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What a judgement rests on: the steps, the path of the slowest, the problems in order, and who was profiled.

    `expected` is how many ranks the job has, None where that is not known; `noise_ns` is what does not count.
    `unprofiled_ns` is the step that gains are meant for, without its profiler, where that is known. `unrecorded_ns`
    is time of the step in Python that was not recorded, where that is much. `untrusted` are findings of preview rules,
    `lines` the functions of the user's in which the time is spent, `again` what they call many times in a row.
    `requests` are those that an inference service answered.
    """

    splits: tuple[StepSplit, ...]
    path: StepPath | None = None
    problems: tuple[Loss, ...] = ()
    expected: int | None = None
    noise_ns: int = 0
    unprofiled_ns: int | None = None
    unrecorded_ns: int = 0
    untrusted: tuple[Loss, ...] = ()
    lines: tuple[CodeLine, ...] = ()
    again: tuple[CalledAgain, ...] = ()
    requests: tuple[Requests, ...] = ()

    @property
    def ranks(self) -> frozenset[int]:
        """The ranks that were profiled."""
        return frozenset(split.rank for split in self.splits)


_DOES = {
    "communication": say_that.communication, "compute": say_that.compute, "host": say_that.host, "copy": say_that.copy,
}  # fmt: skip
"""What the device does most, by what bounds the step."""
NOTABLE = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
"""From here on a wait, what a rule in preview sees, or a function that trains nothing is worth the sentence: the limit
of COM002."""
_ALIKE = 3.0
"""Captured steps that take so many times as long as those before, or as little, are not like them."""
# A change that gives less than this part of the step is not what the step is about: what the device does comes first.
_LITTLE = 0.1
_SAME = 0.005
_OFTEN = 16
"""So many calls a step of a function are a loop, as of what a function calls in a row."""
MUCH = Limit(value=0.4, unit="of step in a function, with its operators", source="docs/evidence/host-limits.md")
MOSTLY = Limit(value=0.5, unit="of a function's own time is one operator", source="docs/evidence/host-limits.md")
QUEUED = Limit(
    value=0.5, unit="of the time of requests", source="the largest part: more than all work on them together"
)
# What one rank loses is lost to all where the step gains this part of it.
_FELT = 0.9


def judge(given: Grounds) -> Verdict:
    """What the step is lost to: the rank that is waited for and unknown, else the first problem, else nothing."""
    split = JobSteps(given.splits).slowest
    if split is None or split.compute_ns is None:
        return _without_device(given)
    parts = {
        "communication": split.exposed_comm_ns or 0,
        "compute": split.compute_ns or 0,
        "host": split.free_ns or 0,
        "copy": split.copy_exposed_ns or 0,
    }
    bound = max(parts, key=lambda name: parts[name])
    does = _DOES[bound](share=parts[bound] / split.window_ns)
    said = _absent(given, split) or _untold(given, split) or _unrecorded(given, split)
    problem = None if said else _problem(given, split.window_ns)
    preview = _not_yet(given, split.window_ns)
    beside: Message | None = None
    if problem is not None:
        said, beside = (does, problem) if _is_little(given, split.window_ns) else (problem, None)
    elif said is None:
        said, beside = does, None if preview else _nothing(given)
    message = say_that.of(
        subject=_subject(split), length=split.window_ns, said=said, beside=beside, preview=preview,
        partly=_partly(given),
    )  # fmt: skip
    return Verdict(bound=bound, message=message, rank=split.rank, step=split.step, fault=_fault(given, problem))


def _fault(given: Grounds, problem: Message | None) -> Fault | None:
    """What the verdict is about, where it tells of the first problem."""
    return given.problems[0].fault if problem is not None else None


def _served(given: Grounds) -> Message | None:
    """Where the requests to a service spend their time, of the rank that answered most; None where nothing tells."""
    row = max(given.requests, key=lambda one: one.requests, default=None)
    if row is None or row.took_ns is None:
        return None
    parts: Message | None = None
    if row.queue_share is not None and row.queue_share > QUEUED.value:
        parts = say_that.queues(share=row.queue_share)
    elif row.first_token_ns is not None and row.queue_share is not None:
        parts = say_that.first_token(first=row.first_token_ns / row.took_ns, queues=row.queue_share)
    return say_that.requests(took=row.took_ns, parts=parts)


def _subject(split: StepSplit) -> Message:
    return say_that.CAPTURE if split.window_kind == "capture" else say_that.STEP


def _without_device(given: Grounds) -> Verdict:
    """The first problem of a job that computes on the processor, or whose device was not recorded."""
    split = JobSteps(given.splits).slowest
    if split is None:
        return Verdict(bound="unknown", rank=None, step=None, message=_served(given) or say_that.UNKNOWN)
    mean = JobSteps(given.splits).length_ns
    length = given.unprofiled_ns or mean
    said, beside = _unrecorded(given, split), None
    problem = None if said else _problem(given, length)
    said = said or problem
    if said and _is_little(given, length) and _most(given, split, mean):
        # What a rule gives that is little is not what the step is about.
        said, beside = _spent(given, split, mean), said
    if said is None:
        said = _spent(given, split, mean) if _not_yet(given, length) else _found_nothing(given, split, mean)
    unlike = bool(given.unprofiled_ns) and not 1 / _ALIKE < mean / length < _ALIKE
    message = say_that.of(
        subject=_subject(split), length=length, captured=mean if given.unprofiled_ns else None, said=said,
        beside=beside, preview=_not_yet(given, length, (said, beside)), unlike=say_that.UNLIKE if unlike else None,
        device=say_that.NO_DEVICE, partly=_partly(given),
    )  # fmt: skip
    return Verdict(
        bound="host", message=message, rank=split.rank, step=split.step, fault=_fault(given, problem)
    )  # fmt: skip


def _most(given: Grounds, split: StepSplit, step_ns: int) -> CodeLine | None:
    """The function of the user's that takes most, where that is much."""
    own = [row for row in given.lines if row.rank == split.rank and row.place]
    most = max(own, key=lambda row: row.worked_ns, default=None)
    return most if most and step_ns and most.worked_ns >= MUCH.value * step_ns else None


def _spent(given: Grounds, split: StepSplit, step_ns: int) -> Message:
    """Where the time of a step is spent that no rule finds a loss in: what takes it may still be worth another way."""
    most = _most(given, split, step_ns)
    if most is None:
        return say_that.HOST_WORKS
    return say_that.spent(share=min(most.worked_ns / step_ns, 1.0), line=most.said)


def _found_nothing(given: Grounds, split: StepSplit, step_ns: int) -> Message:
    """Where the time is spent, and what most of it is: that a rule found nothing says little beside it."""
    most, idle = _most(given, split, step_ns), _beside(given, split)
    what = next(_what(given, most), None) if most else None
    if idle is not None and idle is not most and idle.worked_ns >= NOTABLE.value * step_ns > 0:
        what = say_that.trains_nothing(share=min(idle.worked_ns / step_ns, 1.0), line=idle.said)
    return say_that.spent_on(spent=_spent(given, split, step_ns), what=what or _nothing(given))


def _beside(given: Grounds, split: StepSplit) -> CodeLine | None:
    """Of the functions of the user's that train nothing the one that takes most."""
    own = [row for row in given.lines if row.rank == split.rank and row.place and beside_training(row)]
    return max(own, key=lambda row: row.worked_ns, default=None)


def _what(given: Grounds, most: CodeLine) -> Iterator[Message]:
    """What a function does that takes much: the call that it repeats, and the operator that takes most of it."""
    inner = {(one.rank, one.line): one for one in reversed(given.again)}
    loop = inner.get((most.rank, most.said))
    if loop is not None:
        yield say_that.calls_in_a_row(what=loop.what, n=round(loop.times))
    elif (most.calls or 0) >= _OFTEN:
        yield say_that.called_often(n=round(most.calls or 0))
    name, ns = most.names[0] if most.names else ("", 0)
    if ns >= MOSTLY.value * max(1, most.own_ns) and "::" in name:
        yield say_that.mostly(share=ns / max(1, most.own_ns), operator=name)


def _absent(given: Grounds, split: StepSplit) -> Message | None:
    """The wait for a rank that was not profiled, where that is most of what can be said."""
    waits: dict[str, int] = {}
    for part in given.path.parts if given.path else ():
        if part.component == "wait" and part.reason:
            waits[part.reason] = waits.get(part.reason, 0) + part.ns
    if not waits:
        return None
    peer, ns = max(waits.items(), key=lambda item: (item[1], item[0]))
    blaming = [one for one in given.problems if any(blame == peer for blame in one.blames)]
    if blaming and blaming[0] is not given.problems[0]:
        # It is a problem like others, and another comes before it.
        return None
    # Other findings would have to give more to be the answer.
    others = [one.gain.expected_ns for one in given.problems if not any(blame == peer for blame in one.blames)]
    unseen = peer not in {Blame.of_rank(rank) for rank in given.ranks}
    if not unseen or ns < max([NOTABLE.value * split.window_ns, *others]):
        return None
    rank = next((one for one in range(given.expected or 0) if Blame.of_rank(one) == peer), None)
    who = say_that.named(name=peer) if rank is None else say_that.one_rank(rank=rank)
    return say_that.unprofiled_rank(share=ns / split.window_ns, who=who)


def _untold(given: Grounds, split: StepSplit) -> Message | None:
    """Communication that may be waiting, where that is more than anything that is known could give."""
    first = given.problems[0] if given.problems else None
    if first is None or first.fault is not Fault.EXPOSED_COMMUNICATION or first.replay or first.explained_by:
        return None
    if first.cost_ns <= max((one.gain.expected_ns for one in given.problems[1:]), default=0):
        return None
    return say_that.waits_unknown(share=(split.exposed_comm_ns or 0) / split.window_ns)


def _unrecorded(given: Grounds, split: StepSplit) -> Message | None:
    """Python that nobody recorded, where that is more than anything that is known could give."""
    known = max((one.gain.expected_ns for one in given.problems), default=0)
    if given.unrecorded_ns <= known or any(one.endangers for one in given.problems[:1]):
        return None
    return say_that.python_unknown(share=given.unrecorded_ns / split.window_ns)


def _problem(given: Grounds, length_ns: int) -> Message | None:
    """The first problem: how much of the step it takes, where, and who waits for it."""
    if not given.problems:
        return None
    first = given.problems[0]
    gain = first.gain
    if first.endangers:
        return say_that.endangered(what=first.message)
    share = _share(first, length_ns)
    if first.fault is Fault.STRAGGLER:
        return say_that.waiting(share=share, who=_who(first.blames[0]))
    waiting = any(one.fault is Fault.STRAGGLER and first.code in one.explained_by for one in given.problems)
    where = _where(first, given)
    # Without an effect on the step, no other rank's wait is laid at it.
    felt = where is not None and gain.replayed and gain.low_ns >= _FELT * first.cost_ns and _others_wait(given)
    return say_that.lost(
        share=share, fault=_words(first), where=where, line=first.lines[0] if first.lines else None,
        waited=say_that.OTHERS_WAIT if waiting or felt else None,
    )  # fmt: skip


def _who(blame: Blame) -> Message:
    """Whom a problem is laid at."""
    if blame.is_rank and blame.rank is not None:
        return say_that.one_rank(rank=blame.rank)
    return say_that.named(name=blame)


def _share(first: Loss, length_ns: int) -> Message:
    """The part of the step that it takes: as replayed, else from the least to the most where the least is much."""
    low, high = (min(ns / length_ns, 1.0) for ns in (first.gain.low_ns, first.gain.high_ns))
    if first.gain.replayed and low:
        return say_that.exactly(share=low)
    return say_that.between(low=low, high=high) if _LITTLE <= low < high - _SAME else say_that.up_to(share=high)


def _others_wait(given: Grounds) -> bool:
    return any((split.exposed_comm_ns or 0) > 0 for split in given.splits)


def _is_little(given: Grounds, length_ns: int) -> bool:
    """Whether the first problem is known, and gives little of the step."""
    first = next(iter(given.problems), None)
    return first is not None and not first.endangers and first.gain.expected_ns < _LITTLE * length_ns


def _where(finding: Loss, given: Grounds) -> Message | None:
    ranks = sorted({*finding.ranks} & given.ranks)
    if not ranks or len(ranks) == len(given.ranks):
        return None
    if len(ranks) == 1:
        return say_that.one_rank(rank=ranks[0])
    return say_that.some_ranks(n=len(ranks), every=len(given.ranks))


def _words(loss: Loss) -> Message:
    """What time is lost to."""
    return (loss.fault or loss.about).message


def _nothing(given: Grounds) -> Message:
    return say_that.below_noise(noise=given.noise_ns) if given.noise_ns else say_that.NO_RULE


def _not_yet(given: Grounds, length_ns: int, said: tuple[Message | None, ...] = ()) -> Message | None:
    """What a rule sees that is not trusted yet, where it counts the mistake itself and nothing known is larger.

    Where is left out if it was `said` before.
    """
    first = next((one for one in given.untrusted if one.direct and one.gain.high_ns >= NOTABLE.value * length_ns), None)
    known = max((one.gain.expected_ns for one in given.problems), default=0)
    if first is None or first.gain.expected_ns <= known:
        return None
    line = first.lines[0] if first.lines and not any(_names(one, first.lines[0]) for one in said) else None
    return say_that.preview(share=_share(first, length_ns), fault=_words(first), line=line)


def _names(message: Message | None, line: str) -> bool:
    """Whether a message names a line of code, itself or in what stands in it."""
    return message is not None and any(
        _names(one.value, line) if isinstance(one.value, Message) else one.value == line for one in message.arguments
    )


def _partly(given: Grounds) -> Message | None:
    """No sentence about a part of a job is about the job."""
    if given.expected is None or given.expected <= len(given.ranks):
        return None
    return say_that.partly(n=len(given.ranks), expected=given.expected)


def find_all(measures: JobMeasures) -> tuple[Loss, ...]:
    """All findings of all rules, in order, each with the moments that show it."""
    steps = measures.job.steps
    every = (finding for rule in ALL for finding in rule.find(measures))
    return in_order(replace(finding, moments=moments(finding, steps)) for finding in every)


def in_order(findings: Iterable[Loss]) -> tuple[Loss, ...]:
    """By the most they could give back, then by what they cost; the order that replays then change."""
    return tuple(
        sorted(
            findings,
            key=lambda one: (-one.gain.low_ns, -one.gain.high_ns, -one.cost_ns, one.code, tuple(map(str, one.blames))),
        )
    )
