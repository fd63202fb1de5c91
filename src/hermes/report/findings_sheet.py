"""Writes findings as rows of a spreadsheet, in the same form for analysis, precision, migration and alarms."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.base.message import Text
from hermes.base.xlsx import Cell
from hermes.model.finding import Finding, Loss
from hermes.report.findings_text import measured
from hermes.report.json_values import finite, ms
from hermes.report.localized_texts import Tell
from hermes.report.value_labels import Label

_HEADINGS = (
    Label.CODE, Label.FINDING, Label.COST, Label.SHARE, Label.GAIN_LEAST, Label.GAIN_MOST, Label.CONFIDENCE,
    Label.STATE, Label.SUBJECT, Label.RANKS, Label.STEPS, Label.BLAMES, Label.AT, Label.DO, Label.EVIDENCE,
    Label.DOUBTS,
)  # fmt: skip
_TIMES = (Label.COST, Label.GAIN_LEAST, Label.GAIN_MOST)


def findings_rows(findings: Sequence[Finding], tell: Tell) -> list[list[Cell]]:
    """The headings, and a row for each finding; durations are milliseconds a step, as in JSON."""
    heads: list[Cell] = [f"{tell(one.message)} (ms)" if one in _TIMES else tell(one.message) for one in _HEADINGS]
    return [heads, *(_row(one, tell) for one in findings)]


def _row(one: Finding, tell: Tell) -> list[Cell]:
    gain = one.gain
    return [
        one.code, tell(one.message), ms(one.cost_ns), finite(one.share) if isinstance(one, Loss) else None,
        None if gain is None else ms(gain.low_ns), None if gain is None else ms(gain.high_ns), finite(one.confidence),
        one.state, tell(subject(one)), _listed(one.ranks), _listed(one.steps), _listed(one.blames), _listed(one.lines),
        "\n".join(f"{tell(action.title)}: {tell(action.do)}" for action in one.actions),
        "\n".join(tell(measured(item)) for item in one.evidence), "\n".join(map(tell, one.doubts)),
    ]  # fmt: skip


def subject(one: Finding) -> Text:
    """The subject of a finding: the fault that its rule names, else the finding's leaf or risk."""
    fault = one.fault if isinstance(one, Loss) else None
    return (fault or one.about).message


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
