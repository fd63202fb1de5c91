"""Writes the list of operators worth tuning: as text, JSON, a script that runs each alone, or a tuner's input file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import TextIO

from hermes.base.errors import Diagnostic
from hermes.base.units import duration
from hermes.model.operator_work import KernelAlone, Lever, OperatorWork
from hermes.report.document_json import coverage_of, envelope
from hermes.report.format import harmless_line
from hermes.report.json_values import text_of

SCHEMA = "hermes.operators/1"
_NAME, _SHAPES, _LEVERS = 60, 72, 3
_UNEVEN = 1.05
_EMPTY = "CASES: list[dict[str, Any]] = []"


def render_work(works: Sequence[OperatorWork], out: TextIO, tell: Callable[[str], str] = str) -> None:
    """Draw a paragraph for each operator: its cost, its limit, and the changes to try with their largest saving."""
    for number, one in enumerate(works, 1):
        cost = one.cost
        alone = f"; {tell(f'alone {duration(one.alone_ns)}')}" if one.alone_ns is not None else ""
        out.write(f"{number:>3}. {_named(cost.operator)}  [{cost.kind}]\n")
        if cost.shapes:
            types = f"  {_short(cost.dtypes)}" if cost.dtypes else ""
            out.write(f"     {_short(cost.shapes)}{types}\n")
        calls = f"{tell(f'{cost.calls} calls of {duration(cost.median_ns)}')}{alone}"
        out.write(f"     {duration(cost.ns)} ({tell(f'{cost.share:.1%} of compute')}), {calls}\n")
        out.write(f"     {tell(f'limited by {harmless_line(one.limited_by)}')}\n")
        for lever in one.levers[:_LEVERS]:
            out.write(f"     - {_said(lever, tell)}\n")
        out.write("\n")


def render_alone(
    kernels: Sequence[KernelAlone], works: Sequence[OperatorWork], out: TextIO, tell: Callable[[str], str] = str
) -> None:
    """Draw what the vendor's operator profiler measured of single kernels, beside the calls in the step."""
    out.write(f"{tell('Measured alone by msprof op')}\n")
    for one in kernels:
        length = duration(one.dur_ns) if one.dur_ns is not None else tell("in the simulator")
        told = [length, *([tell(f"{one.blocks} blocks")] if one.blocks else [])]
        if one.mhz and one.rated_mhz and one.mhz < one.rated_mhz:
            told.append(tell(f"at {one.mhz:.0f} of {one.rated_mhz:.0f} MHz"))
        if one.slowest and one.slowest >= _UNEVEN:
            told.append(tell(f"its longest block takes {one.slowest:.2f} times the mean"))
        out.write(f"  {_named(one.name)}  {', '.join(told)}\n")
        if one.pipes:
            shares = ", ".join(f"{harmless_line(name)} {share:.0%}" for name, share in one.pipes[:_LEVERS])
            out.write(f"     {tell('pipes')}: {shares}\n")
        for work in (work for work in works if one.is_of(work.cost.operator)):
            step = tell(f"in the step: {work.cost.calls} calls of {duration(work.cost.median_ns)}")
            out.write(f"     {step}  {_short(work.cost.shapes)}\n")


def as_json(
    works: Sequence[OperatorWork],
    kernels: Sequence[KernelAlone] = (),
    paths: Sequence[str] = (),
    notes: Sequence[Diagnostic] = (),
) -> str:
    """The list of operators as JSON, `hermes.operators/1`; times in nanoseconds."""
    rows = [
        {
            "operator": one.cost.operator, "class": one.cost.kind, "shapes": one.cost.shapes,
            "dtypes": one.cost.dtypes, "chip": one.cost.chip, "ranks": list(one.cost.ranks), "calls": one.cost.calls,
            "total_ns": one.cost.ns, "median_ns": one.cost.median_ns, "share": one.cost.share,
            "flops": one.cost.flops, "bytes": one.cost.bytes, "limit": one.cost.limit,
            "roof_share": one.cost.roof_share, "limited_by": one.limited_by, "alone_ns": one.alone_ns,
            "levers": [{"what": lever.what, "why": lever.why, "most_ns": lever.most_ns} for lever in one.levers],
        }
        for one in works
    ]  # fmt: skip
    alone = [
        {
            "kernel": one.name, "kind": one.kind, "duration_ns": one.dur_ns, "blocks": one.blocks, "mhz": one.mhz,
            "rated_mhz": one.rated_mhz, "pipes": dict(one.pipes), "longest_block": one.slowest, "where": one.where,
            "operators": list(dict.fromkeys(work.cost.operator for work in works if one.is_of(work.cost.operator))),
        }
        for one in kernels
    ]  # fmt: skip
    inputs = [{"path": text_of(path), "role": "profile"} for path in paths]
    head = envelope(SCHEMA, inputs=inputs, coverage=coverage_of(notes), findings=())
    told = {**head, "operators": rows, **({"alone": alone} if kernels else {})}
    return json.dumps(told, ensure_ascii=False, indent=1) + "\n"


def as_script(works: Sequence[OperatorWork]) -> str:
    """A Python program that runs each operator by itself; it needs PyTorch and nothing of Hermes."""
    cases = [
        {
            "operator": one.cost.operator, "shapes": one.cost.shapes, "dtypes": one.cost.dtypes,
            "median_us": one.cost.median_ns / 1_000,
        }
        for one in works
        if one.cost.shapes
    ]  # fmt: skip
    lines = "".join(f"    {json.dumps(case)},\n" for case in cases)
    text = files("hermes.knowledge").joinpath("run_operators.py").read_text("utf-8")
    return text.replace(_EMPTY, f"{_EMPTY[:-2]}[\n{lines}]")


def as_tuning_file(works: Sequence[OperatorWork]) -> str:
    """The types of the operators for the vendor's tuner: JSON with `tune_ops_type`, each type once."""
    return json.dumps({"tune_ops_type": list(dict.fromkeys(one.cost.operator for one in works))}, indent=1) + "\n"


def _said(lever: Lever, tell: Callable[[str], str]) -> str:
    won = f"at most {duration(lever.most_ns)}" if lever.most_ns else "not known how much"
    return f"{tell(lever.what)} ({tell(won)}): {tell(lever.why)}"


def _named(text: str) -> str:
    return _cut(harmless_line(text), _NAME)


def _short(text: str) -> str:
    # An input that was not a tensor leaves its place empty.
    return _cut(harmless_line(text.rstrip(";")), _SHAPES)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
