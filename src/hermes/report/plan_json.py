"""Writes the plan as a JSON block: ranked actions, the noise floor, what is left out, and what to record next."""

from __future__ import annotations

from hermes.knowledge.user_code import is_example
from hermes.model.finding import Loss
from hermes.model.plan import Advice, Capture, Combined, Plan, Unprofiled
from hermes.report.findings_json import about_document, text_document
from hermes.report.json_values import finite, ms, text_of, texts


def plan_block(plan: Plan) -> dict[str, object]:
    """The plan as the block `plan` of the JSON document `hermes.report/1`."""
    floor = plan.floor
    return {
        "noise": {
            "ms": ms(floor.ns),
            "share": finite(floor.share),
            "step_ms": ms(floor.step_ns),
            "spread_ms": ms(floor.spread_ns),
            "spread_of": text_of(floor.of),
            "unexplained_ms": ms(floor.unexplained_ns),
            "least_ms": ms(floor.least_ns),
        },
        "without_profiler": _unprofiled(plan.unprofiled),
        "actions": [_action(one) for one in plan.actions],
        "together": _together(plan.combined),
        "collect": [_capture(one) for one in plan.captures],
        "below_noise": [_minor(one) for one in plan.minor],
    }


def _action(one: Advice) -> dict[str, object]:
    return {
        "title": text_document(one.title),
        "codes": texts(one.codes),
        "layer": one.layer,
        **about_document(one.about),
        "fault": None if one.fault is None else one.fault.value,
        "ranks": list(one.ranks),
        "blames": texts(one.blames),
        "lines": texts(one.lines),
        "gain": {
            "low": ms(one.gain.low_ns),
            "high": ms(one.gain.high_ns),
            "share_low": finite(one.share_low),
            "share_high": finite(one.share_high),
            "beyond": ms(one.beyond_ns),
            "unit": "ms per step",
            "basis": one.gain.basis,
            "method": text_document(one.gain.method),
        },
        "confidence": finite(one.confidence),
        "effort": text_of(one.effort),
        "risk": text_document(one.risk),
        "do": text_document(one.do),
        "before": text_of(one.before),
        "after": text_of(one.after),
        "example": is_example(one.after),
        "versions": text_of(one.versions),
        "verify": text_document(one.verify),
        "source": text_of(one.source),
        "case": one.case or None,
        "cure": text_of(one.cure),
        "confirm": text_of(one.confirm),
        "doubts": texts(one.doubts),
        "others": texts(one.others),
        "set": texts(one.specs),
    }


def _unprofiled(one: Unprofiled | None) -> dict[str, object] | None:
    if one is None:
        return None
    return {
        "rank": one.rank,
        "steps": one.steps,
        "step_ms": ms(one.step_ns),
        "captured_ms": ms(one.captured_ns),
        "calls": finite(round(one.calls, 1)),
        "us_a_call": finite(round(one.each_ns / 1e3, 3)),
    }


def _together(one: Combined | None) -> dict[str, object] | None:
    if one is None:
        return None
    return {
        "actions": one.actions,
        "low_ms": ms(one.low_ns),
        "high_ms": ms(one.high_ns),
        "step_ms": ms(one.step_ns),
        "share": finite(one.share),
        "steps": one.steps,
        "over_steps_ms": ms(one.over_steps_ns),
    }


def _capture(one: Capture) -> dict[str, object]:
    return {
        "why": text_document(one.why),
        "ranks": list(one.ranks),
        "level": one.level or None,
        "options": texts(one.options),
        "command": text_of(one.command),
        "profiler": text_of(one.profiler),
        "codes": texts(one.codes),
    }


def _minor(one: Loss) -> dict[str, object]:
    return {
        "code": text_of(one.code),
        "message": text_document(one.message),
        "cost_ms": ms(one.cost_ns),
        "high": ms(one.gain.high_ns),
    }
