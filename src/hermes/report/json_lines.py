"""Writes JSON as text: a table row a line, and no character that a terminal or a script would interpret."""

from __future__ import annotations

import json

# Legal in JSON strings, but a terminal may act on these (C1 controls, bidi) and JavaScript breaks lines there.
_ESCAPED = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x7F, 0xA0),
        0x061C,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        0xFEFF,
    )
}

# Nesting levels that get lines of their own: the document, its blocks, and the tables in the blocks.
_DEEPEST = len("\n  ")
# Reusable encoders: Python uses the C encoder only where nothing is indented.
_one_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def dumps(values: dict[str, object]) -> str:
    """The JSON values as text, one row of a table a line; equal values give equal bytes in UTF-8."""
    return _in_lines(values).translate(_ESCAPED) + "\n"


def _in_lines(value: object, indent: str = "\n ") -> str:
    """JSON in which each table row is one line: a thirtieth of the lines of fully indented JSON."""
    if isinstance(value, dict) and value and len(indent) <= _DEEPEST:
        kept = [f"{_one_line(name)}: {_in_lines(held, indent + ' ')}" for name, held in value.items()]
        return "{" + indent + f",{indent}".join(kept) + indent[:-1] + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + indent + f",{indent}".join(map(_one_line, value)) + indent[:-1] + "]"
    return _one_line(value)
