"""One Python file under scan: its names and types, the places found, and the edits of each style."""

from __future__ import annotations

import ast
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes.base.message import Message
from hermes.migrate.python.device_value_flow import DeviceValueFlow
from hermes.migrate.python.device_words import BACKEND, DEVICE
from hermes.migrate.python.infer_value_kinds import ValueKinds
from hermes.migrate.python.project_definitions import Project
from hermes.migrate.python.resolve_names import ResolvedNames
from hermes.migrate.python.syntax_tree import Scope, Source
from hermes.migrate.rules import RULES
from hermes.migrate.scan_model import Edit, Effort, SourcePlace, Style, Sure, Target
from hermes.model.leaf import Risk

# The names have an underscore, so programs that read their own globals, or `import *`, do not see them.
ACCELERATOR, MODULE, COLLECTIVES = "_ACCELERATOR", "_DEVICE_MODULE", "_COLLECTIVES"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChange:
    """Text for a span of the file. `needs` are the constants that the text uses; convert defines these at the top."""

    start: int
    end: int
    text: str
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlace:
    """A place with the change of each style: None if the style changes nothing, `()` if no change is needed.

    `node` is the place in the syntax tree, in a Python file.
    """

    place: SourcePlace
    native: Sequence[TextChange] | None
    shim: Sequence[TextChange] | None
    node: ast.AST | None = None

    def changes(self, style: Style) -> Sequence[TextChange] | None:
        """The change that a style makes at the place."""
        return self.native if style is Style.NATIVE else self.shim


@dataclass(slots=True)
class File:
    """A Python file with all that the scan knows of it."""

    source: Source
    project: Project
    target: Target
    names: ResolvedNames = field(init=False)
    kinds: ValueKinds = field(init=False)
    devices: DeviceValueFlow = field(init=False)
    backends: DeviceValueFlow = field(init=False)
    found: list[FoundPlace] = field(default_factory=list)
    apis: dict[str, int] = field(default_factory=dict)
    settled: set[ast.AST] = field(default_factory=set)
    own: dict[str, bool] = field(default_factory=dict)
    leaving: dict[int, ast.If | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = ResolvedNames(self.source)
        self.kinds = ValueKinds(self.source, self.names, self.project)
        self.devices = DeviceValueFlow(DEVICE, self.source, self.names, self.kinds, self.project)
        self.backends = DeviceValueFlow(BACKEND, self.source, self.names, self.kinds, self.project)

    def add(
        self,
        rule: str,
        node: ast.expr | ast.stmt,
        what: Message,
        *,
        sure: Sure = Sure.PROVEN,
        native: Sequence[TextChange] | None = None,
        shim: Sequence[TextChange] | None = None,
        why: Message | None = None,
        todo: Message | None = None,
        effect: Risk | None = None,
        effort: Effort | None = None,
    ) -> None:
        """Note a place by its rule; the rule's reason, advice, effect and effort hold where no other is given."""
        one = RULES[rule]
        start, end = self.source.span(node)
        (line, column), (end_line, end_column) = self.source.place(start), self.source.place(end)
        place = SourcePlace(
            rule=rule, line=line, column=column, end_line=end_line, end_column=end_column, what=what,
            why=why or one.why, todo=todo or one.todo, effect=effect or one.effect,
            sure=sure, effort=effort or one.effort,
            converts=bool(native), later=one.later,
        )  # fmt: skip
        self.found.append(FoundPlace(place=place, native=native, shim=shim, node=node))

    def replace(self, node: ast.expr, text: str, *needs: str) -> tuple[TextChange, ...] | None:
        """The change that replaces an expression by `text`; None if the expression's span is not exact."""
        span = self.source.exact(node)
        if span is None:
            return None
        return (TextChange(start=span[0], end=span[1], text=text, needs=frozenset(needs)),)

    def text(self, node: ast.expr) -> str:
        """The text of an expression as written."""
        start, end = self.source.span(node)
        return self.source.text[start:end]

    def torch(self, scope: Scope) -> str:
        """The name of torch at a place; convert imports torch if it has no name there."""
        return self.names.local_name("torch", scope) or "torch"

    def shadowed(self, scope: Scope, *names: str) -> bool:
        """Whether a name that an edit would write means something else at a place."""
        return any(
            (found := scope.find(name)) is not None
            and found[0].parent is not None
            and self.names.of_name(name, scope) != "torch"
            for name in names
        )


def edits_of(
    found: Sequence[FoundPlace], style: Style, least: Sequence[Sure]
) -> tuple[list[Edit], set[str], list[SourcePlace]]:
    """The sure enough edits of a style, the constants that the edits need, and the places that are left."""
    edits: dict[tuple[int, int], Edit] = {}
    spans: list[tuple[int, int]] = []
    needs: set[str] = set()
    left: list[SourcePlace] = []
    for one in found:
        changes = one.changes(style)
        if changes is None or one.place.sure not in least or any(_clashes(change, edits, spans) for change in changes):
            left.append(one.place)
            continue
        for change in changes:
            needs |= change.needs
            if (change.start, change.end) not in edits:
                insort(spans, (change.start, change.end))
            edits[change.start, change.end] = Edit(
                start=change.start, end=change.end, text=change.text, rule=one.place.rule, sure=one.place.sure,
            )  # fmt: skip
    return [edits[span] for span in spans], needs, left


def _clashes(change: TextChange, edits: dict[tuple[int, int], Edit], spans: list[tuple[int, int]]) -> bool:
    """Whether a change overlaps an edit that was made already; `spans` are the sorted spans of the edits."""
    same = edits.get((change.start, change.end))
    if same is not None:
        return same.text != change.text
    for index in range(bisect_left(spans, (change.end, change.end)) - 1, -1, -1):
        start, end = spans[index]
        if change.start < end and start < change.end:
            return True
        if start < change.start:
            return False
    return False


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text after the edits, which must not overlap."""
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])
