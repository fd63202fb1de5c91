"""The page about the preset `ksigma` names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path


def test_each_line_is_held_by_a_test_that_exists(root: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", (root / "docs" / "ksigma.md").read_text("utf-8")))
    found = {
        name
        for path in (root / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    assert len(named) > 20
    assert named - found == set()
