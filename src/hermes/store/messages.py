"""What is said of folders that are not looked into, and of archives."""

from __future__ import annotations

from hermes.base.message import Count, Name, message, sentence

LOST_ENTRIES = sentence("store.lost.entries")
LOST_BEHIND = sentence("store.lost.behind")
LOST_FOLDER = sentence("store.lost.folder")
FOLDER_OF_MACHINE = sentence("store.folder_of_machine")
DO_CHECK_PERMISSIONS = sentence("store.do.check_permissions")
DO_GIVE_PROFILE = sentence("store.do.give_profile")
DO_PACK_FILES = sentence("store.do.pack_files")
DO_COPY_AGAIN = sentence("store.do.copy_again")


@message("store.entries_refused")
def entries_refused(*, n: Count, why: Name, names: Name) -> None:
    """Entries of an archive are refused."""


@message("store.archive_damaged")
def archive_damaged(*, where: Name) -> None:
    """An archive is damaged."""


@message("store.folder_closed")
def folder_closed(*, why: Name) -> None:
    """A folder may not be read."""


@message("store.folder_too_deep")
def folder_too_deep(*, depth: Name) -> None:
    """A folder lies deeper than profiles do."""
