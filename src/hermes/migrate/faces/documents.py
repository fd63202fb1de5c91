"""A scan and a conversion as JSON (`hermes.migrate/1`) and as SARIF 2.1.0."""

from __future__ import annotations

import json
from typing import Any

from hermes.base.errors import InputError
from hermes.migrate.model import Effect, FileChange, Place, Skipped, Sure, TreeChange, TreeScan
from hermes.migrate.rules import RULES
from hermes.migrate.summary import summarize
from hermes.migrate.write import diff_of
from hermes.version import __version__

FORMAT = "hermes.migrate/1"
_LEVELS = {Effect.STOPS: "error", Effect.DIFFERS: "warning", Effect.SLOW: "note", Effect.NOTE: "none"}
_RANKS = {Sure.PROVEN: 100.0, Sure.LIKELY: 60.0, Sure.GUESS: 20.0}


def scan(tree: TreeScan) -> dict[str, Any]:
    """The document of a scan."""
    found = summarize(tree)
    return {
        "format": FORMAT,
        "kind": "scan",
        "root": tree.root,
        "target": {"torch": tree.target.torch, "chip": tree.target.chip},
        "answer": {
            "verdict": found.verdict,
            "places_for_convert": found.by_convert,
            "places_by_hand": found.by_hand,
            "hours_by_hand": {"low": round(found.hours[0], 1), "high": round(found.hours[1], 1)},
            "effects": found.effects,
            "torch_apis": {"used": found.apis_used, "listed": found.apis_listed, "on_chip": found.apis_on_chip},
            "obstacles": [
                {"rule": one.rule, "what": one.what, "effort": one.effort.value, "todo": one.todo,
                 "places": [{"path": path, "line": line} for path, line in one.places]}
                for one in found.obstacles
            ],
        },
        "files": [
            {"path": file.path, "kind": file.kind, "lines": file.lines, "torch_apis": dict(sorted(file.apis.items())),
             "places": [place_document(place) for place in file.places]}
            for file in tree.files
        ],
        "not_read": [_skipped(one) for one in tree.skipped],
    }  # fmt: skip


def overview(tree: TreeScan, change: TreeChange) -> dict[str, Any]:
    """The answer of a scan, and of each file how much there is to say; `file_view` says it."""
    changes = {file.path: file for file in change.files}
    document = scan(tree)
    document["style"] = change.style.value
    document["files"] = [
        {
            "path": file.path,
            "effects": {effect.value: sum(place.effect is effect for place in file.places) for effect in Effect},
            "edits": len(changes[file.path].edits),
        }
        for file in tree.files
        if file.places or changes[file.path].changed
    ]
    return document


def file_view(tree: TreeScan, change: TreeChange, path: str) -> dict[str, Any]:
    """The places of one file and the lines of its diff; raises `InputError` for a file that was not scanned."""
    file = next((one for one in tree.files if one.path == path), None)
    changed = next((one for one in change.files if one.path == path), None)
    if file is None or changed is None:
        raise InputError("this file was not scanned", where=path)
    return {
        "path": path,
        "places": [place_document(place) for place in file.places],
        "diff": [line.rstrip("\r\n") for line in diff_of(changed)] if changed.changed else [],
    }


def place_document(place: Place) -> dict[str, Any]:
    """One place."""
    return {
        "rule": place.rule, "line": place.line, "column": place.column, "end_line": place.end_line,
        "end_column": place.end_column, "what": place.what, "why": place.why, "todo": place.todo,
        "effect": place.effect.value, "sure": place.sure.value, "effort": place.effort.value,
        "converts": place.converts, "later": place.later or None,
    }  # fmt: skip


def _skipped(one: Skipped) -> dict[str, str]:
    return {"path": one.path, "why": one.why, "hint": one.hint}


def convert(change: TreeChange) -> dict[str, Any]:
    """The document of a conversion."""
    return {
        "format": FORMAT,
        "kind": "convert",
        "root": change.root,
        "style": change.style.value,
        "target": {"torch": change.target.torch, "chip": change.target.chip},
        "files": [_file(file) for file in change.files if file.changed or file.left],
        "not_read": [_skipped(one) for one in change.skipped],
    }


def _file(file: FileChange) -> dict[str, Any]:
    return {
        "path": file.path,
        "changed": file.changed,
        "edits": [
            {"start": edit.start, "end": edit.end, "text": edit.text, "rule": edit.rule, "sure": edit.sure.value}
            for edit in file.edits
        ],
        "left": [place_document(place) for place in file.left],
        "diff": "".join(diff_of(file)),
    }


def sarif(tree: TreeScan) -> dict[str, Any]:
    """A scan for editors and CI."""
    used = sorted({place.rule for _, place in tree.places})
    index = {rule: position for position, rule in enumerate(used)}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {
                    "name": "hermes migrate",
                    "version": __version__,
                    "informationUri": "https://pypi.org/project/hermes-perf/",
                    "rules": [_sarif_rule(rule) for rule in used],
                }},
                "originalUriBaseIds": {"ROOT": {"description": {"text": "the tree that was scanned"}}},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(path, place, index[place.rule]) for path, place in tree.places],
                "invocations": [{
                    "executionSuccessful": True,
                    "toolExecutionNotifications": [
                        {"level": "warning", "message": {"text": f"{one.path}: {one.why}"}} for one in tree.skipped
                    ],
                }],
            }
        ],
    }  # fmt: skip


def _sarif_rule(code: str) -> dict[str, Any]:
    rule = RULES[code]
    return {
        "id": code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title}: {rule.why or 'see the message'}."},
        "help": {"text": rule.todo or "see the message"},
        "defaultConfiguration": {"level": _LEVELS[rule.effect]},
    }


def _sarif_result(path: str, place: Place, index: int) -> dict[str, Any]:
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    if place.end_line == place.line and place.end_column <= place.column:
        region.pop("endColumn")
    return {
        "ruleId": place.rule,
        "ruleIndex": index,
        "level": _LEVELS[place.effect],
        "rank": _RANKS[place.sure],
        "message": {"text": f"{place.what}: {place.why}. What to do: {place.todo}."},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": _uri(path), "uriBaseId": "ROOT"}, "region": region,
        }}],
        "properties": {"effort": place.effort.value, "sure": place.sure.value, "convert": place.converts},
    }  # fmt: skip


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def dumps(document: dict[str, Any]) -> str:
    """A document as text; no character in it steers a terminal or breaks a page."""
    return json.dumps(document, indent=1, ensure_ascii=True)
