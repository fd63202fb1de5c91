"""The types that the scripts say in JSDoc, where a compiler of TypeScript is at hand: nobody needs Node for Hermes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import hermes.web
from hermes.report import copying

STATIC = Path(next(iter(hermes.web.__path__))) / "static"
OPTIONS = (
    "--noEmit", "--allowJs", "--checkJs", "--strict", "--noImplicitAny", "false", "--target", "es2023",
    "--lib", "es2023,dom,dom.iterable", "--module", "esnext", "--moduleResolution", "bundler",
)  # fmt: skip

TSC = shutil.which("tsc")
pytestmark = pytest.mark.skipif(TSC is None, reason="no tsc on the path (npm install -g typescript)")


def check(script: Path, folder: Path) -> str:
    """What the compiler says of a script and of all that it imports."""
    assert TSC is not None
    return subprocess.run([TSC, *OPTIONS, str(script)], cwd=folder, capture_output=True, text=True).stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The scripts in one folder, as they are served."""
    shutil.copytree(STATIC, tmp_path / "static")
    (tmp_path / "static" / "copying.js").write_text(copying.module(), "utf-8")
    return tmp_path / "static"


def test_the_types_of_the_scripts_hold(copy: Path, tmp_path: Path) -> None:
    assert check(copy / "app.js", tmp_path) == ""


def test_a_wrong_type_is_seen(copy: Path, tmp_path: Path) -> None:
    """The check reaches the pages, which are imported when they are opened."""
    page = copy / "pages" / "live.js"
    page.write_text(page.read_text("utf-8").replace('heading("live",', "heading(3,"), "utf-8")
    assert "live.js" in check(copy / "app.js", tmp_path)
