"""The page Precision: two recordings are compared when it is asked for, and its table comes a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.patience import until
from tests.precision.test_compare import network
from tests.web.conftest import Client  # type: ignore[import-not-found]

from hermes.store.cache import Cache

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("recordings")
    return network(root / "golden"), network(root / "<b>target", tanh1=lambda array: np.tanh(array) * np.float32(1.01))


@pytest.fixture(scope="module")
def client(job: Path, cache: Cache, pair: tuple[Path, Path], serve_here: Callable[..., Any]) -> Iterator[Any]:
    with serve_here([job], cache, wait=False, precision=pair) as running:
        yield Client(running)


def found(client: Any) -> dict[str, Any]:
    made: dict[str, Any] = until(lambda: client.json("/api/precision").get("found"))
    return made


def test_the_finding_the_chain_and_the_modules_are_there_whatever_becomes_of_the_profile(client: Any) -> None:
    seen = found(client)
    assert seen["verdict"] == "differ"
    where = seen["findings"][0]["message"]["arguments"]
    assert (where["operator"], where["module"]) == ({"name": "aten.tanh.default"}, {"name": "Net.1"})
    (net,) = seen["modules"]
    assert [(one["name"], one["level"]) for one in net["below"]] == [("0", "none"), ("1", "high")]
    assert "operators" not in seen
    assert (seen["table"]["total"], seen["table"]["marked"]) == (5, 3)


def test_the_table_comes_a_part_at_a_time_by_state_and_module(client: Any) -> None:
    found(client)
    part = client.json("/api/precision/rows?first=1&count=2")
    assert (part["matching"], part["first"], len(part["rows"])) == (5, 1, 2)
    assert [row["operator"] for row in client.json("/api/precision/rows?state=blamed")["rows"]] == ["aten.tanh.default"]
    assert client.json("/api/precision/rows?module=Net.0")["matching"] == 2
    assert client.json("/api/precision/rows?module=Net")["matching"] == 4


@pytest.mark.parametrize("query", ["first=-1", "count=0", "count=100000", "first=x"])
def test_another_part_is_refused(client: Any, query: str) -> None:
    found(client)
    assert client.get(f"/api/precision/rows?{query}").status in (404, 422)


def test_without_recordings_the_page_says_how_to_give_them(
    job: Path, cache: Cache, serve_here: Callable[..., Any]
) -> None:
    with serve_here([job], cache, wait=False) as running:
        other = Client(running)
        assert other.json("/api/precision") == {"golden": None}
        assert other.get("/api/precision/rows").status == 404


def test_what_is_no_recording_is_told(job: Path, cache: Cache, serve_here: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with serve_here([job], cache, wait=False, precision=(tmp_path / "x", tmp_path / "x")) as running:
        other = Client(running)
        assert until(lambda: other.get("/api/precision").status != 200)
