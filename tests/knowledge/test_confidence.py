"""How sure findings are is written once, with sources, and nothing depends on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hermes.knowledge.confidence import CONFIDENCE
from hermes.profiles.rules import ALL

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "hermes"


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            yield path.relative_to(SOURCE), node


def names_confidence(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Attribute) and one.attr in ("confidence", "certainty") for one in ast.walk(node)
    )  # fmt: skip


def test_each_confidence_is_a_chance_with_a_source() -> None:
    for name, known in CONFIDENCE.items():
        assert 0 < known.value <= 1, name
        page = known.source.split(":")[0].split(",")[0]
        assert not page.startswith("docs/") or (ROOT / page).is_file(), name


def test_each_rule_has_a_confidence_and_no_row_is_left_of_a_rule_that_is_gone() -> None:
    rows = {name.split(".")[0] for name in CONFIDENCE} - {"fleet", "jobs", "migrate", "precision"}
    assert rows == {rule.code for rule in ALL}


def test_a_confidence_is_a_number_nowhere_else() -> None:
    given = [(path, node.value) for path, node in nodes() if isinstance(node, ast.keyword) and node.arg == "confidence"]
    assert len(given) > 60
    assert [f"{path}:{value.lineno}" for path, value in given if _is_own_number(path, value)] == []


def _is_own_number(path: Path, value: ast.expr) -> bool:
    """Whether a number is written there, or has a name in the same file."""
    names = {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}
    tree = ast.parse((SOURCE / path).read_text("utf-8"))
    constants = [
        node.value for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names
    ]  # fmt: skip
    own = [*ast.walk(value), *constants]
    return any(isinstance(one, ast.Constant) and isinstance(one.value, float) for one in own)


def test_nothing_branches_on_a_confidence() -> None:
    found = [
        f"{path}:{node.lineno}" for path, node in nodes() if isinstance(node, ast.Compare) if names_confidence(node)
    ]
    assert found == []
