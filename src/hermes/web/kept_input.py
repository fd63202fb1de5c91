"""Keeps what was loaded beside its analysis, so that a later server has the same input without reading the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.base.errors import Diagnostic
from hermes.store.rank_data import RankData
from hermes.store.serialize_rows import row_as_json, row_from_json

if TYPE_CHECKING:
    from hermes.profiles.api import Loaded


def loaded_document(loaded: Loaded) -> dict[str, object]:
    """What was loaded, as JSON values that `kept_loaded` reads."""
    return {
        "ranks": [_rank_document(rank) for rank in loaded.ranks],
        "notes": [note.document() for note in loaded.notes],
        "files": row_as_json(loaded.files, _no_frame),
        "roles": [
            {"folder": row_as_json(one.folder, _no_frame), "ranks": [_rank_document(rank) for rank in one.ranks]}
            for one in loaded.roles
        ],
    }


def kept_loaded(said: Mapping[str, Any], paths: tuple[Path, ...]) -> Loaded:
    """What was loaded from `paths`; raises an error of `serialize_rows.WRONG` for anything but a `loaded_document`."""
    from hermes.profiles.api import Loaded
    from hermes.profiles.role_captures import RoleCapture

    return Loaded(
        paths=paths,
        ranks=tuple(map(_rank, said["ranks"])),
        notes=tuple(map(Diagnostic.of_document, said["notes"])),
        files=row_from_json(said["files"], _no_frame),
        roles=tuple(
            RoleCapture(folder=row_from_json(one["folder"], _no_frame), ranks=tuple(map(_rank, one["ranks"])))
            for one in said["roles"]
        ),
    )


def _rank_document(rank: RankData) -> dict[str, object]:
    """All of a rank's fields but how to read it again: its tables are there."""
    kept = {
        field.name: getattr(rank, field.name) for field in fields(RankData) if field.name not in ("notes", "reading")
    }
    told = {name: row_as_json(value, _no_frame) for name, value in kept.items()}
    return {**told, "notes": [note.document() for note in rank.notes]}


def _rank(said: Mapping[str, Any]) -> RankData:
    told = {name: row_from_json(value, _no_frame) for name, value in said.items() if name != "notes"}
    return RankData(**told, notes=tuple(map(Diagnostic.of_document, said["notes"])))


def _no_frame(value: object) -> Any:
    raise ValueError(f"{type(value).__name__} is no part of what was loaded")
