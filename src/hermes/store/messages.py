"""Messages about paths, URLs, archives and the cache: what cannot be read or written, and what to do."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, message, sentence

LOST_ENTRIES = sentence("store.lost.entries")
LOST_BEHIND = sentence("store.lost.behind")
LOST_FOLDER = sentence("store.lost.folder")
LOST_FILE = sentence("store.lost.file")
LOST_CAPTURE = sentence("store.lost.capture")
LOST_UNCACHED = sentence("store.lost.uncached")
FOLDER_OF_MACHINE = sentence("store.folder_of_machine")
DO_CHECK_PERMISSIONS = sentence("store.do.check_permissions")
DO_GIVE_PROFILE = sentence("store.do.give_profile")
DO_PACK_FILES = sentence("store.do.pack_files")
DO_COPY_AGAIN = sentence("store.do.copy_again")
DO_COPY_WHOLE = sentence("store.do.copy_whole")
DO_CHECK_PATH = sentence("store.do.check_path")
DO_CHECK_ADDRESS = sentence("store.do.check_address")
DO_GIVE_ADDRESS = sentence("store.do.give_address")
DO_INSTALL_READER = sentence("store.do.install_reader")
DO_WAIT_FOR_PROFILER = sentence("store.do.wait_for_profiler")
DO_AFTER_JOB = sentence("store.do.after_job")
DO_FREE_SPACE = sentence("store.do.free_space")
DO_FREE_CACHE = sentence("store.do.free_cache")
NO_PATH = sentence("store.no_path")
NEITHER = sentence("store.neither")
CHANGED = sentence("store.changed")
NO_FILE_AT_ADDRESS = sentence("store.no_file_at_address")
FETCH_FILLS_DISK = sentence("store.fetch_fills_disk")
UNPACKING_FILLS_DISK = sentence("store.unpacking_fills_disk")
OLD_SPARSE = sentence("store.old_sparse")
LONG_HEADER = sentence("store.long_header")
NO_END_MARK = sentence("store.no_end_mark")


@message("store.entries_refused")
def entries_refused(*, n: Count, why: Name, names: Name) -> None:
    """Some entries of an archive are refused."""


@message("store.archive_damaged")
def archive_damaged(*, where: Message) -> None:
    """An archive is damaged."""


@message("store.folder_closed")
def folder_closed(*, why: Name) -> None:
    """A folder may not be read."""


@message("store.folder_too_deep")
def folder_too_deep(*, depth: Name) -> None:
    """A folder lies deeper than profiles do."""


@message("store.damage_at")
def damage_at(*, name: Name, why: Message) -> None:
    """The place and kind of damage in an archive."""


@message("store.nothing_unpacked")
def nothing_unpacked(*, why: Message | None = None) -> None:
    """No file could be unpacked from an archive."""


@message("store.cache_unwritable")
def cache_unwritable(*, why: Name) -> None:
    """The cache has no room, or may not be written."""


@message("store.unreadable")
def unreadable(*, why: Name) -> None:
    """A file cannot be read."""


@message("store.not_fetched")
def not_fetched(*, why: Name) -> None:
    """A file at a URL cannot be fetched."""


@message("store.not_listed")
def not_listed(*, why: Name) -> None:
    """A folder at a URL cannot be listed."""


@message("store.more_than_listed")
def more_than_listed(*, listed: Count) -> None:
    """A file at a URL is longer than listed, or has no end."""


@message("store.not_installed")
def not_installed(*, scheme: Name, missing: Name) -> None:
    """The library that reads a kind of URL is not installed."""


@message("store.unknown_address")
def unknown_address(*, why: Name) -> None:
    """No library reads this kind of URL."""
