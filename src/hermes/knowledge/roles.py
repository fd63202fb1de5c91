"""Roles of a reinforcement-learning job, by the names that its frameworks give to ranges and folders.

verl writes each capture below `STEP/ROLE/` and names ranges `rollout_generate`, `actor_update`, `ref_compute_log_prob`,
or by the function (verl, utils/profiler/mstx_profile.py and workers). MindSpeed-RL writes below `ROLE/` and names
ranges by the qualified function, `ActorRolloutHybrid.generate_sequences` (MindSpeed-RL, utils/utils.py). OpenRLHF has
no ranges of its own; its users name ranges by the same roles.
"""

from __future__ import annotations

import re
from typing import Literal

Role = Literal["rollout", "actor", "critic", "reference", "reward"]
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(r"[A-Za-z][\w.:/ -]{1,79}")
_BY_WORDS: tuple[tuple[Role, tuple[frozenset[str], ...]], ...] = (
    ("rollout", (frozenset({"generate", "sequences"}), frozenset({"rollout", "generate"}),
                 frozenset({"actor", "generate"}), frozenset({"rollout"}))),
    ("reference", (frozenset({"ref"}), frozenset({"reference"}))),
    ("critic", (frozenset({"critic"}), frozenset({"compute", "values"}))),
    ("reward", (frozenset({"reward"}), frozenset({"rm", "score"}))),
    ("actor", (frozenset({"actor"}), frozenset({"log", "prob"}), frozenset({"log", "probs"}))),
)  # fmt: skip
"""Words of a name for each role; the first entry with all its words counts.

The answering model is also called actor.
"""
_MIXED = frozenset({"actor", "rollout", "hybrid", "ref"})
"""Words in names of worker classes with several roles: the worker's function tells the role instead."""


def role_of(name: str) -> Role | None:
    """The role of a range or folder with this name; None for any other name."""
    if not _NAME.fullmatch(name):
        return None
    owner, _, function = name.rpartition(".")
    words = _words(function)
    said = _of(words)
    owned = _words(owner)
    # `Reference.compute_log_prob`: if several models have such a function, its class tells which model.
    if owned and not owned >= {"actor", "rollout"} and (of_owner := _of(owned)) is not None:
        return of_owner
    return said or ("actor" if function and "actor" in owned else None)


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(name))


def _of(words: frozenset[str]) -> Role | None:
    # `actor_rollout_ref`, `actor_rollout`: a worker with several roles, none of which is told.
    if len(words & _MIXED) > 1 and not words & {"generate", "update", "compute"}:
        return None
    return next((role for role, wanted in _BY_WORDS if any(one <= words for one in wanted)), None)
