"""A job's own files are its own, whatever modules of the standard library they are called like."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
from tests.inside.conftest import Place

pytestmark = pytest.mark.live

INSIDE = Path(__file__).resolve().parents[2] / "src" / "hermes" / "inside"
MINE = "print('loaded once')\ndef load(): return 7\n"


@pytest.mark.parametrize("folder", ["", "later"])
def test_a_module_of_the_job_that_is_called_like_one_that_torch_does_not_load(place: Place, folder: str) -> None:
    (place.folder / folder).mkdir(exist_ok=True)
    (place.folder / folder / "resource.py").write_text(MINE)
    done = place.python(f"""
        import sys, hermes.inside as capture
        capture.start()
        for _ in range(3):
            capture.step()
        print("trained")
        sys.path.insert(0, {str(place.folder / folder)!r})
        import resource
        print(resource.load())
    """)
    assert (done.stdout.splitlines(), done.stderr) == (["trained", "loaded once", "7"], "")
    assert len(place.jobs()) == 1


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found & sys.stdlib_module_names - set(sys.builtin_module_names)


def test_all_else_that_is_imported_in_a_job_is_loaded_by_torch_before(place: Place) -> None:
    """What stands above a job (`launch`) and before torch (`boot`) runs apart from it, or imports for itself."""
    pytest.importorskip("torch")
    done = place.python("import json, sys, torch; print(json.dumps(sorted(sys.modules)))", warnings="ignore")
    loaded = {"__future__", *json.loads(done.stdout)}
    files = [path for path in INSIDE.rglob("*.py") if not {"launch", "boot"} & set(path.relative_to(INSIDE).parts)]
    assert {path.name: own for path in files if (own := _imported(path) - loaded)} == {}
