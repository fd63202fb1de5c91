"""Pages that name tests name those that there are."""

from __future__ import annotations

import re
from pathlib import Path


def test_each_line_of_ksigma_is_held_by_a_test_that_exists(root: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", (root / "docs" / "ksigma.md").read_text("utf-8")))
    found = {
        name
        for path in (root / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    assert len(named) > 20
    assert named - found == set()


def test_each_fault_of_the_pages_is_held_by_a_test_that_exists(root: Path) -> None:
    page = (root / "docs" / "contributing" / "look-again.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(rows) > 25
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for file, name in named:
            path = root / (file if "/" in file else f"tests/web/{file}")
            assert f"def {name}(" in path.read_text("utf-8"), row
