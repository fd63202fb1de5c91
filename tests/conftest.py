"""What every test may use: the real profiles where they are to be had, and a cache that is never the user's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# The length of one example says nothing on a machine that does other work too.
settings.register_profile("hermes", deadline=None)
settings.load_profile("hermes")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real profiles beside the repository; skips where there is none."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real profiles are not on this machine")
    return folder


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "hermes-cache"))
