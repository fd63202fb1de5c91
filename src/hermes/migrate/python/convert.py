"""Converts one Python file: makes the edits of a style, parses the result as a check, and lists remaining places."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence

from hermes.migrate.python import inserted_header
from hermes.migrate.python.scanned_file import File, apply, edits_of
from hermes.migrate.scan_model import Edit, SourcePlace, Style, Sure


def convert(file: File, style: Style, least: Sequence[Sure], entry: bool) -> tuple[str, list[Edit], list[SourcePlace]]:
    """The text after conversion, the edits, and the places that are left to a person.

    `entry` says whether users start the file; only such a file imports the shim.
    """
    if style is Style.NATIVE and inserted_header.name_is_taken(file):
        return file.source.text, [], [one.place for one in file.found]
    edits, needs, left = edits_of(file.found, style, least)
    try:
        top = inserted_header.constants(file, needs, edits) if style is Style.NATIVE and edits else None
    except ValueError:
        return file.source.text, [], [one.place for one in file.found]
    if style is Style.SHIM and entry:
        top = inserted_header.shim(file)
    if top is not None:
        edits = _with_top(edits, top)
    after = apply(file.source.text, edits)
    if edits and not _parses(after):
        return file.source.text, [], [one.place for one in file.found]
    return after, edits, left


def _with_top(edits: list[Edit], top: Edit) -> list[Edit]:
    # At one position, new lines come before other edits.
    return sorted([top, *edits], key=lambda edit: (edit.start, edit.end, edit is not top))


def _parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return False
    return True
