"""Writes the result of a search of buckets or sharded units: the best one, its gain, why, and settings to copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.knowledge.bucket_settings import BucketSetting, settings
from hermes.knowledge.vendor_traits import traits
from hermes.model.document import CodeText, Column, Document, DocumentInput, Table
from hermes.profiles.whatif import messages
from hermes.profiles.whatif.communication.search import Plan, SearchResult, SentGradients
from hermes.profiles.whatif.communication.unit_document import units_answer, units_settings, units_table

SCHEMA = "hermes.communication-plan/1"
_WHY = {
    "nothing_sent": messages.PLAN_NOTHING_SENT,
    "one_size": messages.PLAN_ONE_SIZE,
    "not_told": messages.PLAN_NOT_TOLD,
    "units_not_told": messages.UNITS_NOT_TOLD,
}


def plan_document(
    found: SearchResult,
    paths: Sequence[Path],
    notes: Sequence[Diagnostic],
    *,
    framework: str | None,
    vendors: Iterable[str],
) -> Document:
    """The plan with its settings, or why there is no plan. `facts` are the numbers of the plan, in ns."""
    sources = tuple(DocumentInput(path=str(path), role="profile") for path in paths)
    plan, units = found.plan, found.units
    if units is not None:
        return Document(
            schema=SCHEMA, inputs=sources, answer=units_answer(units), coverage=tuple(notes), facts=asdict(units),
            parts=(units_table(units), _settings(units_settings(units))),
        )  # fmt: skip
    if plan is None:
        no_gain = messages.units_no_gain if found.why == "no_unit_gain" else messages.plan_no_gain
        answer = _WHY.get(found.why) or no_gain(tried=found.tried, pad=found.pad_ns)
        facts: dict[str, object] = {"why": found.why, "tried": found.tried}
        return Document(schema=SCHEMA, inputs=sources, answer=answer, coverage=tuple(notes), facts=facts)
    libraries = {library for vendor in vendors for library in traits(vendor).libraries}
    told = settings(framework=framework, libraries=libraries, cap_mb=plan.cap_mb, largest_bytes=plan.then.largest_bytes)
    answer = messages.plan_best(
        size=f"{plan.cap_mb} MB", step=plan.step_ns, low=plan.low_ns, high=plan.high_ns, why=why(plan),
        ready=messages.PLAN_TOLD if plan.told else messages.PLAN_EVENLY,
    )  # fmt: skip
    return Document(
        schema=SCHEMA, inputs=sources, answer=answer, coverage=tuple(notes), facts=asdict(plan),
        parts=(_sent(plan), _settings(tuple(told))),
    )  # fmt: skip


def why(plan: Plan) -> Message:
    """Why the plan is better: its transfers begin earlier, or it pays the fixed time of a collective less often."""
    now, then = plan.now, plan.then
    if then.buckets < now.buckets:
        return messages.plan_fewer(
            now=now.buckets, fixed=plan.fixed_ns, tail=now.tail_ns, then=then.buckets, left=then.tail_ns
        )
    return messages.plan_earlier(
        now=now.buckets, largest=now.largest_bytes, begins=now.begins_ns, tail=now.tail_ns, then=then.buckets,
        earlier=max(0, now.begins_ns - then.begins_ns), left=then.tail_ns,
    )  # fmt: skip


def _sent(plan: Plan) -> Table:
    columns = (
        Column(key="how", title=messages.PLAN_HOW, kind="name"),
        Column(key="buckets", title=messages.PLAN_BUCKETS, kind="count"),
        Column(key="largest_bytes", title=messages.PLAN_LARGEST, kind="bytes"),
        Column(key="begins_ns", title=messages.PLAN_BEGINS, kind="ns"),
        Column(key="tail_ns", title=messages.PLAN_TAIL, kind="ns"),
    )
    rows = [_row(messages.PLAN_NOW, plan.now), _row(messages.PLAN_THEN, plan.then)]
    return Table(key="sent", title=messages.PLAN_SENT, columns=columns, rows=rows)


def _row(how: Message, sent: SentGradients) -> tuple[object, ...]:
    return (how, sent.buckets, sent.largest_bytes, sent.begins_ns, sent.tail_ns)


def _settings(told: Sequence[BucketSetting]) -> CodeText:
    """Settings as whole lines to copy; the source of each setting is a comment that shells and Python accept."""
    text = "\n".join(f"{one.line}  # {one.where}: {one.source}" for one in told)
    return CodeText(key="settings", title=messages.PLAN_SETTINGS, text=text)
