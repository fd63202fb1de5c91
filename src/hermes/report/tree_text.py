"""Draws the time of the job as a tree on a terminal: device work and idle time, then leaves with their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hermes.base.message import Message
from hermes.model.report import Report
from hermes.report import tree_messages as say_that
from hermes.report.format import duration, share
from hermes.report.terminal_lines import Screen
from hermes.report.tree import LEAST, TimeTree, TreeLeaf, TreePart, TreeRow, time_tree

_MOST, _NAMES = 6, 2
_NAME_LETTERS, _TITLE = 44, 40


def draw_tree(screen: Screen, report: Report, lines: int | None = None) -> None:
    """Draw the leaves by part, the largest first, on about `lines` lines; draw nothing if no time was accounted for."""
    tree = next(
        filter(lambda tree: _fits(tree, lines), (time_tree(report, most) for most in range(_MOST, 1, -1))), None
    )
    tree = tree or time_tree(report, 1)
    if tree is None:
        return
    screen.gap()
    screen.line((screen.say(say_that.TITLE), "bold"), f"  ({screen.say(tree.of)})")
    for part in tree.parts:
        whole, leaves = tree.of_steps(part), _leaves(tree, part)
        if len(leaves) == 1 and leaves[0].ns == part.ns:
            _line(screen, tree, whole, 2, part.ns, _both(screen, part, leaves[0]), _told(screen, leaves[0]))
            continue
        _line(screen, tree, whole, 2, part.ns, part.title, "")
        for leaf in leaves:
            _line(screen, tree, whole, 4, leaf.ns, leaf.title, _told(screen, leaf))


def _leaves(tree: TimeTree, part: TreePart) -> Sequence[TreeLeaf]:
    return part.leaves if part.ns >= LEAST * tree.whole_ns else ()


def _both(screen: Screen, part: TreePart, leaf: TreeLeaf) -> Message:
    """The title of a state of the device that has one leaf: both titles, or the leaf's alone if it names the state."""
    if leaf.leaf is None:
        return part.title
    if screen.say(leaf.title).startswith(screen.say(part.title)):
        return leaf.title
    return say_that.only(part=part.title, leaf=leaf.title)


def _told(screen: Screen, leaf: TreeLeaf) -> str:
    return _words(screen, leaf.rows, leaf.ns) if leaf.leaf else ""


def _fits(tree: TimeTree | None, lines: int | None) -> bool:
    """Whether a tree has at most this many lines."""
    if tree is None or lines is None:
        return True
    return sum(1 + len(_leaves(tree, part)) for part in tree.parts) <= lines


def _line(screen: Screen, tree: TimeTree, whole: int, indent: int, ns: int, title: Message, words: str) -> None:
    head = f"{duration(tree.each(ns)):>9}  {share(ns, whole):>6}  {' ' * (indent - 2)}"
    name = screen.say(title)
    room = screen.width - len(head) - 2
    text = f"{name:<{_TITLE}}  {words}" if words and room > _TITLE + _NAME_LETTERS else name
    style = "bold" if indent == 2 else ""
    screen.line((f"{head}{screen.shorten(text, room)}", style))


def _words(screen: Screen, rows: Sequence[TreeRow], whole: int) -> str:
    """The longest operators or calls of a leaf, and the rank that has most of it."""
    names = Counter[str]()
    ranks = Counter[Message]()
    for row in rows:
        names[row.what or row.place] += row.ns
        if row.whose is not None:
            ranks[row.whose] += row.ns
    said = [
        f"{screen.shorten(name, _NAME_LETTERS)} {share(ns, whole)}" for name, ns in names.most_common(_NAMES)
        if name and ns >= LEAST * 10 * whole
    ]  # fmt: skip
    for whose, ns in ranks.most_common(1):
        if 2 * ns >= whole:
            said.append(screen.say(whose))
    return " · ".join(said)
