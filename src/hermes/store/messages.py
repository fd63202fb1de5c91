"""What unpacking says of an archive."""

from __future__ import annotations

from hermes.base.message import Count, Name, message, sentence

LOST_ENTRIES = sentence("store.lost.entries")
LOST_BEHIND = sentence("store.lost.behind")
DO_PACK_FILES = sentence("store.do.pack_files")
DO_COPY_AGAIN = sentence("store.do.copy_again")


@message("store.entries_refused")
def entries_refused(*, n: Count, why: Name, names: Name) -> None:
    """Entries of an archive are refused."""


@message("store.archive_damaged")
def archive_damaged(*, where: Name) -> None:
    """An archive is damaged."""
