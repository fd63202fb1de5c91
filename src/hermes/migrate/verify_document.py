"""Makes a document of a verification: the answer, the first differences or the error, the runs and their losses."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.knowledge.confidence import CONFIDENCE
from hermes.migrate import verification_outcome as say
from hermes.migrate.verification_outcome import Outcome, Program, Where
from hermes.migrate.verify import Difference, ProgramRun, Verdict
from hermes.model.document import CodeText, Column, Document, DocumentInput, Part, Table
from hermes.model.finding import Finding
from hermes.model.leaf import Risk

SCHEMA = "hermes.migrate/1"
_SHOWN = 12


def verify_document(verdict: Verdict, converted: str, original: str | None) -> Document:
    """The document of a verification of two trees."""
    runs = [(Program.CONVERTED, verdict.converted)]
    if verdict.original is not None:
        runs.append((Program.ORIGINAL, verdict.original))
    sources = [DocumentInput(path=converted, role="converted")]
    if original is not None:
        sources.append(DocumentInput(path=original, role="original"))
    losses = say.losses(n=verdict.again.steps if verdict.again and verdict.again.same else verdict.steps)
    return Document(
        schema=SCHEMA, inputs=tuple(sources),
        answer=say.answer(
            outcome=verdict.outcome.message, where=verdict.converted.where.message,
            losses=losses if verdict.steps else None,
        ),
        coverage=tuple(_coverage(verdict)), findings=tuple(_findings(verdict)), facts=_facts(verdict),
        parts=(_runs(runs), *_losses(verdict), *_outputs(runs)),
    )  # fmt: skip


def _coverage(verdict: Verdict) -> Iterator[Diagnostic]:
    if verdict.original is None:
        yield Diagnostic(level="degraded", message=say.NO_ORIGINAL, hint=say.GIVE_ORIGINAL)
    elif verdict.original.failed:
        yield Diagnostic(level="degraded", message=Outcome.ORIGINAL_FAILED.message, hint=say.GIVE_ORIGINAL)
    for run in (verdict.converted, verdict.original):
        for one in run.unwritten if run else ():
            yield Diagnostic(level="degraded", message=say.not_written(what=one))
    if verdict.again is not None and verdict.again.memory:
        yield Diagnostic(level="info", message=say.ABOUT_MEMORY)
    if verdict.converted.unlisted:
        calls = verdict.converted.unlisted
        shown = [*calls[:_SHOWN], *(["…"] if len(calls) > _SHOWN else [])]
        yield Diagnostic(level="info", message=say.about_types(calls=shown), hint=say.TRY_ON_NPU)
    if verdict.converted.where is Where.STAND_IN:
        following = say.NEXT_STEP if verdict.holds else ""
        yield Diagnostic(level="info", message=say.ABOUT_STAND_IN, hint=following)


def _findings(verdict: Verdict) -> Iterator[Finding]:
    run = verdict.converted
    if run.failed and run.error and verdict.outcome in (Outcome.FAILED, Outcome.REFUSED):
        yield _finding("verify-stops", Risk.STOPS, say.raised(error=run.error))
    for one in verdict.differences:
        yield _difference(one, "verify-differs", original=True)
    again = verdict.again
    for varying in (again.original, again.converted) if again else ():
        for one in varying:
            yield _difference(one, "verify-varies", original=False)
    for one in again.filled if again else ():
        yield _difference(one, "verify-differs", original=True)


def _difference(one: Difference, code: str, *, original: bool) -> Finding:
    what = one.what.message
    if one.original is None or one.converted is None:
        program = (Program.CONVERTED if one.original is None else Program.ORIGINAL).message
        text = say.one_alone(what=what, rank=one.rank, step=one.step, program=program)
    elif original:
        text = say.differs(
            what=what, rank=one.rank, step=one.step, original=repr(one.original), converted=repr(one.converted)
        )
    else:
        text = say.varies(what=what, rank=one.rank, step=one.step, first=repr(one.original), second=repr(one.converted))
    return _finding(code, Risk.WRONG_NUMBERS if original else Risk.NOTE, text)


def _finding(code: str, about: Risk, text: Message) -> Finding:
    return Finding(code=code, about=about, message=text, confidence=CONFIDENCE["migrate.run"].value)


def _facts(verdict: Verdict) -> dict[str, object]:
    again = verdict.again
    return {
        "kind": "verify", "outcome": verdict.outcome.value, "holds": verdict.holds, "losses_compared": verdict.steps,
        "converted": _run(verdict.converted),
        "original": _run(verdict.original) if verdict.original else None,
        "on_cpu": _run(verdict.on_cpu) if verdict.on_cpu else None,
        "differences": _plain(verdict.differences),
        "again": None if again is None else {
            "original": _plain(again.original), "converted": _plain(again.converted),
            "reads_unwritten_memory": again.memory, "filled": _plain(again.filled), "filled_steps": again.steps,
        },
    }  # fmt: skip


def _plain(found: Sequence[Difference]) -> list[dict[str, object]]:
    return [
        {"what": one.what.value, "rank": one.rank, "step": one.step,
         "original": None if one.original is None else repr(one.original),
         "converted": None if one.converted is None else repr(one.converted)}
        for one in found
    ]  # fmt: skip


def _run(run: ProgramRun) -> dict[str, object]:
    return {
        "command": list(run.command), "where": run.where.value, "exit_code": run.code, "seconds": round(run.seconds, 2),
        "losses": {rank: [one.hex() for one in losses] for rank, losses in run.losses.items()},
        "weights": {rank: [one.hex() for one in weights] for rank, weights in run.weights.items()},
        "ended_by": run.cause, "error": run.error or None,
    }  # fmt: skip


def _runs(runs: Sequence[tuple[Program, ProgramRun]]) -> Table:
    columns = (
        Column(key="program", title=say.COLUMN_PROGRAM, kind="word"),
        Column(key="where", title=say.COLUMN_WHERE, kind="word"),
        Column(key="command", title=say.COLUMN_COMMAND, kind="name"),
        Column(key="seconds", title=say.COLUMN_SECONDS, kind="number"),
        Column(key="exit_code", title=say.COLUMN_CODE, kind="count"),
    )
    rows = [
        (name.message, run.where.message, shlex.join(run.command), round(run.seconds, 1), run.code)
        for name, run in runs
    ]  # fmt: skip
    return Table(key="runs", title=say.TITLE_RUNS, columns=columns, rows=rows)


def _losses(verdict: Verdict) -> tuple[Part, ...]:
    """Each loss of each rank, of both programs."""
    original = verdict.original.losses if verdict.original else {}
    rows: list[tuple[object, ...]] = []
    for rank in sorted({*original, *verdict.converted.losses}):
        before, after = original.get(rank, ()), verdict.converted.losses.get(rank, ())
        for step in range(max(len(before), len(after))):
            pair = (before[step] if step < len(before) else None, after[step] if step < len(after) else None)
            rows.append((rank, step, *pair))
    columns = (
        Column(key="rank", title=say.COLUMN_RANK, kind="name"),
        Column(key="step", title=say.COLUMN_STEP, kind="count"),
        Column(key="original", title=Program.ORIGINAL.message, kind="number"),
        Column(key="converted", title=Program.CONVERTED.message, kind="number"),
    )
    return (Table(key="losses", title=say.TITLE_LOSSES, columns=columns, rows=rows),) if rows else ()


def _outputs(runs: Sequence[tuple[Program, ProgramRun]]) -> tuple[CodeText, ...]:
    return tuple(
        CodeText(key=f"output/{name.value}", title=say.title_output(program=name.message), text=run.output_tail)
        for name, run in runs
        if run.failed and run.output_tail
    )
