"""A scan, a conversion and a verification as text for a terminal: the answer first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hermes.migrate.model import Effect, Place, Skipped, Style, TreeChange, TreeScan
from hermes.migrate.rules import RULES
from hermes.migrate.summary import Summary, by_importance, summarize, work

_MANY = 12


def scan(tree: TreeScan, *, all_places: bool) -> Iterator[str]:
    """The lines of a scan."""
    found = summarize(tree)
    target = f"Ascend {tree.target.chip} with torch {tree.target.torch}"
    python = sum(file.kind in ("python", "notebook") for file in tree.files)
    lines = sum(file.lines for file in tree.files)
    yield f"{tree.root}: {python} Python files and {len(tree.files) - python} others, {lines:,} lines"
    yield f"Can it move to {target}?  {found.verdict}{_work(found)}"
    yield ""
    if found.by_convert:
        yield f"  {found.by_convert} places in {found.files_changed} files are settled by `hermes migrate convert`"
    if found.by_hand:
        yield f"  {found.by_hand} places are left to you, {len(found.obstacles)} different ones:"
        yield from _obstacles(found, all_places)
    yield f"  {found.apis_used} torch APIs are used; the support table lists {found.apis_listed} of them," + (
        f" {found.apis_on_chip} as running on {tree.target.chip}"
    )
    yield ""
    yield from _places(tree, all_places)
    yield from _skipped(tree.skipped)


def _work(found: Summary) -> str:
    return f" ({work(found.hours)})" if found.by_hand else ""


def _obstacles(found: Summary, everything: bool) -> Iterator[str]:
    shown = found.obstacles if everything else found.obstacles[:_MANY]
    for one in shown:
        path, line = one.places[0]
        more = f" and {len(one.places) - 1} more" if len(one.places) > 1 else ""
        yield f"    {one.effort.value:<8} {_fit(one.what, 60)}  ({path}:{line}{more})"
        yield f"             {one.todo}"
    if len(shown) < len(found.obstacles):
        yield f"    … and {len(found.obstacles) - len(shown)} more: --all"


def _places(tree: TreeScan, everything: bool) -> Iterator[str]:
    ordered = by_importance(tree.places)
    for effect in Effect:
        group = [one for one in ordered if one[1].effect is effect]
        if not group:
            continue
        yield f"{_TITLES[effect]} ({len(group)})"
        shown = group if everything else group[:_MANY]
        for path, place in shown:
            yield from _place(path, place)
        if len(shown) < len(group):
            rules = Counter(place.rule for _, place in group[_MANY:])
            rest = ", ".join(f"{count} {RULES[rule].title}" for rule, count in rules.most_common(4))
            yield f"  … and {len(group) - len(shown)} more ({rest}): --all"
        yield ""


_TITLES = {
    Effect.STOPS: "Stops on an NPU",
    Effect.DIFFERS: "Behaves differently",
    Effect.SLOW: "Runs, but costs time",
    Effect.NOTE: "Good to know",
}


def _place(path: str, place: Place) -> Iterator[str]:
    who = "convert" if place.converts else f"you, {place.effort.value}" if place.effort.value != "none" else "-"
    later = f" [{place.later}]" if place.later else ""
    yield f"  {path}:{place.line}:{place.column}  {_fit(place.what, 90)}  ({place.sure.value}; {who}){later}"
    yield f"      {place.why}; {place.todo}"


def _skipped(skipped: Sequence[Skipped]) -> Iterator[str]:
    if skipped:
        yield f"Not read ({len(skipped)})"
        for one in skipped:
            yield f"  {one.path}: {one.why}{f' ({one.hint})' if one.hint else ''}"


def convert(change: TreeChange, *, all_places: bool) -> Iterator[str]:
    """The lines of a conversion."""
    changed = change.changed
    edits = [edit for file in changed for edit in file.edits]
    how = "device-agnostic code" if change.style is Style.NATIVE else "transfer_to_npu"
    yield f"{len(edits)} edits in {len(changed)} files ({how})"
    for file in changed:
        rules = Counter(edit.rule for edit in file.edits if edit.rule in RULES)
        said = ", ".join(f"{count} {RULES[rule].title}" for rule, count in rules.most_common())
        yield f"  {file.path}: {said or 'lines at the top'}"
    left = [(file.path, place) for file in change.files for place in file.left if place.effort.value != "none"]
    left = [one for one in by_importance(left) if one[1].effect in (Effect.STOPS, Effect.DIFFERS)]
    if left:
        yield f"left to you ({len(left)})"
        shown = left if all_places else left[:_MANY]
        for path, place in shown:
            yield from _place(path, place)
        if len(shown) < len(left):
            yield f"  … and {len(left) - len(shown)} more: --all"
    yield from _skipped(change.skipped)


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
