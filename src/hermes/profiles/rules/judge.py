"""Runs the rules, and says in one sentence what bounds the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from hermes.base.say import say
from hermes.model.code_measures import CalledAgain, CodeLine
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Loss
from hermes.model.job import JobMeasures
from hermes.model.limit import Limit
from hermes.model.measures import StepSplit
from hermes.model.path_measures import StepPath
from hermes.model.service_measures import Requests
from hermes.model.typical_step import JobSteps
from hermes.profiles.rules import ALL
from hermes.profiles.rules._code import beside_training
from hermes.profiles.rules._moments import moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What bounds the step, in a sentence, and on which rank and step.

    `bound` is `compute`, `communication`, `copy`, `host` or `unknown`.
    """

    bound: str
    sentence: str
    rank: int | None
    step: int | None


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


_WORDS = {
    "communication": "{share:.0%} is communication that nothing hides",
    "compute": "the device computes for {share:.0%} of it",
    "host": "the device has nothing to do for {share:.0%} of it",
    "copy": "{share:.0%} is copying that nothing hides",
}
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


def judge(given: Grounds) -> Judgement:
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
    does = _WORDS[bound].format(share=parts[bound] / split.window_ns)
    said = _absent(given, split) or _untold(given, split) or _unrecorded(given, split)
    if said is None and (problem := _problem(given, split.window_ns)):
        said = f"{does}; {problem}" if _is_little(given, split.window_ns) else problem
    said = said or does + ("" if _not_yet(given, split.window_ns) else _nothing(given))
    said += _not_yet(given, split.window_ns)
    return Judgement(
        bound=bound,
        sentence=f"{_subject(split)} {milliseconds(split.window_ns)}: {said}{_coverage(given)}",
        rank=split.rank,
        step=split.step,
    )


def _served(given: Grounds) -> str:
    """Where the requests to a service spend their time, of the rank that answered most; empty where nothing tells."""
    row = max(given.requests, key=lambda one: one.requests, default=None)
    if row is None or row.took_ns is None:
        return ""
    whole = f"Requests take {milliseconds(row.took_ns)} in the median"
    if row.queue_share is not None and row.queue_share > QUEUED.value:
        return f"{whole}: {row.queue_share:.0%} of their time is waiting in queues"
    if row.first_token_ns is None or row.queue_share is None:
        return whole
    first = row.first_token_ns / row.took_ns
    return f"{whole}: {first:.0%} until the first token, {row.queue_share:.0%} of their time in queues"


def _subject(split: StepSplit) -> str:
    return "Capture" if split.window_kind == "capture" else "Step"


def _without_device(given: Grounds) -> Judgement:
    """The first problem of a job that computes on the processor, or whose device was not recorded."""
    split = JobSteps(given.splits).slowest
    if split is None:
        sentence = _served(given) or "What bounds the step cannot be said: no device task was recorded"
        return Judgement(bound="unknown", rank=None, step=None, sentence=sentence)
    mean = JobSteps(given.splits).length_ns
    length = given.unprofiled_ns or mean
    seen = _not_yet(given, length)
    said = _unrecorded(given, split) or _problem(given, length)
    if said and _is_little(given, length) and _most(given, split, mean):
        # What a rule gives that is little is not what the step is about.
        said = f"{_spent(given, split, mean)}; {said}"
    said = said or (_spent(given, split, mean) if seen else _found_nothing(given, split, mean))
    said += _not_yet(given, length, said)
    captured = f" ({milliseconds(mean)} as captured)" if given.unprofiled_ns else ""
    if given.unprofiled_ns and not 1 / _ALIKE < mean / given.unprofiled_ns < _ALIKE:
        said += "; the captured steps are unlike those before them, and may not show what these lose"
    begin = f"{_subject(split)} {milliseconds(length)}{captured}"
    return Judgement(
        bound="host",
        sentence=f"{begin}: {said}; no device task was recorded{_coverage(given)}",
        rank=split.rank,
        step=split.step,
    )


def _most(given: Grounds, split: StepSplit, step_ns: int) -> CodeLine | None:
    """The function of the user's that takes most, where that is much."""
    own = [row for row in given.lines if row.rank == split.rank and row.place]
    most = max(own, key=lambda row: row.worked_ns, default=None)
    return most if most and step_ns and most.worked_ns >= MUCH.value * step_ns else None


def _spent(given: Grounds, split: StepSplit, step_ns: int) -> str:
    """Where the time of a step is spent that no rule finds a loss in: what takes it may still be worth another way."""
    most = _most(given, split, step_ns)
    if most is None:
        return "the host works all of it"
    share = min(most.worked_ns / step_ns, 1.0)
    return f"{share:.0%} is {most.said} with the operators it calls"


def _found_nothing(given: Grounds, split: StepSplit, step_ns: int) -> str:
    """Where the time is spent, and what most of it is: that a rule found nothing says little beside it."""
    most, idle = _most(given, split, step_ns), _beside(given, split)
    what = next(_what(given, most), "") if most else ""
    if idle is not None and idle is not most and idle.worked_ns >= NOTABLE.value * step_ns > 0:
        what = f"{min(idle.worked_ns / step_ns, 1.0):.0%} is {idle.said}, which trains nothing"
    return f"{_spent(given, split, step_ns)}{f'; {what}' if what else _nothing(given)}"


def _beside(given: Grounds, split: StepSplit) -> CodeLine | None:
    """Of the functions of the user's that train nothing the one that takes most."""
    own = [row for row in given.lines if row.rank == split.rank and row.place and beside_training(row)]
    return max(own, key=lambda row: row.worked_ns, default=None)


