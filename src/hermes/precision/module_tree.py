"""Makes a tree of modules with the distance of two runs in each module and its submodules."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from hermes.model.document import Tree, TreeNode
from hermes.precision import column_titles
from hermes.precision.compare import Comparison

_FARTHEST = 1e9
_MOST = 5_000
LEVELS: Final = ((1e-2, "high"), (1e-4, "middle"), (1e-6, "low"))
"""Relative distances from which a module has a level; below all of these, it agrees."""


def tree(found: Comparison) -> Tree:
    """The tree of modules, each with its largest relative output distance; shown open where the runs part."""
    worst = dict(list(modules(found).items())[:_MOST])
    below: dict[str, list[str]] = defaultdict(list)
    for path in worst:
        below[path.rpartition(".")[0]].append(path)

    made: dict[str, TreeNode] = {}
    for path in reversed(worst):  # parents come before their submodules
        made[path] = TreeNode(
            name=path.rpartition(".")[2], value=f"{worst[path]:.1e}" if worst[path] else "0",
            level=distance_level(worst[path]), below=tuple(made[one] for one in below[path]),
        )  # fmt: skip
    marked = tuple(found.first.module.split(".")) if found.first is not None and found.first.module else ()
    return Tree(key="modules", title=column_titles.MODULES, roots=tuple(made[one] for one in below[""]), marked=marked)


def modules(found: Comparison) -> dict[str, float]:
    """The largest relative distance of an output for each module path, parents before their submodules.

    Only the step in which the runs part counts, since later steps all differ; if the runs agree, all steps count.
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


def distance_level(apart: float) -> str:
    """The level of a distance: high, middle, low or none."""
    return next((name for limit, name in LEVELS if apart > limit), "none")
