"""Folds lines of code that are wider than a terminal, where folded code still means the same."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

_STEP = "    "


def fold_code(code: str, width: int) -> Iterator[str]:
    """The lines of code, each at most `width` columns wide if a place to fold it is known; empty lines are left out.

    Comments move to lines of their own. Python is folded behind a bracket or a comma in brackets, a command before an
    option or a variable, and anything else between words.
    """
    for line in filter(str.strip, code.splitlines()):
        if len(line) <= width:
            yield line
            continue
        body, mark, comment = line.partition("# ")
        if body.strip():
            yield from _folded(body.rstrip(), width)
        if mark:
            indent = body if not body.strip() else ""
            yield from textwrap.wrap(
                comment, width, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ", break_long_words=False,
                break_on_hyphens=False,
            )  # fmt: skip


def _folded(line: str, width: int) -> Iterator[str]:
    if len(line) <= width:
        yield line
    elif not line.lstrip().startswith("-") and _is_python(line):
        yield from _at(line, width, [at + 1 for at in _inside_brackets(line)], end="")
    elif re.match(r"\s*(export|unset|--?\w)|.* --\w", line):
        yield from _at(
            line, width, [found.start() for found in re.finditer(r" (?=--?\w|\w+=|[A-Z_]+\b)", line)], end=" \\"
        )
    else:
        yield from textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)


def _at(line: str, width: int, places: list[int], *, end: str) -> Iterator[str]:
    """The line, folded at as few of the places as its width allows."""
    begin, indent = 0, ""
    while len(indent) + len(line) - begin > width:
        room = begin + width - len(indent) - len(end)
        fitting = [at for at in places if begin < at <= room] or [at for at in places if at > begin][:1]
        if not fitting:
            break
        yield indent + line[begin : fitting[-1]].strip() + end
        begin, indent = fitting[-1], _STEP
    yield indent + line[begin:].strip()


def _is_python(line: str) -> bool:
    try:
        ast.parse(line.strip())
    except (SyntaxError, ValueError):
        return False
    return True


def _inside_brackets(line: str) -> Iterator[int]:
    """The opening brackets, and the commas inside brackets; none in a string."""
    depth, quote = 0, ""
    for at, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
            if depth > 0 and character in "([{,":
                yield at
