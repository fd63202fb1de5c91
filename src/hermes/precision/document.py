"""Makes a document (`hermes.precision/1`) of a comparison of two recordings, and its operator table part by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.model.document import CodeText, Column, Document, DocumentInput, Part, Table
from hermes.model.finding import Finding
from hermes.model.leaf import Risk
from hermes.precision import column_titles
from hermes.precision.compare import Comparison
from hermes.precision.judgement_rows import Judgement, OperatorRow, SuspicionGround
from hermes.precision.messages import Phase
from hermes.precision.module_tree import tree
from hermes.precision.recorded_step import Recording

SCHEMA = "hermes.precision/1"
_MOST_OTHERS = 20
CHAIN = (
    Column(key="operator", title=column_titles.OPERATOR, kind="name"),
    Column(key="module", title=column_titles.MODULE, kind="name"),
    Column(key="line", title=column_titles.LINE, kind="name"),
    Column(key="apart", title=column_titles.APART, kind="number"),
    Column(key="amplification", title=column_titles.AMPLIFICATION, kind="number"),
)
OPERATORS = (
    Column(key="state", title=column_titles.STATE, kind="word"),
    Column(key="rank", title=column_titles.RANK, kind="count"),
    Column(key="step", title=column_titles.STEP, kind="count"),
    Column(key="phase", title=column_titles.PHASE, kind="word"),
    Column(key="operator", title=column_titles.OPERATOR, kind="name"),
    Column(key="module", title=column_titles.MODULE, kind="name"),
    Column(key="line", title=column_titles.LINE, kind="name"),
    Column(key="shape", title=column_titles.SHAPE, kind="list"),
    Column(key="dtype", title=column_titles.DTYPE, kind="name"),
    Column(key="inputs_apart", title=column_titles.INPUTS, kind="number"),
    Column(key="outputs_apart", title=column_titles.OUTPUTS, kind="number"),
    Column(key="of_tolerance", title=column_titles.TOLERANCE, kind="number"),
    Column(key="known_by", title=column_titles.KNOWN_BY, kind="word"),
    Column(key="cosine", title=column_titles.COSINE, kind="number"),
    Column(key="largest", title=column_titles.LARGEST, kind="number"),
)


def document(found: Comparison) -> Document:
    """The whole comparison as a document."""
    return replace(_envelope(found), parts=(*_parts(found), _operators(found)))


def _envelope(found: Comparison) -> Document:
    return Document(
        schema=SCHEMA, inputs=(source(found.golden, "golden"), source(found.target, "target")), answer=found.answer,
        coverage=found.diagnostics, findings=tuple(findings(found)), facts=_facts(found),
    )  # fmt: skip


def _facts(found: Comparison) -> dict[str, object]:
    return {"verdict": found.verdict, "counts": counts(found), "gaps": list(found.gaps)}


def source(run: Recording, role: str) -> DocumentInput:
    """A recording as an input of the document."""
    return DocumentInput(path=str(run.path), role=role, facts={"kind": run.kind, "what": run.what})


def findings(found: Comparison) -> Iterator[Finding]:
    """The finding for the first place where the runs part, then later places, then arguments without visible effect."""
    first = () if found.first is None else (found.first,)
    for one in (*first, *found.others[:_MOST_OTHERS]):
        yield one.finding
    for note in found.notes:
        yield Finding(
            code="argument_without_effect", about=Risk.NOTE, message=note,
            confidence=confidence(SuspicionGround.EXACT.value),
        )  # fmt: skip


def counts(found: Comparison) -> dict[str, int]:
    """How many operators are in each state."""
    return dict(Counter(row.state.value for one in found.judgements for row in one.rows))


def _parts(found: Comparison) -> Iterator[Part]:
    first = found.first
    if first is not None and first.code:
        yield CodeText(key="code", title=column_titles.CODE, text=first.code)
    if found.chain:
        links = [(one.operator, one.module, one.line, one.apart, one.amplification) for one in found.chain]
        yield Table(key="chain", title=column_titles.CHAIN, columns=CHAIN, rows=links)
    modules = tree(found)
    if modules.roots:
        yield modules


def _operators(found: Comparison) -> Table:
    rows = [cells(one, row) for one in found.judgements for row in one.rows]
    return Table(key="operators", title=column_titles.OPERATORS, columns=OPERATORS, rows=rows, marked=blamed(found))


def blamed(found: Comparison) -> int | None:
    """The index, among all operators, of the operator where the runs part; None if they do not."""
    place, first = 0, found.first
    for one in found.judgements:
        if first is not None and (one.rank, one.step) == (first.rank, first.step) and one.suspects:
            return place + min(suspect.at for suspect in one.suspects)
        place += len(one.rows)
    return None


def part_of(found: Comparison, *, first: int, count: int, state: str = "", module: str = "") -> Table:
    """The `count` rows from `first` of one state and one module with its submodules; `total` counts all such rows."""
    matching = [
        (one, row) for one in found.judgements for row in one.rows
        if (not state or row.state == state) and (not module or _inside(one, row, module))
    ]  # fmt: skip
    shown = [cells(one, row) for one, row in matching[first : first + count]]
    return Table(key="operators", title=column_titles.OPERATORS, columns=OPERATORS, rows=shown, total=len(matching))


def overview(found: Comparison) -> Document:
    """The document without the operator table, with the index where the runs part: what a page shows first."""
    table = {"total": sum(len(one.rows) for one in found.judgements), "marked": blamed(found)}
    return replace(_envelope(found), facts={**_facts(found), "table": table}, parts=tuple(_parts(found)))


def _inside(one: Judgement, row: OperatorRow, module: str) -> bool:
    op = one.target.ops[row.target] if row.target is not None else one.golden.ops[row.golden or 0]
    return op.module == module or op.module.startswith(f"{module}.")


def cells(one: Judgement, row: OperatorRow) -> tuple[object, ...]:
    """The cells of one row of the operator table."""
    step, place = (one.target, row.target) if row.target is not None else (one.golden, row.golden)
    assert place is not None
    op = step.ops[place]
    value = step.values[op.outputs[0]] if op.outputs else None
    went = row.outputs
    numbers: Iterable[float | None] = (
        row.inputs.relative if row.inputs else None, went.relative if went else None, row.ratio,
    )  # fmt: skip
    return (
        row.state, one.rank, one.step, next((known for known in Phase if known.value == op.phase), op.phase),
        op.parameter or op.name, op.module or None, op.line or None, list(value.shape) if value else None,
        value.dtype if value else None, *numbers, went.known if went else None,
        went.cosine if went else None, went.largest if went else None,
    )  # fmt: skip
