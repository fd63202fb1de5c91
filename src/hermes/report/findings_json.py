"""Writes a finding as JSON values, in the same form for analysis, precision, migration and alarms."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.base.message import Text
from hermes.base.say import message_as_json
from hermes.model.advice_fit import ANY, Fit
from hermes.model.finding import Action, Evidence, Finding, FindingMoment, Gain, Loss
from hermes.model.leaf import Leaf, Risk
from hermes.report.json_values import clear_json_values, finite, ms, text_of, texts


def text_document(text: Text) -> dict[str, object]:
    """A text as JSON: its English sentence; for a message also its identifier and arguments."""
    made: dict[str, object] = clear_json_values(message_as_json(text))
    return made


def text_documents(many: Iterable[Text]) -> list[dict[str, object]]:
    """Texts as JSON, each in the form of `text_document`."""
    return [text_document(one) for one in many]


def about_document(about: Leaf | Risk) -> dict[str, object]:
    """The leaf and the risk of a finding as JSON; one of both is null."""
    leaf = isinstance(about, Leaf)
    return {"leaf": about.value if leaf else None, "risk": None if leaf else about.value}


def finding_document(row: Finding) -> dict[str, object]:
    """A finding as JSON; for a loss also the values by which it is ranked."""
    return {
        "code": text_of(row.code),
        "state": row.state,
        **about_document(row.about),
        "message": text_document(row.message),
        "where": {"ranks": list(row.ranks), "steps": list(row.steps), "lines": texts(row.lines)},
        "blames": [{"kind": one.kind, "rank": one.rank, "name": text_of(one)} for one in row.blames],
        "cost_ms": ms(row.cost_ns),
        "gain": None if row.gain is None else gain_document(row.gain),
        "confidence": finite(row.confidence),
        "evidence": [_evidence(item) for item in row.evidence],
        "actions": [_action(action) for action in row.actions],
        "doubts": text_documents(row.doubts),
        **(_loss(row) if isinstance(row, Loss) else {}),
    }


def gain_document(gain: Gain) -> dict[str, object]:
    """A gain as JSON, in milliseconds per step."""
    return {
        "low": ms(gain.low_ns),
        "high": ms(gain.high_ns),
        "unit": "ms per step",
        "basis": gain.basis,
        "method": text_document(gain.method),
    }


def moment_document(at: FindingMoment) -> dict[str, object]:
    """A stretch of time of one rank, as JSON."""
    return {"rank": at.rank, "start_ns": at.start_ns, "ms": ms(at.dur_ns), "whole_step": at.whole}


def _loss(row: Loss) -> dict[str, object]:
    return {
        "layer": row.layer,
        "fault": None if row.fault is None else row.fault.value,
        "share": finite(row.share),
        "at": None if row.at is None else moment_document(row.at),
        "moments": [moment_document(at) for at in row.moments],
        "explained_by": texts(row.explained_by),
    }


def _evidence(item: Evidence) -> dict[str, object]:
    return {
        "what": text_document(item.what),
        "value": finite(item.value),
        "unit": text_of(item.unit),
        "threshold": finite(item.threshold),
        "where": text_of(item.where),
        "at": None if item.at is None else moment_document(item.at),
    }


def _action(action: Action) -> dict[str, object]:
    return {
        "title": text_document(action.title),
        "do": text_document(action.do),
        "verify": text_document(action.verify),
        "risk": text_document(action.risk),
        "source": text_of(action.source),
        "fit": fit_document(action.fit),
    }


def fit_document(fit: Fit) -> dict[str, object] | None:
    """The conditions of the jobs that advice fits, as JSON; None for any job."""
    if fit == ANY:
        return None
    named = {name: getattr(fit, name) for name in Fit.__slots__}
    return {name: texts(value) if isinstance(value, tuple) else value for name, value in named.items()}
