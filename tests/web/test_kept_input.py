"""What was loaded is kept beside its analysis: the next server has all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes.profiles.api import load
from hermes.store.cache import Cache
from hermes.store.serialize_rows import WRONG
from hermes.web.kept_input import kept_loaded, loaded_document


def test_all_of_what_was_loaded_comes_back(job: Path, tmp_path: Path) -> None:
    (job.parent / "beside.txt").write_text("seen and not read", "utf-8")
    loaded = load([job.parent], Cache(tmp_path))
    assert loaded.files
    back = kept_loaded(json.loads(json.dumps(loaded_document(loaded))), loaded.paths)
    # The tables are there: nothing has to be read again.
    assert back == replace(loaded, ranks=tuple(replace(rank, reading=None) for rank in loaded.ranks))


@pytest.mark.parametrize("said", [{}, {"ranks": 1}, {"ranks": [{"rank": 0}], "notes": [], "files": [], "roles": []}])
def test_anything_else_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(WRONG):
        kept_loaded(said, ())
