"""Makes documents of a scan and of a conversion: the answer, findings, tables and diffs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hermes.base.errors import Diagnostic, InputError
from hermes.base.message import Message, Text
from hermes.knowledge import migration
from hermes.knowledge.confidence import CONFIDENCE
from hermes.migrate import document_messages as told
from hermes.migrate import messages as say
from hermes.migrate.scan_model import EFFECT_ORDER, Effort, FileChange, SourcePlace, Sure, Target, TreeChange, TreeScan
from hermes.migrate.summary import Group, by_importance, grouped, is_converted, not_checked, summarize, work
from hermes.migrate.write import diff_of
from hermes.model.advice_fit import Fit
from hermes.model.document import CodeText, Column, Document, DocumentInput, Part, Table
from hermes.model.finding import Action, Finding, SourceLine

SCHEMA = "hermes.migrate/1"
_ASCEND = Fit(chips=("ascend",))
_BY_TABLE = ("unsupported-api", "cpu-fallback", "dtype-limit")
_DOUBTS: Mapping[Sure, tuple[Text, ...]] = {
    Sure.PROVEN: (), Sure.LIKELY: (told.BY_HABIT,), Sure.GUESS: (told.BY_WORDS,)
}  # fmt: skip


def scan_document(tree: TreeScan, change: TreeChange | None = None) -> Document:
    """The obstacles between a source tree and a chip. After a conversion, also the diff of each changed file."""
    found = summarize(tree)
    chip = tree.target.chip
    apis = told.apis(used=found.apis_used, listed=found.apis_listed, on_chip=found.apis_on_chip, chip=chip)
    low, high = found.hours
    answer = told.can_it_move(
        chip=chip, torch=tree.target.torch, verdict=found.verdict.message, work=work(found.hours),
        missing=_missing(tree),
    )  # fmt: skip
    return Document(
        schema=SCHEMA, inputs=(_source(tree),), answer=answer,
        coverage=(*tree.skipped, Diagnostic(level="info", message=apis), *_unknown(tree)),
        findings=findings(tree.places),
        facts={
            "kind": "scan", "complete": not not_checked(tree), "verdict": found.verdict.value,
            "target": _target(tree.target), "effects": found.effects,
            "places": {"by_convert": found.by_convert, "by_hand": found.by_hand},
            "hours_by_hand": {"low": round(low, 1), "high": round(high, 1)},
            "torch_apis": {"used": found.apis_used, "listed": found.apis_listed, "on_chip": found.apis_on_chip},
        },
        parts=(*_obstacles(found.obstacles), _files(tree, change), *_apis(tree), *_diffs(change)),
    )  # fmt: skip


def convert_document(change: TreeChange) -> Document:
    """The changes of a conversion, and the places that it leaves."""
    changed = change.changed
    left = [(file.path, place) for file in change.files for place in file.left]
    by_hand = sum(place.effort is not Effort.NONE and place.effect in EFFECT_ORDER[:2] for _, place in left)
    edits = [edit for file in changed for edit in file.edits]
    answer = told.converted(
        edits=told.edits(n=len(edits)), files=told.files(n=len(changed)), style=change.style.message,
        left=told.places_left(n=by_hand) if by_hand else None, missing=_missing(change),
    )  # fmt: skip
    return Document(
        schema=SCHEMA, inputs=(DocumentInput(path=change.root, role="project"),), answer=answer,
        coverage=tuple(change.skipped),
        findings=findings(left),
        facts={
            "kind": "convert", "complete": not not_checked(change), "style": change.style.value,
            "target": _target(change.target), "converted": is_converted(change),
            "edits": {file.path: [_edit(file, at) for at in range(len(file.edits))] for file in changed},
        },
        parts=(_changed(change), *_diffs(change)),
    )  # fmt: skip


def findings(places: Iterable[tuple[str, SourcePlace]]) -> tuple[Finding, ...]:
    """A finding for each group of equal places, findings that stop the program first."""
    return tuple(map(_finding, grouped(by_importance(places))))


def _finding(group: Group) -> Finding:
    place = group.place
    return Finding(
        code=place.rule, about=place.effect, message=told.place(what=place.what, why=place.why),
        lines=tuple(_line(path, one) for path, one in group.where),
        confidence=CONFIDENCE[f"migrate.{place.sure.value}"].value,
        actions=(Action(title=place.todo, do=_who(place), verify="", risk="", source="", fit=_ASCEND),),
        doubts=(told.BY_TABLE,) if place.sure is Sure.LIKELY and place.rule in _BY_TABLE else _DOUBTS[place.sure],
    )  # fmt: skip


def _line(path: str, place: SourcePlace) -> SourceLine:
    return SourceLine(path, place.line, (place.column, place.end_line, place.end_column))


def _who(place: SourcePlace) -> Message:
    """Who settles a place, and how long that takes."""
    if place.converts:
        return told.BY_CONVERT
    if place.effort is not Effort.NONE:
        return told.by_hand(effort=place.effort.message)
    return told.once_measured(rule=place.later) if place.later else told.NO_WORK


def _missing(found: TreeScan | TreeChange) -> Message | None:
    count = not_checked(found)
    return told.files_not_checked(n=count) if count else None


def _source(tree: TreeScan) -> DocumentInput:
    """The source tree as an input, and how much of the tree was read."""
    kinds = Counter(file.kind for file in tree.files)
    facts = {
        "files": len(tree.files),
        "lines": sum(file.lines for file in tree.files),
        "kinds": dict(sorted(kinds.items())),
    }
    return DocumentInput(path=tree.root, role="project", facts=facts)


def _unknown(tree: TreeScan) -> Iterator[Diagnostic]:
    """A note about libraries that no table knows, for which Hermes has no advice."""
    names = sorted({name for file in tree.files for name in file.unknown})
    if names:
        yield Diagnostic(level="info", message=say.unknown_libraries(names=names), hint=say.CHECK_LIBRARIES)


def _target(target: Target) -> dict[str, str]:
    return {"torch": target.torch, "chip": target.chip}


def _edit(file: FileChange, at: int) -> dict[str, object]:
    edit = file.edits[at]
    return {"start": edit.start, "end": edit.end, "text": edit.text, "rule": edit.rule, "sure": edit.sure.value}


def _obstacles(rows: Sequence[Group]) -> tuple[Part, ...]:
    columns = (
        Column(key="effort", title=told.COLUMN_EFFORT, kind="word"),
        Column(key="what", title=told.COLUMN_WHAT, kind="word"),
        Column(key="todo", title=told.COLUMN_TODO, kind="word"),
        Column(key="places", title=told.COLUMN_PLACES, kind="count"),
        Column(key="first", title=told.COLUMN_FIRST, kind="name"),
    )
    made = [
        (one.place.effort.message, one.place.what, one.place.todo, len(one.where), str(_line(*one.where[0])))
        for one in rows
    ]  # fmt: skip
    return (Table(key="obstacles", title=told.TITLE_OBSTACLES, columns=columns, rows=made),) if made else ()


def _files(tree: TreeScan, change: TreeChange | None) -> Table:
    """The table of files with findings."""
    edits = {file.path: len(file.edits) for file in change.files} if change else {}
    columns = (
        Column(key="path", title=told.COLUMN_FILE, kind="name"),
        Column(key="kind", title=told.COLUMN_KIND, kind="name"),
        Column(key="lines", title=told.COLUMN_LINES, kind="count"),
        *(Column(key=effect.value, title=effect.message, kind="count") for effect in EFFECT_ORDER),
        *((Column(key="edits", title=told.COLUMN_EDITS, kind="count"),) if change else ()),
    )
    rows = []
    for file in tree.files:
        if not (file.places or edits.get(file.path)):
            continue
        counted = Counter(place.effect for place in file.places)
        counts = [counted[effect] for effect in EFFECT_ORDER] + ([edits.get(file.path, 0)] if change else [])
        rows.append((file.path, file.kind, file.lines, *counts))
    return Table(key="files", title=told.TITLE_FILES, columns=columns, rows=rows)


def _apis(tree: TreeScan) -> tuple[Part, ...]:
    used: Counter[str] = Counter()
    for file in tree.files:
        used.update(file.apis)
    table = migration.support(tree.target.torch)
    columns = (
        Column(key="api", title=told.COLUMN_API, kind="name"),
        Column(key="uses", title=told.COLUMN_USES, kind="count"),
        Column(key="chips", title=told.COLUMN_CHIPS, kind="name"),
    )
    rows = [(name, count, " ".join(sorted(table[name].chips)) if name in table else None)
            for name, count in sorted(used.items())]  # fmt: skip
    return (Table(key="apis", title=told.TITLE_APIS, columns=columns, rows=rows),) if rows else ()


def _changed(change: TreeChange) -> Table:
    columns = (
        Column(key="path", title=told.COLUMN_FILE, kind="name"),
        Column(key="edits", title=told.COLUMN_EDITS, kind="count"),
        Column(key="left", title=told.COLUMN_LEFT, kind="count"),
    )
    rows = [(file.path, len(file.edits), len(file.left)) for file in change.files if file.changed or file.left]
    return Table(key="files", title=told.TITLE_FILES, columns=columns, rows=rows)


def _diffs(change: TreeChange | None) -> tuple[CodeText, ...]:
    return _diffs_of(change.changed if change else ())


def _diffs_of(files: Iterable[FileChange]) -> tuple[CodeText, ...]:
    return tuple(
        CodeText(key=f"diff/{file.path}", title=told.title_diff(path=file.path), text="".join(diff_of(file)), diff=True)
        for file in files
    )


def file_view(tree: TreeScan, change: TreeChange, path: str) -> tuple[tuple[Finding, ...], CodeText | None]:
    """The findings and the diff of one file; raises `InputError` for a file that was not scanned."""
    file = next((one for one in tree.files if one.path == path), None)
    changed = next((one for one in change.files if one.path == path), None)
    if file is None or changed is None:
        raise InputError(told.NOT_SCANNED, where=path)
    places = sorted(((path, one) for one in file.places), key=lambda one: one[1].line)
    found = tuple(_finding(group) for group in grouped(places))
    return found, next(iter(_diffs_of([changed] if changed.changed else [])), None)
