"""`hermes detect`: replays a step log through a detector."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.cli.show import show_data, show_lines

if TYPE_CHECKING:
    from hermes.jobs.api import Cause, Detection, Explained


_KINDS = {"spikes": "spikes", "shift": "shift", "drift": "drift", "turns": "single slow steps"}


@click.command("detect")
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
@click.option("--preset", default="robust", help="robust, or ksigma with its PERF_* variables.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="What to print.")
def run(log: Path, preset: str, form: str) -> None:
    """Say when the steps of a log became slower, and why, as far as counters tell.

    LOG is a step log, a run directory, the name of a job, or a perf_*.log that torch_npu or MindSpore wrote.
    """
    from hermes.jobs.api import detect_in

    found = detect_in(log, preset=preset, environment=os.environ)
    if form == "json":
        show_data(json.dumps(_document(found), indent=1))
    else:
        show_lines("\n".join(_lines(found, preset)))


def _lines(found: Detection, preset: str) -> list[str]:
    from hermes.jobs.api import ranks_text

    lines = [f"{ranks_text(found.ranks)}, preset {preset}"]
    lines += [f"rank {steps.rank}: {steps.damaged} records are damaged" for steps in found.ranks if steps.damaged]
    lines += [*map(_alarm, found.alarms), *(f"{one.sentence}\n  To do: {one.do}" for one in found.wrong)] or [
        "no alarm"
    ]
    if found.causes:
        lines += ["", "throughout:"]
        lines += [f"  {_cause(cause)}" for cause in found.causes]
    return lines


def _alarm(one: Explained) -> str:
    from hermes.jobs.api import change, ranks_of

    alarm = one.alarm
    who = ranks_of(one.ranks or (alarm.rank,))
    every = f" every {alarm.period} steps" if alarm.period else ""
    text = f"{who}: {_KINDS[alarm.kind]}{every} from step {alarm.since}, noticed at {alarm.step}: {change(alarm)}"
    if one.over is not None:
        text += f"; over at step {one.over}"
    if one.cause:
        where = f"rank {one.cause.rank}, " if len(one.ranks) > 1 else ""
        text += f"\n  {where}{one.cause.name}: {one.cause.what}, {one.cause.share:.0%} of it. To do: {one.cause.do}"
    return text


def _cause(cause: Cause) -> str:
    note = f" ({cause.note})" if cause.note else ""
    cost = f"{cause.cost_ns / 1e6:.2f} ms a step, {cause.share:.0%}"
    return f"rank {cause.rank}: {cause.name}, {cost}{note}. To do: {cause.do}"


def _document(found: Detection) -> dict[str, object]:
    return {
        "schema": "hermes.detection/1",
        "ranks": [{"rank": one.rank, "steps": len(one), "damaged": one.damaged} for one in found.ranks],
        "alarms": [
            {
                "rank": one.alarm.rank, "kind": one.alarm.kind, "since": one.alarm.since, "step": one.alarm.step,
                "before_ns": one.alarm.before_ns, "after_ns": one.alarm.after_ns, "score": round(one.alarm.score, 2),
                "period": one.alarm.period or None, "ranks": list(one.ranks), "over": one.over,
                "cause": one.cause.name if one.cause else None, "share": one.cause.share if one.cause else None,
            }
            for one in found.alarms
        ],
        "numbers": [
            {"rank": one.rank, "step": one.step, "kind": one.kind, "text": one.text, "do": one.do}
            for one in found.wrong
        ],
        "causes": [
            {"name": one.name, "rank": one.rank, "cost_ns": one.cost_ns, "share": round(one.share, 4), "note": one.note}
            for one in found.causes
        ],
    }  # fmt: skip
