"""Detects faults in the numbers of a training: a jumping loss, NaN, exploding or vanishing gradients; each cause once.

A running job and the replay of its files use the same code on the looks of all ranks, in the order of their steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.message import Message
from hermes.inside.wire.numerics import Fault, Follower, Numbers, NumericsLook, path_in
from hermes.jobs.detect.messages import (
    DO_LOOK_AT_BATCHES,
    DO_LOOK_FOR_DETACHED,
    DO_RECORD,
    gradients_exploded,
    gradients_not_finite,
    gradients_vanished,
    loss_jumped,
    loss_not_finite,
    updates_jumped,
)
from hermes.knowledge.confidence import confidence
from hermes.model.finding import Action, Finding
from hermes.model.leaf import Risk

_OVER = 20
"""Looks of a rank without a fault after which another fault of the same kind is a new cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericFault:
    """A fault in the numbers of a rank, the first rank that shows it. `kind` is one of `KINDS`."""

    rank: int
    step: int
    kind: str
    message: Message

    @property
    def remedy(self) -> Message:
        """The advice for a fault of loss or gradients."""
        if self.kind == "not finite":
            return DO_RECORD
        return DO_LOOK_FOR_DETACHED if self.kind == "vanish" else DO_LOOK_AT_BATCHES

    def finding(self) -> Finding:
        """The fault of loss or gradients as a finding."""
        return Finding(
            code=self.kind, about=Risk.WRONG_NUMBERS, message=self.message, ranks=(self.rank,), steps=(self.step,),
            confidence=confidence("jobs.numbers"),
            actions=(Action(title=self.remedy, do="", verify="", risk="", source=""),),
        )  # fmt: skip


def _message(rank: int, look: NumericsLook, fault: Fault) -> Message:
    step, kind, usual = look.step, fault.kind, fault.usual
    if kind == "loss":
        return loss_jumped(rank=rank, step=step, loss=look.loss or 0.0, usual=usual)
    if kind == "explode":
        return gradients_exploded(rank=rank, step=step, norm=look.norm or 0.0, usual=usual)
    if kind == "vanish":
        return gradients_vanished(rank=rank, step=step, norm=look.norm or 0.0, usual=usual)
    if kind == "updates":
        return updates_jumped(rank=rank, step=step, update=look.update or 0.0, usual=usual)
    if look.loss is not None and not math.isfinite(look.loss):
        return loss_not_finite(rank=rank, step=step, loss=str(look.loss))
    return gradients_not_finite(n=max(look.broken, 1), rank=rank, step=step)


class JobNumbers:
    """The detector of a job's wrong numbers, fed with the looks of every rank as they come."""

    def __init__(self) -> None:
        self._ranks: dict[int, Numbers] = {}
        self._open: dict[str, int] = {}
        self._last: dict[int, NumericsLook] = {}

    def add(self, looks: Sequence[tuple[int, NumericsLook]]) -> list[NumericFault]:
        """Take new looks with their ranks; returns the faults to report."""
        found = []
        for rank, look in sorted(looks, key=lambda one: (one[1].step, one[0])):
            self._last[rank] = look
            told = self._ranks.setdefault(rank, Numbers()).wrong(look)
            if told is None:
                self._open = {kind: left - 1 for kind, left in self._open.items() if left > 1}
                continue
            kind = told.kind
            # Ranks share their gradients: a fault of all ranks has one cause, and so have the effects of a jump.
            if not self._open or (kind == "not finite" and kind not in self._open):
                found.append(NumericFault(rank=rank, step=look.step, kind=kind, message=_message(rank, look, told)))
            self._open[kind] = _OVER * max(len(self._ranks), 1)
        return found

    def last(self, rank: int) -> NumericsLook | None:
        """The last look at loss and gradients of a rank."""
        return self._last.get(rank)


class Numerics:
    """A reader of the loss and gradient files in a run directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, Follower] = {}
        self._job = JobNumbers()

    def look(self, ranks: Sequence[int]) -> list[NumericFault]:
        """The faults in the new looks of these ranks."""
        new = []
        for rank in ranks:
            follower = self._files.setdefault(rank, Follower(path_in(self._folder, rank)))
            new += [(rank, look) for look in follower.new()]
        return self._job.add(new)

    def last(self, rank: int) -> NumericsLook | None:
        """The last look at loss and gradients of a rank."""
        return self._job.last(rank)


def replay(folder: Path, ranks: Sequence[int]) -> list[NumericFault]:
    """All faults in the files of a run directory, including files that were set aside."""
    looks = []
    for rank in ranks:
        path = path_in(folder, rank)
        for one in (path.with_name(path.name + ".1"), path):
            looks += [(rank, look) for look in Follower(one).new()]
    return JobNumbers().add(looks)
