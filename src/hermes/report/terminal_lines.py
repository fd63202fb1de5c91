"""Prints lines on a terminal: fits widths, sets colours, and keeps text from controlling the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Line

from hermes.base.message import Message, Text, Word
from hermes.base.say import say
from hermes.report.format import harmless_line, short_groups
from hermes.report.localized_texts import Tell

_GLYPHS = {"compute": "█", "comm": "▓", "copy": "▒", "free": "░"}
_ASCII_GLYPHS = {"compute": "#", "comm": "=", "copy": "+", "free": "."}

Piece = Text | tuple[Text, str]
"""A piece of a line: a text, or a text and its style."""


class Screen:
    """A console that gets harmless single lines, in ASCII if it can show no more."""

    def __init__(self, console: Console, *, tell: Tell = say) -> None:
        """`tell` translates texts into the reader's language, if the console can show it."""
        self._console = console
        self.width = max(console.width, 40)
        self.ascii = console.options.ascii_only
        self.glyphs = _ASCII_GLYPHS if self.ascii else _GLYPHS
        self._tell: Tell = say if self.ascii else tell

    def say(self, text: Text) -> str:
        """The text in the reader's language, with only characters that this console can show."""
        told = text if isinstance(text, Message) else short_groups(harmless_line(text))
        harmless = harmless_line(self._tell(told))
        if self.ascii:
            harmless = harmless.replace("…", "...").replace("–", "-").encode("ascii", "replace").decode("ascii")
        return harmless

    def text(self, *pieces: Piece) -> Line:
        """A line of plain pieces and (text, style) pieces; markup in the pieces is shown as plain characters."""
        made = Line()
        for piece in pieces:
            content, style = piece if isinstance(piece, tuple) else (piece, "")
            made.append(self.say(content), style=style)
        return made

    def line(self, *pieces: Piece, style: str = "", indent: int = 0, hang: int = 2, most: int = 3) -> None:
        """Print the pieces in at most `most` lines; all lines but the first are indented `hang` columns more."""
        text = self.text(*pieces)
        text.stylize(style)
        room = self.width - indent
        first = text.wrap(self._console, room, overflow="fold")[0]
        self._print(first, indent)
        rest = text[len(first.plain) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
        if not rest.plain:
            return
        lines = rest.wrap(self._console, room - hang, overflow="fold")
        for at, line in enumerate(lines[: most - 1], start=2):
            if at == most and len(lines) >= most:
                line = Line(self.shorten(line.plain + " " * room, room - hang - 1), style=style)
            self._print(line, indent + hang)

    def labelled(self, label: Word, *pieces: Piece, indent: int) -> None:
        """Print the pieces after a heading, in at most two lines."""
        self.line((f"{self.say(label.message)}: ", "green"), *pieces, indent=indent, most=2)

    def raw(self, text: str, *, indent: int, style: str = "") -> None:
        """Print one line whole, however long, so that users can copy it."""
        self._print(Line(harmless_line(text) if not self.ascii else self.say(text), style=style), indent)

    def items(self, items: Iterable[Sequence[Piece]], *, indent: int, style: str = "") -> None:
        """Print items side by side, as many on a line as fit; an item that fits on a line is never broken."""
        line, used = Line(), 0
        for item in items:
            text = self.text(*item)
            text.stylize(style)
            if used and indent + used + 2 + text.cell_len > self.width:
                self._print(line, indent)
                line, used = Line(), 0
            line += Line("  " if used else "") + text
            used += text.cell_len + (2 if used else 0)
        for part in line.wrap(self._console, self.width - indent, overflow="fold"):
            self._print(part, indent)

    def gap(self) -> None:
        """Print one empty line."""
        self._console.print()

    def shorten(self, text: Text, width: int) -> str:
        """The text in at most `width` columns: the middle is left out, because both ends tell names apart."""
        harmless = self.say(text)
        if cell_len(harmless) <= width:
            return harmless
        dots = "..." if self.ascii else "…"
        room = width - len(dots)
        return head(harmless, room - room // 3) + dots + head(harmless[::-1], room // 3)[::-1]

    def _print(self, text: Line, indent: int) -> None:
        text.rstrip()
        self._console.print(Line(" " * indent) + text, highlight=False, soft_wrap=True)


def head(text: str, width: int) -> str:
    """The longest beginning of the text that fits into `width` columns."""
    used = 0
    for at, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return text[:at]
    return text
