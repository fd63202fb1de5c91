"""Writes the advice on a layout of sharded units: what to do, why, its extra memory, and settings to copy."""

from __future__ import annotations

from hermes.base.message import Message
from hermes.knowledge.bucket_settings import BucketSetting
from hermes.knowledge.sharding_settings import unit_settings
from hermes.model.document import Column, Table
from hermes.profiles.whatif import messages
from hermes.profiles.whatif.communication.search import GatheredUnits, UnitPlan


def units_answer(plan: UnitPlan) -> Message:
    """The answer: the layout, its gain, why it is better, and the memory that it takes."""
    return messages.units_best(do=_do(plan), step=plan.step_ns, low=plan.low_ns, high=plan.high_ns, why=why(plan),
                               memory=memory(plan))  # fmt: skip


def _do(plan: UnitPlan) -> Message:
    then = plan.then
    if plan.merged == 1:
        return messages.units_ahead(forward=then.forward, backward=then.backward)
    return messages.units_merged(merged=plan.merged, forward=then.forward, backward=then.backward)


def why(plan: UnitPlan) -> Message:
    """Why the layout is better: gathers run beside compute, or the fixed time of a collective is paid less often."""
    now, then = plan.now, plan.then
    if plan.merged == 1:
        return messages.units_beside(exposed=now.exposed_ns, left=then.exposed_ns)
    return messages.units_fewer(
        fixed=plan.fixed_ns, now=now.units, then=then.units, exposed=now.exposed_ns, left=then.exposed_ns
    )


def memory(plan: UnitPlan) -> Message:
    """How many more bytes of whole parameters a rank holds at once with the new layout."""
    held, now = plan.then.held_bytes, plan.now.held_bytes
    if held is None or now is None:
        return messages.UNITS_MEMORY_NOT_KNOWN
    if held <= now:
        return messages.UNITS_NO_MORE_MEMORY
    return messages.units_more_memory(more=held - now, held=held, now=now)


def units_table(plan: UnitPlan) -> Table:
    """A table of how units are gathered now, and how with the new layout."""
    columns = (
        Column(key="how", title=messages.PLAN_HOW, kind="name"),
        Column(key="units", title=messages.UNITS_MANY, kind="count"),
        Column(key="largest_bytes", title=messages.UNITS_LARGEST, kind="bytes"),
        Column(key="forward", title=messages.UNITS_FORWARD, kind="count"),
        Column(key="backward", title=messages.UNITS_BACKWARD, kind="count"),
        Column(key="exposed_ns", title=messages.UNITS_EXPOSED, kind="ns"),
        Column(key="held_bytes", title=messages.UNITS_HELD, kind="bytes"),
    )
    rows = [_row(messages.PLAN_NOW, plan.now), _row(messages.PLAN_THEN, plan.then)]
    return Table(key="gathered", title=messages.UNITS_GATHERED, columns=columns, rows=rows)


def _row(how: Message, one: GatheredUnits) -> tuple[object, ...]:
    return (how, one.units, one.largest_bytes, one.forward, one.backward, one.exposed_ns, one.held_bytes)


def units_settings(plan: UnitPlan) -> tuple[BucketSetting, ...]:
    """The lines of settings to copy."""
    return tuple(unit_settings(forward=plan.then.forward, backward=plan.then.backward, merged=plan.merged))
