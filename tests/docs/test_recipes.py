"""The code in the recipes works: each recipe's modules are imported and its tests are run."""

from __future__ import annotations

import inspect
import re
import sys
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from hermes.base import message as messages
from hermes.model import declare, symptom
from hermes.profiles.measure import load_all, registry
from hermes.profiles.pipeline import rank_measures as measured

_BLOCK = re.compile(r"^```python (\S+)\n(.*?)^```", re.M | re.S)
_ROOT = Path(__file__).resolve().parents[2]
_RECIPES = ("add-a-reader.md", "add-a-measure.md", "add-a-rule.md", "add-a-command.md")


def _blocks(recipe: str) -> list[tuple[str, str]]:
    return _BLOCK.findall((_ROOT / "docs" / "contributing" / recipe).read_text("utf-8"))


def _tests() -> list[tuple[str, str]]:
    found = [
        (recipe, name)
        for recipe in _RECIPES
        for path, code in _blocks(recipe)
        if path.startswith("tests/")
        for name in re.findall(r"^def (test_\w+)", code, re.M)
    ]
    assert {recipe for recipe, _ in found} == set(_RECIPES)
    return found


@pytest.mark.parametrize(("recipe", "name"), _tests())
def test_the_test_of_the_recipe_passes(recipe: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _forget_afterwards(monkeypatch)
    found: dict[str, FunctionType] = {}
    for path, code in _blocks(recipe):
        module = ModuleType(path.removeprefix("src/").removesuffix(".py").replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(code, path, "exec"), module.__dict__)
        found |= {
            key: value
            for key, value in vars(module).items()
            if key.startswith("test_") and isinstance(value, FunctionType)
        }
    wants_folder = "tmp_path" in inspect.signature(found[name]).parameters
    found[name](tmp_path) if wants_folder else found[name]()


def _forget_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a recipe declares is known in its test alone."""
    load_all()
    for module, name in ((messages, "_DECLARED"), (declare, "_DECLARED"), (symptom, "_SYMPTOMS"), (registry, "_FOUND")):
        monkeypatch.setattr(module, name, dict(getattr(module, name)))
    for made in (registry.every_measure, registry.needed):
        monkeypatch.setattr(registry, made.__name__, cache(made.__wrapped__))
    # It was imported by its name.
    monkeypatch.setattr(measured, "every_measure", registry.every_measure)
