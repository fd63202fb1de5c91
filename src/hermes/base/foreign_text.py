"""Text from outside made harmless: for terminals and logs, for tables that other programs open, for shells.

Names of operators, jobs and files come from others. One may hold escapes that move a cursor, a line break that forges
a line of ours, marks that turn the writing direction, what a shell runs, or what a spreadsheet computes.
"""

from __future__ import annotations

import shlex
import unicodedata

MISSING_CHARACTER = "\N{REPLACEMENT CHARACTER}"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a program that opens tables takes for the begin of a formula, also in full width."""


def clean(text: str) -> str:
    """One line of text that can neither move a cursor nor turn the writing direction.

    Line breaks and tabs become a space; every other control, format (bidi override, zero width) or surrogate
    character becomes U+FFFD.
    """
    return text if text.isprintable() else "".join(map(_harmless, text))


def clean_lines(text: str) -> str:
    """The same for text of several lines, which stay."""
    return "\n".join(map(clean, text.split("\n")))


def clean_cell(text: str) -> str:
    """A cell of a table that other programs open: one that begins like a formula is text, as its first sign says."""
    return f"'{text}" if text.startswith(_FORMULA) and not _number(text) else text


def shell_command(*words: str) -> str:
    """A command to copy into a shell: every word is one word there, whatever it holds, and stands in one line."""
    return " ".join(map(_word, words))


def _word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    # Byte by byte, as files are named: what is shown is ASCII, and bash, zsh and ksh read it back.
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
