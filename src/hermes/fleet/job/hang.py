"""Names the cause of a hang from the stacks of all ranks: a rank, a mismatched collective, or a broken link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hermes.base.message import Message
from hermes.fleet.job import messages
from hermes.fleet.job.cut_links import cut_links
from hermes.fleet.job.status import JobsPicture, SilentHost
from hermes.jobs.api import Connection, GroupProgress, PendingCollective
from hermes.knowledge.confidence import confidence
from hermes.model.finding import Action, Blame, Finding
from hermes.model.leaf import Risk

_NAMED = 20
_WHOLE_JOB = "default_pg"
"""PyTorch's name for the group of all ranks."""
_SAME_SIZES = ("all_reduce", "allreduce", "broadcast", "barrier")
"""Collectives whose tensors must have the same size on all ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStack:
    """Where a rank stands, as its host reports it; `line` is empty if no stack could be taken.

    `still`: the rank has ended no step for far longer than usual. `groups` are the groups in its flight recorder.
    """

    host: str
    rank: int
    step: int
    age_ns: int | None
    alive: bool
    still: bool
    collective: str
    line: str
    stack: str
    groups: tuple[GroupProgress, ...] = ()
    links: tuple[Connection, ...] = ()


@dataclass(slots=True)
class Stacks:
    """The stacks of all ranks that could be asked."""

    picture: JobsPicture
    ranks: list[RankStack] = field(default_factory=list)
    silent: list[SilentHost] = field(default_factory=list)
    ended_ns: int | None = None
    """For an ended job: how many ns ago its watchers stored where its ranks stood."""

    @property
    def still(self) -> bool:
        """Whether no rank of the job makes progress."""
        return bool(self.ranks) and all(one.still or not one.alive for one in self.ranks)

    @property
    def collective(self) -> str:
        """The collective that most of the ranks wait in; empty where none does."""
        waiting = Counter(one.collective for one in self.ranks if one.collective)
        return waiting.most_common(1)[0][0] if waiting else ""

    @property
    def absent(self) -> list[RankStack]:
        """Ranks that stand elsewhere while others wait in a collective."""
        return [one for one in self.ranks if one.alive and one.line and not one.collective] if self.collective else []

    @property
    def gone(self) -> list[RankStack]:
        """Ranks of the job whose process has ended."""
        return [one for one in self.ranks if not one.alive]


def ranks_without_cause(made: Stacks, silent: Sequence[str]) -> Message:
    """The verdict if no cause is found."""
    if not made.ranks:
        return messages.NOBODY_RUNS
    if made.still and made.collective and silent:
        # All ranks that answered wait: a silent host is waited for, or its link is cut.
        return messages.all_wait_for_silent(collective=made.collective, hosts=sorted(silent)[:_NAMED])
    if made.still and made.collective:
        return messages.all_wait(collective=made.collective, n=len(made.ranks))
    return messages.stands_still(n=len(made.ranks)) if made.still else messages.steps_go_on(n=len(made.ranks))


def name_cause(made: Stacks, silent: Sequence[str]) -> list[Finding]:
    """The cause of the hang: ended processes, else absent ranks, else a mismatched collective, else a broken link."""
    if not made.still:
        return []
    for found in (_gone(made), _not_entered(made), _differ(made), _cycle(made), _cut(made, silent)):
        if named := list(found):
            return named[:_NAMED]
    return []


def _gone(made: Stacks) -> Iterator[Finding]:
    for one in made.gone:
        yield _finding("gone", one, messages.process_gone(rank=one.rank, host=one.host, last=one.step))


def _not_entered(made: Stacks) -> Iterator[Finding]:
    for one in made.absent:
        group, waiting = _lacks(made, one)
        name = waiting.name if waiting else made.collective
        yield _finding(
            "not entered", one, messages.not_entered(
                rank=one.rank, host=one.host, collective=name, line=one.line,
                number=waiting.number if waiting else None, group=group.about or group.name if group else None,
                called=waiting.line or None if waiting else None,
            ),
        )  # fmt: skip


def _lacks(made: Stacks, absent: RankStack) -> tuple[GroupProgress | None, PendingCollective | None]:
    """The first collective that others wait in and that this rank has not entered, according to their flight
    recorders."""
    for one in made.ranks:
        for group in one.groups:
            waiting = group.waiting
            if waiting and waiting.number > _last(absent, group) and _is_member(absent, group):
                return group, waiting
    return None, None


def _differ(made: Stacks) -> Iterator[Finding]:
    """Findings on ranks that call another collective than most, at the same position in the same group."""
    called: dict[tuple[str, str, int], list[tuple[RankStack, PendingCollective]]] = {}
    for one in made.ranks:
        for group in one.groups:
            if group.waiting and group.waiting.number:
                called.setdefault((group.name, group.about, group.waiting.number), []).append((one, group.waiting))
    for (name, about, number), calls in called.items():
        usual = Counter(_form(waiting) for _, waiting in calls).most_common(1)[0][0]
        for one, waiting in calls:
            if _form(waiting) != usual:
                yield _finding("other collective", one, messages.other_collective(
                    rank=one.rank, host=one.host, collective=" ".join(_form(waiting)).strip(), number=number,
                    group=about or name, others=" ".join(usual).strip(), line=one.line or waiting.line or None,
                ))  # fmt: skip


def _form(waiting: PendingCollective) -> tuple[str, str]:
    return waiting.name, waiting.sizes if any(one in waiting.name for one in _SAME_SIZES) else ""


def _cycle(made: Stacks) -> Iterator[Finding]:
    """Findings on ranks that wait for each other, each in a collective that the next rank has not entered."""
    by_rank = {one.rank: one for one in made.ranks}
    waits_for = {one.rank: found for one in made.ranks if (found := _blocker(one, by_rank)) is not None}
    for first in sorted(waits_for):
        path = [first]
        while (at := waits_for.get(path[-1])) is not None and at not in path:
            path.append(at)
        if at == first:
            for rank in path:
                one, other = by_rank[rank], by_rank[waits_for[rank]]
                yield _finding("order", one, messages.waits_for_each_other(
                    rank=rank, host=one.host, collective=one.collective, other=other.rank, line=one.line or None
                ))  # fmt: skip
            return


def _blocker(one: RankStack, by_rank: dict[int, RankStack]) -> int | None:
    """The first rank that has not entered the collective that rank `one` waits in."""
    for group in one.groups:
        for rank, other in sorted(by_rank.items()) if group.waiting else ():
            if rank != one.rank and _is_member(other, group) and group.waiting and (
                _last(other, group) < group.waiting.number
            ):  # fmt: skip
                return rank
    return None


def _last(one: RankStack, group: GroupProgress) -> int:
    return next((own.last for own in one.groups if (own.name, own.about) == (group.name, group.about)), 0)


def _is_member(one: RankStack, group: GroupProgress) -> bool:
    if group.ranks:
        return one.rank in group.ranks
    knows = any((own.name, own.about) == (group.name, group.about) for own in one.groups)
    return knows or group.about == _WHOLE_JOB


def _cut(made: Stacks, silent: Sequence[str]) -> Iterator[Finding]:
    """Findings on links without traffic, if all ranks wait."""
    if not made.collective:
        return
    connections = {(one.host, link) for one in made.ranks for link in one.links}
    for link in cut_links(connections, silent):
        hosts = {link.host, link.other} if link.other else {link.host}
        ranks = sorted(one.rank for one in made.ranks if one.host in hosts)
        what = (
            messages.pair_cut(host=link.host, other=link.other, collective=made.collective)
            if link.other
            else messages.link_cut(host=link.host, n=link.pairs, collective=made.collective)
        )
        yield Finding(
            code="link", about=Risk.STALL, confidence=confidence("jobs.stuck"), message=what, ranks=tuple(ranks),
            actions=(_do(messages.DO_LOOK_AT_LINK),),
        )  # fmt: skip


def _finding(code: str, one: RankStack, message: Message) -> Finding:
    return Finding(
        code=code, about=Risk.STALL, confidence=confidence("jobs.stuck"), message=message, ranks=(one.rank,),
        steps=(one.step,), lines=(one.line,) if one.line else (), blames=(Blame.of_rank(one.rank),),
        actions=(_do(messages.DO_READ_STACK),),
    )  # fmt: skip


def _do(title: Message) -> Action:
    return Action(title=title, do="", verify="", risk="", source="")
