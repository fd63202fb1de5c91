"""Compares Hermes' report on a published case with the published figures; pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.paper.cases import Case
from hermes_testing.markdown import table

HEADER = (
    "case",
    "published before",
    "here",
    "named first",
    "predicted after",
    "published after",
    "after here",
    "holds",
)
NEAR = 0.1
"""How far the step in the report may be from the published one, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one case: `leaf` and `fault` of the headline, and the reproduced step before and after in
    milliseconds.

    `gain` is the range of the first action about the cause, as shares of the step; None where nothing is predicted.
    `slower` is how much longer kernels take beside transfers, as Hermes measures it.
    """

    case: Case
    leaf: str
    fault: str
    before_ms: float
    after_ms: float
    gain: tuple[float, float] | None
    slower: float | None = None

    @property
    def named(self) -> bool:
        """Whether the headline names the cause."""
        return self.fault in set(self.case.faults)

    @property
    def after(self) -> tuple[float, float] | None:
        """The range of the predicted step after the fix, in milliseconds."""
        low, high = self.gain or (0.0, 0.0)
        return (self.before_ms * (1 - high), self.before_ms * (1 - low)) if self.gain else None

    @property
    def faithful(self) -> bool:
        """Whether the step in the report is the published one, within a tenth."""
        published = self.case.before_ms or self.before_ms
        return abs(self.before_ms - published) <= NEAR * published

    @property
    def holds(self) -> bool:
        """Whether the range contains the published step after the fix, or the reproduced step where none was
        published."""
        wanted = self.case.after_ms or self.after_ms
        return self.after is not None and self.after[0] <= wanted <= self.after[1]

    @property
    def hit(self) -> bool:
        """Whether cause and range are right, and the step before equals the published one."""
        return self.named and self.holds and self.faithful


def outcome(
    case: Case, document: Mapping[str, Any], after_ms: float, search: Mapping[str, Any] | None = None
) -> Outcome:
    """The fields of `report.json` that answer the case, and the fields of the communication plan if one was
    requested."""
    verdict, plan = document["verdict"], document["plan"]
    about = (one["gain"] for one in plan["actions"] if one["fault"] in set(case.faults))
    gain = next(((one["share_low"], one["share_high"]) for one in about), None)
    if search is not None:
        said = search.get("facts", search)
        gain = (said["low_ns"] / said["step_ns"], said["high_ns"] / said["step_ns"]) if "low_ns" in said else None
    unprofiled = plan["without_profiler"]
    rows = [one["slowdown"] for one in document["communication"]["contention"] if one["kind"] == "compute"]
    return Outcome(
        case=case, leaf=verdict["leaf"] or "", fault=verdict["fault"] or "", after_ms=after_ms, gain=gain,
        before_ms=unprofiled["step_ms"] if unprofiled else plan["noise"]["step_ms"],
        slower=max(rows) - 1 if rows and case.slower else None,
    )  # fmt: skip


def text(found: Sequence[Outcome], *, cores: int, load: float) -> str:
    """The table, the count of hits, and the load of the machine during the measurement."""
    hits, named, holds = (sum(one) for one in zip(*((one.hit, one.named, one.holds) for one in found), strict=True))
    return (
        f"Right in all: {hits} of {len(found)}; cause {named}, range {holds}. "
        f"Measured on {cores} cores at a load of {load:.1f}.\n\n{table(HEADER, [row(one) for one in found])}"
    )


def row(one: Outcome) -> tuple[str, ...]:
    """A line of the table."""
    case = one.case
    before = f"{one.before_ms:.1f} ms" if one.faithful else f"**{one.before_ms:.1f} ms**"
    before += f", {case.made}"
    if case.slower and one.slower is not None:
        before += f", kernels +{one.slower:.0%}"
    named = f"{one.leaf}, {one.fault or 'no cause'}"
    return (
        f"`{case.name}`", _ms(case.before_ms) if case.slower is None else "+{:.0%} to +{:.0%}".format(*case.slower),
        before, named if one.named else f"**{named}**",
        "nothing" if one.after is None else "{:.1f} to {:.1f} ms".format(*one.after),
        _ms(case.after_ms), _ms(one.after_ms), "yes" if one.holds else "**no**",
    )  # fmt: skip


def _ms(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f} ms"
