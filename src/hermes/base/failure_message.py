"""Makes a message of the reason why an operation failed."""

from __future__ import annotations

from hermes.base.message import Message, Name, message


@message("base.quoted")
def quoted(*, text: Name) -> None:
    """The message that quotes a library's own error text."""


def reason(failed: BaseException, most: int | None = None) -> Message:
    """The message that an exception was raised with, or else its text of at most `most` characters."""
    told = failed.args[0] if failed.args else None
    return told if isinstance(told, Message) else quoted(text=str(failed)[:most])
