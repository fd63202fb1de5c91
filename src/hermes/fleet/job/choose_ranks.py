"""Parses the choice of ranks to capture: `worst`, `median`, numbers and ranges of numbers, separated by commas."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes.base.errors import QueryError
from hermes.fleet.job import messages
from hermes.fleet.job.find_slow_jobs import slowest_first
from hermes.fleet.job.parse_host_answers import RankRow

_RUN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_WORDS = ("worst", "median")


def chosen(choice: str, rows: Sequence[RankRow]) -> list[RankRow]:
    """The rows of the chosen ranks, by rank; all living ranks for an empty choice. Raises `QueryError` for missing
    ranks.

    `worst` is the rank with the most time of its own, `median` the rank in the middle; where own time was not measured,
    step time decides.
    """
    alive = [row for row in rows if row.alive]
    if not choice.strip():
        return sorted(alive, key=lambda row: row.rank)
    ordered = slowest_first(alive)
    places = {"worst": 0, "median": len(ordered) // 2}
    wanted: set[int] = set()
    for part in (one.strip() for one in choice.split(",")):
        run = _RUN.fullmatch(part)
        if part in places and ordered:
            wanted.add(ordered[places[part]].rank)
        elif run:
            # From a range, only existing ranks are taken: a user does not list all numbers of a job.
            first, last = int(run[1]), int(run[2] or run[1])
            there = {row.rank for row in alive if first <= row.rank <= last}
            wanted |= there or {first}
        else:
            raise QueryError(messages.no_choice(text=part[:40]), where="--ranks", hint=messages.DO_CHOOSE)
    absent = wanted - {row.rank for row in alive}
    if absent:
        raise QueryError(messages.no_such_ranks(ranks=absent), where="--ranks", hint=messages.DO_CHOOSE)
    return sorted((row for row in alive if row.rank in wanted), key=lambda row: row.rank)
