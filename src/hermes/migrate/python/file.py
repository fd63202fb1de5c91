"""One Python file under scan: what is known of it, and what was found, with the edits that each style makes of it."""

from __future__ import annotations

import ast
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes.base.message import Message
from hermes.migrate.model import Edit, Effort, Place, Style, Sure, Target
from hermes.migrate.python.flow import Flow
from hermes.migrate.python.kinds import Kinds
from hermes.migrate.python.names import Names
from hermes.migrate.python.project import Project
from hermes.migrate.python.source import Scope, Source
from hermes.migrate.python.words import BACKEND, DEVICE
from hermes.migrate.rules import RULES
from hermes.model.leaf import Risk

# With an underscore: programs that read their own globals, or `import *`, do not see these.
ACCELERATOR, MODULE, COLLECTIVES = "_ACCELERATOR", "_DEVICE_MODULE", "_COLLECTIVES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Text for a span of the file. `needs` are the constants that it reads, which convert defines at the top."""

    start: int
    end: int
    text: str
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A place, and what each style does about it: None where it does nothing, `()` where nothing has to be done.

    `node` is the part of the syntax tree that was found, in a Python file.
    """

    place: Place
    native: Sequence[Change] | None
    shim: Sequence[Change] | None
    node: ast.AST | None = None

    def changes(self, style: Style) -> Sequence[Change] | None:
        """What a style does about the place."""
        return self.native if style is Style.NATIVE else self.shim


@dataclass(slots=True)
class File:
    """Everything that is known of one file."""

    source: Source
    project: Project
    target: Target
    names: Names = field(init=False)
    kinds: Kinds = field(init=False)
    devices: Flow = field(init=False)
    backends: Flow = field(init=False)
    found: list[Found] = field(default_factory=list)
    apis: dict[str, int] = field(default_factory=dict)
    settled: set[ast.AST] = field(default_factory=set)
    own: dict[str, bool] = field(default_factory=dict)
    leaving: dict[int, ast.If | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names(self.source)
        self.kinds = Kinds(self.source, self.names, self.project)
        self.devices = Flow(DEVICE, self.source, self.names, self.kinds, self.project)
        self.backends = Flow(BACKEND, self.source, self.names, self.kinds, self.project)

    def add(
        self,
        rule: str,
        node: ast.expr | ast.stmt,
        what: Message,
        *,
        sure: Sure = Sure.PROVEN,
        native: Sequence[Change] | None = None,
        shim: Sequence[Change] | None = None,
        why: Message | None = None,
        todo: Message | None = None,
        effect: Risk | None = None,
        effort: Effort | None = None,
    ) -> None:
        """Note a place by its rule, whose reason, advice, effect and effort hold where none are given."""
        one = RULES[rule]
        start, end = self.source.span(node)
        (line, column), (end_line, end_column) = self.source.place(start), self.source.place(end)
        place = Place(
            rule=rule, line=line, column=column, end_line=end_line, end_column=end_column, what=what,
            why=why or one.why, todo=todo or one.todo, effect=effect or one.effect,
            sure=sure, effort=effort or one.effort,
            converts=bool(native), later=one.later,
        )  # fmt: skip
        self.found.append(Found(place=place, native=native, shim=shim, node=node))

    def replace(self, node: ast.expr, text: str, *needs: str) -> tuple[Change, ...] | None:
        """The change that puts `text` in the place of an expression; None where its place is not exact."""
        span = self.source.exact(node)
        if span is None:
            return None
        return (Change(start=span[0], end=span[1], text=text, needs=frozenset(needs)),)

    def text(self, node: ast.expr) -> str:
        """The text of an expression as it is written."""
        start, end = self.source.span(node)
        return self.source.text[start:end]

    def torch(self, scope: Scope) -> str:
        """How torch is called at a place; convert imports it where it is not."""
        return self.names.local_name("torch", scope) or "torch"

    def shadowed(self, scope: Scope, *names: str) -> bool:
        """Whether a name that an edit would write means something else at a place."""
        return any(
            (found := scope.find(name)) is not None
            and found[0].parent is not None
            and self.names.of_name(name, scope) != "torch"
            for name in names
        )


def edits_of(found: Sequence[Found], style: Style, least: Sequence[Sure]) -> tuple[list[Edit], set[str], list[Place]]:
    """The edits of a style without those that are not sure enough, the constants that they need, and what is left."""
    edits: dict[tuple[int, int], Edit] = {}
    spans: list[tuple[int, int]] = []
    needs: set[str] = set()
    left: list[Place] = []
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


def _clashes(change: Change, edits: dict[tuple[int, int], Edit], spans: list[tuple[int, int]]) -> bool:
    """Whether a change meets an edit that was made already; `spans` are those of the edits, in order."""
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
    """The text with the edits made, which must not overlap."""
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])
