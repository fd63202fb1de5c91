"""What goes wrong in the numbers of a training: a loss that jumps, NaN, gradients that explode or vanish; once a cause.

A running job and the replay of its files go through the same code: looks of all ranks, in the order of their steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.inside.wire.numerics import Follower, Look, Numbers, path_in

_OVER = 20
"""Looks of a rank without a fault after which another one of its kind is a new cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Something went wrong with the numbers of a rank, the first of those on which it shows. `kind` as `KINDS` says."""

    rank: int
    step: int
    kind: str
    text: str

    @property
    def sentence(self) -> str:
        """In a line."""
        return f"rank {self.rank}, step {self.step}: {self.text}"

    @property
    def do(self) -> str:
        """What to do next."""
        if self.kind == "not finite":
            return "record the steps before it: `hermes precision record --ring 3 -o DIR -- …` names the operator"
        if self.kind == "vanish":
            return "look for a detached or frozen part of the model, and for a scale of the loss that was lost"
        return (
            "look at the batches of these steps and at the learning rate; a ring of recorded steps names the operator"
        )


class JobNumbers:
    """Fed with the looks of every rank as they come."""

    def __init__(self) -> None:
        self._ranks: dict[int, Numbers] = {}
        self._open: dict[str, int] = {}
        self._last: dict[int, Look] = {}

    def add(self, looks: Sequence[tuple[int, Look]]) -> list[Wrong]:
        """Rank and look of all that is new; what is to be said of it."""
        found = []
        for rank, look in sorted(looks, key=lambda one: (one[1].step, one[0])):
            self._last[rank] = look
            told = self._ranks.setdefault(rank, Numbers()).wrong(look)
            if told is None:
                self._open = {kind: left - 1 for kind, left in self._open.items() if left > 1}
                continue
            kind, text = told
            # Ranks share their gradients: what all of them show has one cause, and what follows from a jump too.
            if not self._open or (kind == "not finite" and kind not in self._open):
                found.append(Wrong(rank=rank, step=look.step, kind=kind, text=text))
            self._open[kind] = _OVER * max(len(self._ranks), 1)
        return found

    def last(self, rank: int) -> Look | None:
        """The last look at a rank."""
        return self._last.get(rank)


class Numerics:
    """Follows the files of a run directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, Follower] = {}
        self._job = JobNumbers()

    def look(self, ranks: Sequence[int]) -> list[Wrong]:
        """Read what is new of these ranks."""
        new = []
        for rank in ranks:
            follower = self._files.setdefault(rank, Follower(path_in(self._folder, rank)))
            new += [(rank, look) for look in follower.new()]
        return self._job.add(new)

    def last(self, rank: int) -> Look | None:
        """The last look at a rank."""
        return self._job.last(rank)


def replay(folder: Path, ranks: Sequence[int]) -> list[Wrong]:
    """All that the files of a run directory say, also those that were set aside."""
    looks = []
    for rank in ranks:
        path = path_in(folder, rank)
        for one in (path.with_name(path.name + ".1"), path):
            looks += [(rank, look) for look in Follower(one).new()]
    return JobNumbers().add(looks)
