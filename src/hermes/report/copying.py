"""The script that the one-file report and the web app share: tables as Markdown and CSV, and the clipboard."""

from __future__ import annotations

from pathlib import Path


def module() -> str:
    """As an ES module, for pages that load files."""
    return (Path(__file__).parent / "assets" / "copying.js").read_text(encoding="utf-8")


def inlined() -> str:
    """As the beginning of a script, for a page that is one file."""
    return module().replace("\nexport ", "\n")
