"""Scans and converts one file of a program, and finds the real projects for tests of conversion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.skips import profiles

from hermes.migrate import find_files
from hermes.migrate.scan_model import FileChange, FileScan, Style, Sure, Target
from hermes.migrate.scan_source_tree import Worker

Convert = Callable[..., FileChange]
Scan = Callable[..., FileScan]


def _worker(root: Path, style: Style, target: Target, extensions: frozenset[str] = frozenset()) -> Worker:
    files, _ = find_files.find(root)
    return Worker(root, files, target, extensions, frozenset(), style, Sure.LIKELY)


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    """Converts a text as a file of its own."""

    def call(text: str, name: str = "program.py", style: Style = Style.NATIVE) -> FileChange:
        path = tmp_path / name
        path.write_bytes(text.encode())
        worker = _worker(tmp_path, style, Target())
        found = next(one for one in find_files.find(tmp_path)[0] if one.relative == name)
        return worker.convert(found)

    return call


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    """Scans a text as a file of its own."""

    def call(
        text: str, name: str = "program.py", target: Target | None = None, extensions: tuple[str, ...] = ()
    ) -> FileScan:
        path = tmp_path / name
        path.write_bytes(text.encode())
        worker = _worker(tmp_path, Style.NATIVE, target or Target(), frozenset(extensions))
        found = next(one for one in find_files.find(tmp_path)[0] if one.relative == name)
        return worker.scan(found)

    return call


@pytest.fixture
def projects() -> Path:
    """The folder with real CUDA projects; skips where there is none."""
    return profiles() / "migration"
