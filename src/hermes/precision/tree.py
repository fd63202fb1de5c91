"""How far two runs are apart in each module, and in all that is inside of it, as a tree."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from hermes.model.document import Node, Tree
from hermes.precision import titles
from hermes.precision.compare import Comparison

_FARTHEST = 1e9
_MOST = 5_000
LEVELS: Final = ((1e-2, "high"), (1e-4, "middle"), (1e-6, "low"))
"""Relative distances above which a module has a level; below all of them it agrees."""


def tree(found: Comparison) -> Tree:
    """The modules, each with the largest relative distance of an output in it; shown open where the runs part."""
    worst = dict(list(modules(found).items())[:_MOST])
    below: dict[str, list[str]] = defaultdict(list)
    for path in worst:
        below[path.rpartition(".")[0]].append(path)

    made: dict[str, Node] = {}
    for path in reversed(worst):  # parents come before what is inside of them
        made[path] = Node(
            name=path.rpartition(".")[2], value=f"{worst[path]:.1e}" if worst[path] else "0",
            level=level(worst[path]), below=tuple(made[one] for one in below[path]),
        )  # fmt: skip
    marked = tuple(found.first.module.split(".")) if found.first is not None and found.first.module else ()
    return Tree(key="modules", title=titles.MODULES, roots=tuple(made[one] for one in below[""]), marked=marked)


def modules(found: Comparison) -> dict[str, float]:
    """Path to the largest relative distance of an output, parents before what is inside of them.

    Of the step in which the runs part, since behind it everything differs; of all where they do not.
    """
    worst: dict[str, float] = defaultdict(float)
    first = found.first
    for one in found.judgements:
        if first is not None and (one.rank, one.step) != (first.rank, first.step):
            continue
        for row in one.rows:
            op = one.target.ops[row.target] if row.target is not None else None
            if op is None or not op.module or row.outputs is None:
                continue
            apart = min(row.outputs.relative, _FARTHEST)
            parts = op.module.split(".")
            for depth in range(1, len(parts) + 1):
                name = ".".join(parts[:depth])
                worst[name] = max(worst[name], apart)
    return dict(worst)


def level(apart: float) -> str:
    """high, middle, low or none."""
    return next((name for limit, name in LEVELS if apart > limit), "none")
