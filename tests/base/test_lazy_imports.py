"""Names that a package imports lazily are the ones that a type checker sees."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
LAZY = sorted(path for path in SOURCE.rglob("*.py") if "__getattr__ = lazy_names(" in path.read_text("utf-8"))


@pytest.mark.parametrize("path", LAZY, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_lazy_name_is_what_a_type_checker_sees(path: Path) -> None:
    package = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    found = importlib.import_module(package)
    (block,) = [node for node in ast.parse(path.read_text("utf-8")).body if _is_type_checking(node)] or [None]
    for node in [] if block is None else block.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                module = importlib.import_module(node.module)
                seen = getattr(module, one.name, None) or importlib.import_module(f"{node.module}.{one.name}")
                assert getattr(found, one.asname or one.name) is seen, one.name


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
