"""Writes a comparison of two runs: the JSON document `hermes.compare/1`, and lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hermes.base.errors import Diagnostic
from hermes.base.say import say
from hermes.model.comparison import Comparison, FindingChange, RankInBothRuns, SettingChange, TimeChange
from hermes.report.document_json import coverage_of, envelope
from hermes.report.findings_json import text_document
from hermes.report.format import counted, duration, fraction, harmless_line
from hermes.report.json_values import finite, maybe, ms, text_of
from hermes.report.localized_texts import Tell

SCHEMA = "hermes.compare/1"
_ROWS = 12
_BESIDE = 64
_WORDS = {
    "window": "step", "compute": "compute", "exposed_comm": "exposed communication", "copy_exposed": "exposed copies",
    "free": "free",
}  # fmt: skip


def comparison_document(found: Comparison) -> dict[str, object]:
    """The comparison as JSON values: milliseconds give back the nanosecond by `round(ms * 1e6)`, None is null."""
    step_ns = found.step.before_ns
    unmet = [Diagnostic(level="degraded", message=one) for one in found.unmet]
    return {
        **envelope(SCHEMA, inputs=[_input(found, at) for at in (0, 1)], coverage=coverage_of(unmet), findings=()),
        "answer": text_document(found.answer),
        "outcome": found.outcome,
        "step": _change(found.step, step_ns),
        "parts": [_change(part, step_ns) for part in found.parts],
        **{key: [_change(row, step_ns) for row in rows] for key, rows in found.names.items()},
        **({"beside": [_beside(row) for row in found.beside]} if found.beside else {}),
        "finding_changes": [_finding(row) for row in found.findings],
        "settings": [_setting(row) for row in found.settings],
    }


def _input(found: Comparison, at: int) -> dict[str, object]:
    return {
        "path": text_of(found.titles[at]), "role": ("before", "after")[at], "steps": found.steps[at],
        "ranks": found.ranks[at],
    }  # fmt: skip


def _change(row: TimeChange, step_ns: int | None) -> dict[str, object]:
    share = None if row.change_ns is None or not step_ns else finite(row.change_ns / step_ns)
    shown: dict[str, object] = {
        "name": text_of(row.name), "kind": text_of(row.kind), "before_ms": ms(row.before_ns),
        "after_ms": ms(row.after_ns), "change_ms": ms(row.change_ns), "change_share": share,
        "margin_ms": ms(row.margin_ns), "verdict": row.verdict,
    }  # fmt: skip
    if row.before_calls is not None:
        shown |= {"before_calls": finite(row.before_calls), "after_calls": finite(row.after_calls)}
    return shown


def _beside(row: RankInBothRuns) -> dict[str, object]:
    made: dict[str, object] = {"rank": row.rank}
    if row.steps is not None:
        made |= {"step_before": row.steps[0], "step_after": row.steps[1]}
    for time in row.times:
        made |= {
            f"{time.name}_before_ms": ms(time.before_ns), f"{time.name}_after_ms": ms(time.after_ns),
            f"{time.name}_change_ms": ms(time.change_ns),
        }  # fmt: skip
    return made if row.steps is not None else made | {"verdict": row.times[0].verdict}


def _finding(row: FindingChange) -> dict[str, object]:
    change = None if row.before_ns is None or row.after_ns is None else row.after_ns - row.before_ns
    return {
        "state": row.state, "code": row.code, "message": text_document(row.message),
        "fault": None if row.fault is None else row.fault.value,
        "before_ms": ms(row.before_ns), "after_ms": ms(row.after_ns), "change_ms": ms(change),
    }  # fmt: skip


def _setting(row: SettingChange) -> dict[str, object]:
    return {
        "source": text_of(row.source), "name": text_of(row.name), "before": maybe(row.before),
        "after": maybe(row.after),
    }  # fmt: skip


def comparison_lines(found: Comparison, tell: Tell = say) -> Iterator[str]:
    """The comparison for a terminal, in the reader's language; a shortened list says how many entries it leaves out."""
    yield tell(found.answer)
    yield ""
    for word, title, steps, ranks in zip(("before", "after "), found.titles, found.steps, found.ranks, strict=True):
        yield f"{tell(word)}  {harmless_line(title)}: {tell(counted(steps, 'step'))}, {tell(counted(ranks, 'rank'))}"
    yield ""
    for row in (found.step, *found.parts):
        yield _line(row, tell(_WORDS.get(row.name, row.name)))
    yield ""
    yield tell("Middle steps, the mean over ranks; ± is what chance alone may change, * what is beyond it.")
    if found.unmet and found.step.margin_ns is None:
        yield tell("A run has fewer than three steps: nothing says what chance alone may change.")
    yield from _rows_beside(found.beside, tell)
    for key, rows in found.names.items():
        changed = [row for row in rows if row.verdict in ("less", "more")] or list(rows)
        yield ""
        some = f"{len(changed)} of {len(rows)} names changed"
        yield f"{tell(key)}: {tell(some)}" if changed != list(rows) else f"{tell(key)}:"
        yield from (_line(row, f"{tell(row.kind)} {row.name}") for row in changed[:_ROWS])
        if len(changed) > _ROWS:
            yield f"  {tell(f'… and {len(changed) - _ROWS} more, in --format json')}"
    yield from _findings(found, tell)
    for setting in found.settings[:_ROWS]:
        before, after = _said(setting.before, tell), _said(setting.after, tell)
        yield f"{tell('set')}     {harmless_line(setting.name)}: {before} -> {after}"


