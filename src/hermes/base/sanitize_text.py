"""Makes text from outside harmless: for terminals and logs, for tables that spreadsheets open, and for shells.

Names of operators, jobs and files come from others. Such a name may hold escapes that move a cursor, or a line break
that forges a line of Hermes' output. It may also hold marks that turn the writing direction, shell commands, or
spreadsheet formulas.
"""

from __future__ import annotations

import shlex
import unicodedata

MISSING_CHARACTER = "\N{REPLACEMENT CHARACTER}"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters by which a spreadsheet program takes a cell for a formula, also in full width."""


def harmless_line(text: str) -> str:
    """One line of text that can neither move a cursor nor turn the writing direction.

    Line breaks and tabs become a space; every other control, format (bidi override, zero width) or surrogate
    character becomes U+FFFD.
    """
    return text if text.isprintable() else "".join(map(_harmless, text))


def clean_lines(text: str) -> str:
    """Several lines of text, each cleaned as by `harmless_line`; the line breaks stay."""
    return "\n".join(map(harmless_line, text.split("\n")))


def clean_cell(text: str) -> str:
    """A table cell that a spreadsheet does not run: an apostrophe before a text like a formula marks it as text."""
    return f"'{text}" if text.startswith(_FORMULA) and not _number(text) else text


def shell_command(*words: str) -> str:
    """A command on one line that a user can copy into a shell: each word stays one word, whatever it holds."""
    return " ".join(map(_word, words))


def _word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    # Each byte is quoted on its own, as file names are bytes: the result is ASCII, and bash, zsh and ksh read it back.
    raw = word.encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(one) if 32 <= one < 127 and one not in b"'\\" else f"\\x{one:02x}" for one in raw) + "'"


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii()


def _harmless(character: str) -> str:
    if character.isspace() or character == "\x85":
        return " "
    return MISSING_CHARACTER if unicodedata.category(character) in {"Cc", "Cf", "Cs"} else character
