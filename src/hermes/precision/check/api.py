"""Compares two setup snapshots: each difference is an error, a warning or a note, with what to do; worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.knowledge.confidence import confidence
from hermes.model.document import Document, DocumentInput
from hermes.model.finding import Action, Finding
from hermes.model.leaf import Risk
from hermes.precision.check import messages as say
from hermes.precision.check import setup_differences
from hermes.precision.check.messages import SetupSeverity
from hermes.precision.check.read_snapshots import read
from hermes.precision.check.setup_differences import PARTS, Difference
from hermes.precision.messages import Side

_ORDER = tuple(SetupSeverity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of a setup check: differences, worst first, and the parts of the golden setup not compared."""

    golden: Path
    target: Path
    differences: tuple[Difference, ...]
    gaps: tuple[Message, ...]

    @property
    def verdict(self) -> Literal["agree", "differ", "incomplete"]:
        """`differ` if there is an error; `incomplete` if a part of the golden setup was not compared; else `agree`."""
        if any(one.severity is SetupSeverity.ERROR for one in self.differences):
            return "differ"
        return "incomplete" if self.gaps else "agree"

    @property
    def answer(self) -> Message:
        """The first sentence to read of the check."""
        many = say.differences(n=len(self.differences))
        if self.verdict == "differ":
            errors = sum(one.severity is SetupSeverity.ERROR for one in self.differences)
            return say.wrong(errors=say.errors(n=errors), differences=many)
        if self.gaps:
            return say.incomplete(gaps=self.gaps)
        return say.minor(differences=many) if self.differences else say.ALIKE

    @property
    def document(self) -> Document:
        """The check as a document `hermes.check/1`."""
        return Document(
            schema="hermes.check/1", answer=self.answer,
            inputs=(DocumentInput(path=str(self.golden), role="golden"),
                    DocumentInput(path=str(self.target), role="target")),
            coverage=tuple(
                Diagnostic(level="degraded", message=one, hint=say.SNAPSHOT_AGAIN) for one in self.gaps
            ),
            findings=tuple(map(_finding, self.differences)),
            facts={
                "verdict": self.verdict, "counts": dict(Counter(one.severity.value for one in self.differences)),
            },
        )  # fmt: skip


def check(golden: Path, target: Path) -> Check:
    """Check two snapshots or packs; the result lists all differences, worst first."""
    one, two = read(golden), read(target)
    found = sorted(setup_differences.differences_of_snapshots(one, two), key=lambda each: _ORDER.index(each.severity))
    return Check(golden=golden, target=target, differences=tuple(found), gaps=tuple(_gaps(one, two)))


def _finding(one: Difference) -> Finding:
    action = None if one.cure is None else Action(
        title=one.cure, do=one.cure, verify=say.CHECK_AGAIN, risk="", source=""
    )  # fmt: skip
    return Finding(
        code=f"{one.severity.value}.{one.part.value}", message=one.what, actions=(action,) if action else (),
        about=Risk.NOTE if one.severity is SetupSeverity.NOTE else Risk.SETUP_DIFFERS,
        confidence=confidence("precision.setup"),
    )  # fmt: skip


def _gaps(one: dict[str, Any], two: dict[str, Any]) -> Iterator[Message]:
    """The parts of the golden setup that were not compared; with such a part the verdict is never `agree`."""
    for side, found in ((Side.GOLDEN, one), (Side.TARGET, two)):
        if found.get("failed"):
            yield say.not_whole(side=side.message, reason=str(found["failed"][0])[:200])
    for name, part in PARTS.items():
        if bool(one.get(name)) != bool(two.get(name)):
            yield say.lacks(side=(Side.TARGET if one.get(name) else Side.GOLDEN).message, part=part.message)
    if two["batches"] and len(two["batches"]) < len(one["batches"]):
        yield say.lacks_batches(golden=len(one["batches"]), target=len(two["batches"]))
    if not any(one.get(name) for name in PARTS):
        yield say.NOTHING
    elif not one["parameters"] and not one["batches"]:
        yield say.NO_MODEL