def _what(given: Grounds, most: CodeLine) -> Iterator[str]:
    """What a function does that takes much: the call that it repeats, and the operator that takes most of it."""
    inner = {(one.rank, one.line): one for one in reversed(given.again)}
    loop = inner.get((most.rank, most.said))
    if loop is not None:
        yield f"it calls {loop.what} {loop.times:.0f} times in a row"
    elif (most.calls or 0) >= _OFTEN:
        yield f"it is called {most.calls:.0f} times a step"
    name, ns = most.names[0] if most.names else ("", 0)
    if ns >= MOSTLY.value * max(1, most.own_ns) and "::" in name:
        yield f"{ns / max(1, most.own_ns):.0%} of its own time is {name}"


def _absent(given: Grounds, split: StepSplit) -> str | None:
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
    return f"{ns / split.window_ns:.0%} waits for {peer}, which was not profiled"


def _untold(given: Grounds, split: StepSplit) -> str | None:
    """Communication that may be waiting, where that is more than anything that is known could give."""
    first = given.problems[0] if given.problems else None
    if first is None or first.fault is not Fault.EXPOSED_COMMUNICATION or first.replay or first.explained_by:
        return None
    if first.cost_ns <= max((one.gain.expected_ns for one in given.problems[1:]), default=0):
        return None
    share = (split.exposed_comm_ns or 0) / split.window_ns
    return f"{share:.0%} is communication that nothing hides, and how much of it is waiting was not recorded"


def _unrecorded(given: Grounds, split: StepSplit) -> str | None:
    """Python that nobody recorded, where that is more than anything that is known could give."""
    known = max((one.gain.expected_ns for one in given.problems), default=0)
    if given.unrecorded_ns <= known or any(one.endangers for one in given.problems[:1]):
        return None
    share = given.unrecorded_ns / split.window_ns
    return f"{share:.0%} is Python that was not recorded, and what it does cannot be told"


def _problem(given: Grounds, length_ns: int) -> str | None:
    """The first problem: how much of the step it takes, where, and who waits for it."""
    if not given.problems:
        return None
    first = given.problems[0]
    gain = first.gain
    if first.endangers:
        return f"{say(first.message)[0].lower()}{say(first.message)[1:]}, and the job ends when it is full"
    share = _share(first, length_ns)
    if first.fault is Fault.STRAGGLER:
        return f"{share} is waiting for {first.blames[0]}"
    waiting = next(
        (one for one in given.problems if one.fault is Fault.STRAGGLER and first.code in one.explained_by), None
    )
    where = _where(first, given)
    # Without an effect on the step, no other rank's wait is laid at it.
    felt = where and gain.replayed and gain.low_ns >= _FELT * first.cost_ns and _others_wait(given)
    follows = ", and the others wait for it" if waiting or felt else ""
    at = f", at {first.lines[0]}" if first.lines else ""
    return f"{share} is lost to {_words(first)}{where}{at}{follows}"


def _share(first: Loss, length_ns: int) -> str:
    """The part of the step that it takes: as replayed, else from the least to the most where the least is much."""
    low, high = (min(ns / length_ns, 1.0) for ns in (first.gain.low_ns, first.gain.high_ns))
    if first.gain.replayed and low:
        return f"{low:.0%}"
    return f"{100 * low:.0f} to {high:.0%}" if _LITTLE <= low < high - _SAME else f"up to {high:.0%}"


def _others_wait(given: Grounds) -> bool:
    return any((split.exposed_comm_ns or 0) > 0 for split in given.splits)


def _is_little(given: Grounds, length_ns: int) -> bool:
    """Whether the first problem is known, and gives little of the step."""
    first = next(iter(given.problems), None)
    return first is not None and not first.endangers and first.gain.expected_ns < _LITTLE * length_ns


def _where(finding: Loss, given: Grounds) -> str:
    ranks = sorted({*finding.ranks} & given.ranks)
    if not ranks or len(ranks) == len(given.ranks):
        return ""
    if len(ranks) == 1:
        return f" on rank {ranks[0]}"
    return f" on {len(ranks)} of {len(given.ranks)} ranks"


def _words(loss: Loss) -> str:
    """What time is lost to."""
    return say((loss.fault or loss.about).message)


def _nothing(given: Grounds) -> str:
    if not given.noise_ns:
        return "; no rule found a loss beyond its limit"
    return f"; no loss above the noise of {milliseconds(given.noise_ns)} was found"


def _not_yet(given: Grounds, length_ns: int, said: str = "") -> str:
    """What a rule sees that is not trusted yet, where it counts the mistake itself and nothing known is larger.

    Where is left out if it was `said` before.
    """
    first = next((one for one in given.untrusted if one.direct and one.gain.high_ns >= NOTABLE.value * length_ns), None)
    known = max((one.gain.expected_ns for one in given.problems), default=0)
    if first is None or first.gain.expected_ns <= known:
        return ""
    at = f", at {first.lines[0]}" if first.lines and first.lines[0] not in said else ""
    return f"; a rule in preview sees {_words(first)}{at}: {_share(first, length_ns)}"


def _coverage(given: Grounds) -> str:
    """No sentence about a part of a job is about the job."""
    if given.expected is None or given.expected <= len(given.ranks):
        return ""
    return f" (from {len(given.ranks)} of {given.expected} ranks)"


def milliseconds(ns: int) -> str:
    """Three digits at least of a time in milliseconds: `124 ms`, `9.31 ms`, `1234 ms`."""
    return f"{ns / 1e6:.0f} ms" if ns >= 100_000_000 else f"{ns / 1e6:.3g} ms"


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
