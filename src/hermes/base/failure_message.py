"""Makes a message of the reason why an operation failed, and raises messages below the level of errors for users."""

from __future__ import annotations

from hermes.base.message import Message, Name, message
from hermes.base.say import say


@message("base.quoted")
def quoted(*, text: Name) -> None:
    """The message that quotes a library's own error text."""


class MessageError(Exception):
    """A base of exceptions that are raised with a message but are no `HermesError`: `str` gives the sentence.

    A handler may put any exception into a text, and a message itself must not be put into one.
    """

    def __init__(self, what: Message) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return say(self.what)


class CutShortError(MessageError, EOFError):
    """A file ends before its content does."""


def reason(failed: BaseException, most: int | None = None) -> Message:
    """The message that an exception was raised with, or else its text of at most `most` characters."""
    told = failed.args[0] if failed.args else None
    return told if isinstance(told, Message) else quoted(text=str(failed)[:most])
