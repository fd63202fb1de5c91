"""The words that reports put beside values: headings, columns, and how sure a finding is."""

from __future__ import annotations

import math

from hermes.base.message import Count, Message, Name, Names, Ranks, Steps, Text, Word, message
from hermes.base.units import duration
from hermes.report.format import between_parts


class Label(Word):
    """A heading, or the name of a value, in a report."""

    ANSWER = "answer"
    AT = "at"
    BLAMES = "blames"
    CODE = "code"
    CONFIDENCE = "confidence"
    CONTENTS = "contents"
    COST = "cost"
    COVERAGE = "coverage"
    DO = "do"
    DOUBTS = "doubts"
    EVIDENCE = "evidence"
    FINDING = "finding"
    FINDINGS = "findings"
    GAIN = "gain"
    GAIN_LEAST = "gain_least"
    GAIN_MOST = "gain_most"
    LOST = "lost"
    METHOD = "method"
    NONE = "none"
    PREVIEW = "preview"
    RANKS = "ranks"
    RISK = "risk"
    SHARE = "share"
    SOURCE = "source"
    STATE = "state"
    STEPS = "steps"
    SUBJECT = "subject"
    THRESHOLD = "threshold"
    TO_DARK = "to_dark"
    VALUE = "value"
    VERIFY = "verify"
    WHERE = "where"
    YES = "yes"
    NO = "no"


class Sure(Word):
    """The confidence of a finding as a word: high, medium or low."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def label(name: str) -> Message:
    """The label with that name, as a message."""
    return Label(name).message


@message("report.range")
def _range(*, low: Name, high: Name) -> None:
    """A range of times; a unit that both ends share is named once."""


@message("report.up_to")
def _up_to(*, high: Name) -> None:
    """A range of times that begins at 0."""


@message("report.gain")
def gain(*, range: Message) -> None:
    """The gain of a cure, as a range."""


@message("report.sure")
def _sure(*, word: Message, value: Name) -> None:
    """The confidence of a finding, as a word and its number."""


@message("report.confidence")
def confidence(*, sure: Message) -> None:
    """The confidence of a finding, with its heading."""


@message("report.blames")
def blames(*, names: Names, more: Message | None = None) -> None:
    """The ranks, links, operators or settings that a finding blames."""


def gain_range(low_ns: int, high_ns: int) -> Message:
    """A gain as a range of times."""
    low, high = between_parts(low_ns, high_ns)
    if not low_ns and high_ns:
        return _up_to(high=high)
    return _range(low="" if low_ns == high_ns or duration(low_ns) == high else low, high=high)


def sure(value: float) -> Message | None:
    """A confidence as a word and its number; None where it is no number."""
    if not math.isfinite(value):
        return None
    word = Sure.HIGH if value >= 0.8 else Sure.MEDIUM if value >= 0.5 else Sure.LOW
    return _sure(word=word.message, value=f"{value:.2f}")


@message("report.on_ranks")
def on_ranks(*, ranks: Ranks) -> None:
    """The ranks that a finding affects."""


@message("report.on_steps")
def on_steps(*, steps: Steps) -> None:
    """The steps that show a finding."""


@message("report.more")
def more(*, n: Count) -> None:
    """How many things a list leaves out."""


@message("report.rows_left")
def rows_left(*, n: Count, file: Name | None = None) -> None:
    """How many rows a table leaves out, and the file that has all rows."""


@message("report.also_blames")
def also_blames(*, n: Count) -> None:
    """How many more ranks, links, operators or settings a finding blames."""


@message("report.explained_by")
def explained_by(*, codes: Names) -> None:
    """The codes of the findings that are parts of a finding."""


@message("report.measured")
def measured(*, what: Text, value: Name, limit: Name | None = None) -> None:
    """A number behind a finding, with its limit."""


@message("report.note")
def note(*, message: Text, lost: Text | None = None, hint: Text | None = None) -> None:
    """A note on the input, with the data that is missing because of it, and what to do."""


@message("report.degraded")
def degraded(*, n: Count) -> None:
    """How many notes say that data of the input is missing or damaged."""


@message("report.more_notes")
def more_notes(*, n: Count) -> None:
    """How many notes are not shown."""


@message("report.this_page")
def this_page(*, version: Name) -> None:
    """The foot of a page, with the version of Hermes."""
