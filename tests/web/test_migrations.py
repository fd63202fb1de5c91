"""The page Migration: a tree is scanned and converted when it is asked for, and nothing but its files can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import until
from tests.web.conftest import Client  # type: ignore[import-not-found]

from hermes.store.cache import Cache

PROGRAM = "import torch\nimport apex\n# <script>alert(1)</script>\nx = torch.ones(2).cuda()\nprint(x)\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("program")
    (root / "train.py").write_text(PROGRAM)
    (root / "run.sh").write_text("python train.py --device cuda\n")
    (root / "bad.py").write_text("def f(:\n")
    (root.parent / "outside.py").write_text("secret = 1\n")
    return root


@pytest.fixture(scope="module")
def client(job: Path, cache: Cache, tree: Path, serve_here: Callable[..., Any]) -> Iterator[Any]:
    with serve_here([job], cache, wait=False, source=tree) as running:
        yield Client(running)


def _found(client: Any, style: str = "native") -> dict[str, Any]:
    found: dict[str, Any] = until(lambda: client.json(f"/api/migrate?style={style}").get("found"))
    return found


@pytest.mark.live
def test_the_answer_is_there_whatever_becomes_of_the_profile(client: Any) -> None:
    found = _found(client)
    assert found["verdict"] == "with_work"
    assert found["answer"]["id"] == "migrate.answer.scan"
    assert [one["path"] for one in found["files"]] == ["run.sh", "train.py"]
    assert [one["where"] for one in found["coverage"]["diagnostics"] if one["level"] == "degraded"] == ["bad.py"]


@pytest.mark.live
def test_a_file_has_its_places_beside_its_diff(client: Any) -> None:
    _found(client)
    file = client.json("/api/migrate/file?path=train.py")
    assert {one["code"] for one in file["findings"]} == {"library", "cuda-method"}
    assert "+x = torch.ones(2).to(_ACCELERATOR)" in file["diff"]


@pytest.mark.live
def test_each_style_has_its_own_diff(client: Any) -> None:
    _found(client, "shim")
    diff = client.json("/api/migrate/file?path=train.py&style=shim")["diff"]
    assert "+import torch_npu  # noqa: F401" in diff
    assert client.json("/api/migrate/file?path=run.sh&style=shim")["diff"] == []


@pytest.mark.live
@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd", "nothing.py", "bad.py/../train.py"])
def test_what_was_not_scanned_is_not_read(client: Any, path: str) -> None:
    _found(client)
    assert client.get(f"/api/migrate/file?path={path}").status == 404


def test_a_style_that_there_is_not_is_refused(client: Any) -> None:
    assert client.get("/api/migrate?style=other").status == 404


def test_without_a_tree_it_says_so(job: Path, cache: Cache, serve_here: Callable[..., Any]) -> None:
    with serve_here([job], cache, wait=False) as running:
        other = Client(running)
        assert other.json("/api/migrate") == {"source": None}
        assert other.get("/api/migrate/file?path=train.py").status == 404
