"""The words that faces put beside values: headings, columns, and how sure a finding is."""

from __future__ import annotations

import math

from hermes.base.message import Count, Message, Name, Names, Ranks, Steps, Text, Word, message
from hermes.base.units import duration
from hermes.report.format import between_parts


class Label(Word):
    """A heading or the name of a value."""

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
    """How sure a finding is, in a word."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def label(name: str) -> Message:
    """The label of that name as a message."""
    return Label(name).message


@message("report.range")
def _range(*, low: Name, high: Name) -> None:
    """A range of times, whose unit is named once where both share it."""


@message("report.up_to")
def _up_to(*, high: Name) -> None:
    """A range of times that begins at none."""


@message("report.gain")
def gain(*, range: Message) -> None:
    """What a cure gives, from the least to the most."""


@message("report.sure")
def _sure(*, word: Message, value: Name) -> None:
    """How sure a finding is, as a word and its number."""


@message("report.confidence")
def confidence(*, sure: Message) -> None:
    """How sure a finding is."""


@message("report.blames")
def blames(*, names: Names, more: Message | None = None) -> None:
    """Whom or what a finding is laid at."""


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
    """Which ranks a finding strikes."""


@message("report.on_steps")
def on_steps(*, steps: Steps) -> None:
    """Which steps show a finding."""


@message("report.more")
def more(*, n: Count) -> None:
    """How many things a list leaves out."""


@message("report.rows_left")
def rows_left(*, n: Count, file: Name | None = None) -> None:
    """How many rows a table leaves out, and the file that has them."""


@message("report.also_blames")
def also_blames(*, n: Count) -> None:
    """How many more a finding is laid at."""


@message("report.explained_by")
def explained_by(*, codes: Names) -> None:
    """The findings that are parts of this one."""


@message("report.measured")
def measured(*, what: Text, value: Name, limit: Name | None = None) -> None:
    """A number behind a finding, against its limit."""


@message("report.lost")
def lost(*, message: Text, lost: Text) -> None:
    """A note on the input, with what is missing because of it."""


@message("report.this_page")
def this_page(*, version: Name) -> None:
    """The foot of a page."""
