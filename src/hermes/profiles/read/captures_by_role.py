"""Finds captures of reinforcement-learning jobs that lie in one folder per role: verl's `STEP/ROLE/…`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.units import whole_number
from hermes.knowledge.roles import Role, role_of
from hermes.profiles.read.reader_interface import CaptureSource

_STEP = re.compile(r"^(?:global_)?(?:step)?[_-]?(\d{1,8})$")
_LEVELS = 3


@dataclass(frozen=True, slots=True, order=True)
class RoleFolder:
    """A folder of captures: the step that a folder above it names (-1 for none), the role, and the folder's name."""

    step: int
    role: Role
    task: str


def by_role(sources: Sequence[CaptureSource]) -> dict[RoleFolder, list[CaptureSource]]:
    """The captures by the folder of their role, in order of step and role.

    Empty if any capture lies in no role folder, or if all folders are of one role: then roles do not tell captures
    apart.
    """
    found: dict[RoleFolder, list[CaptureSource]] = {}
    for source in sources:
        folder = _folder(source.root)
        if folder is None:
            return {}
        found.setdefault(folder, []).append(source)
    return dict(sorted(found.items())) if len({folder.role for folder in found}) > 1 else {}


def _folder(root: Path) -> RoleFolder | None:
    """The nearest folder that contains a capture and names a role, with the step that the next folder names.

    A capture's own folder is named after its host, which is no role; traces of Kineto lie in the role's folder.
    """
    own = () if root.name.endswith(("_ascend_pt", "_ascend_ms")) else (root,)
    parents = (*own, *root.parents)[:_LEVELS]
    for place, folder in enumerate(parents):
        role = role_of(folder.name)
        if role is not None:
            above = _STEP.match(folder.parent.name)
            inside = _STEP.match(parents[place - 1].name) if place else None
            match = above or inside
            step = whole_number(match.group(1)) if match else None
            return RoleFolder(-1 if step is None else step, role, folder.name)
    return None
