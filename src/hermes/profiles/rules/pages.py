"""The page of a rule: what it detects, why that costs time, when it is no problem, what to do and how to check."""

from __future__ import annotations

from pathlib import Path

from hermes.profiles.rules.rule import Rule

CHINESE = Path(__file__).parent / "zh"
"""A file for each rule, `COM001.md`; its first line has the hash of the English page that it says the same as."""


def page_of(rule: Rule, language: str) -> str:
    """The page in English, or in Chinese (`zh`) where it was written."""
    file = CHINESE / f"{rule.code}.md"
    if language != "zh" or not file.is_file():
        return rule.page.strip()
    return file.read_text("utf-8").partition("\n")[2].strip()
