"""Loads the page of a rule in English or Chinese, for the docs and the reports."""

from __future__ import annotations

from pathlib import Path

from hermes.profiles.rules.rule import Rule

CHINESE = Path(__file__).parent / "zh"
"""The folder of Chinese pages, such as `COM001.md`; the first line of a page has the hash of its English page."""


def page_of(rule: Rule, language: str) -> str:
    """The page of a rule in English, or in Chinese (`zh`) if it exists."""
    file = CHINESE / f"{rule.code}.md"
    if language != "zh" or not file.is_file():
        return rule.page.strip()
    return file.read_text("utf-8").partition("\n")[2].strip()
