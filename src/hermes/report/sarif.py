"""Writes a document's findings as SARIF 2.1.0, for editors and CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hermes.base.message import Message
from hermes.base.say import say
from hermes.model.document import Document
from hermes.model.finding import Finding, SourceLine
from hermes.model.leaf import Leaf, Risk
from hermes.version import __version__

_LEVELS: Mapping[Leaf | Risk, str] = {Risk.STOPS: "error", Risk.SLOW: "note", Risk.NOTE: "none"}


def sarif(document: Document, name: str, rules: Mapping[str, Sequence[Message]]) -> dict[str, Any]:
    """The findings that name lines of code, as SARIF; `rules` gives, for each code, a title, a reason and an advice."""
    results = [(one, line) for one in document.findings for line in one.lines if isinstance(line, SourceLine)]
    used = sorted({one.code for one, _ in results})
    index = {code: position for position, code in enumerate(used)}
    notes = [one for one in document.coverage if one.level == "degraded"]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": name, "version": __version__, "informationUri": "https://pypi.org/project/hermes-perf/",
                "rules": [_rule(code, rules[code]) for code in used],
            }},
            "originalUriBaseIds": {"ROOT": {"description": {"text": "the tree that was scanned"}}},
            "columnKind": "unicodeCodePoints",
            "results": [_result(one, line, index[one.code]) for one, line in results],
            "invocations": [{
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": f"{one.where}: {say(one.message)}"}} for one in notes
                ],
            }],
        }],
    }  # fmt: skip


def _rule(code: str, texts: Sequence[Message]) -> dict[str, Any]:
    title, why, todo = map(say, texts)
    return {
        "id": code, "shortDescription": {"text": title}, "fullDescription": {"text": f"{title}: {why}."},
        "help": {"text": f"{todo}."},
    }  # fmt: skip


def _result(one: Finding, line: SourceLine, index: int) -> dict[str, Any]:
    column, last, end = line.span
    region = {"startLine": line.line, "startColumn": column, "endLine": last, "endColumn": end}
    if last == line.line and end <= column:
        region.pop("endColumn")
    advice = "; ".join(say(action.title) for action in one.actions)
    return {
        "ruleId": one.code, "ruleIndex": index, "level": _LEVELS.get(one.about, "warning"),
        "rank": round(one.confidence * 100, 1),
        "message": {"text": f"{say(one.message)}. What to do: {advice}." if advice else f"{say(one.message)}."},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": quote(line.path), "uriBaseId": "ROOT"}, "region": region,
        }}],
        "properties": {"work": [say(action.do) for action in one.actions], "doubts": list(map(say, one.doubts))},
    }  # fmt: skip