def _rows_beside(rows: Sequence[RankInBothRuns], tell: Tell) -> Iterator[str]:
    """A line for each rank or step; if there are many, only those that changed most."""
    if not rows:
        return
    yield ""
    yield tell("Side by side, by what the step changed:")
    largest = sorted(rows, key=lambda row: -abs(row.times[0].change_ns or 0))
    for row in largest[:_BESIDE]:
        steps = "" if row.steps is None else f", {tell('step')} {_number(row.steps[0])} | {_number(row.steps[1])}"
        moved = [part for part in row.times[1:] if part.change_ns]
        most = max(moved, key=lambda part: abs(part.change_ns or 0), default=None)
        of = "" if most is None else f": {tell(_WORDS.get(most.name, most.name))} {_signed(most.change_ns or 0)}"
        yield _line(row.times[0], f"{tell('rank')} {row.rank}{steps}{of}")
    if len(rows) > _BESIDE:
        yield f"  {tell(f'… and {len(rows) - _BESIDE} more, in --format json')}"


def _number(step: int | None) -> str:
    return "–" if step is None else str(step)


def _signed(ns: int) -> str:
    return f"{'+' if ns > 0 else ''}{duration(ns)}"


def _findings(found: Comparison, tell: Tell) -> Iterator[str]:
    yield ""
    if not found.findings:
        yield tell("No finding in either run.")
    for row in found.findings:
        costs = " -> ".join(duration(ns) if ns is not None else tell("none") for ns in (row.before_ns, row.after_ns))
        yield f"{tell(row.state):<7} {row.code}  {costs}  {harmless_line(tell(row.message))}"


def _line(row: TimeChange, name: str) -> str:
    margin = "" if row.margin_ns is None else f"±{duration(row.margin_ns)}"
    change = "" if row.change_ns is None else _signed(row.change_ns)
    share = f" ({fraction(abs(row.change_ns) / row.before_ns)})" if row.change_ns and row.before_ns else ""
    star = "*" if row.verdict in ("less", "more") else " "
    times = f"{_of(row.before_ns):>10} {_of(row.after_ns):>10} {change + share:>20} {margin:>10}"
    return f"{star} {times}  {harmless_line(name)[:120]}"


def _of(ns: int | None) -> str:
    return "–" if ns is None else duration(ns)


def _said(value: str | None, tell: Tell) -> str:
    return tell("not recorded") if value is None else repr(harmless_line(value)[:60])
