"""Makes, locks and opens files in shared memory, completely written and in a folder that only their user can use.

The files are read and written, never mapped: if somebody truncates a mapped file, a process that touches it is killed
(SIGBUS).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from hermes.inside.wire.errors import LiveError

HEADER = 4096
VERSION = 2
_HEAD = struct.Struct("<8sIIQII")
"""Magic, version, bytes of the description, size of the file, checksum of the description, checksum of all before."""
_CHECK = struct.Struct("<I")
_AHEAD = _HEAD.size - _CHECK.size
_LARGEST = 1 << 30
also_of: set[int] = set()
"""User ids, beside this user's, whose files may be used: only an operator, whom root's policy names, adds to the
set."""


def header(magic: bytes, size: int, about: Mapping[str, object]) -> bytes:
    """The first page of a segment or log: magic, size, and a description as JSON."""
    text = json.dumps(about, ensure_ascii=True).encode()
    if len(text) > HEADER - _HEAD.size:
        raise LiveError(f"the description has {len(text)} bytes, more than fit a header")
    head = _HEAD.pack(magic, VERSION, len(text), size, zlib.crc32(text), 0)[:_AHEAD]
    return (head + _CHECK.pack(zlib.crc32(head)) + text).ljust(HEADER, b"\0")


def parse_header(page: bytes, magic: bytes, what: str) -> tuple[int, dict[str, object]]:
    """Size and description in a header; raises `LiveError` unless every check succeeds."""
    if len(page) < HEADER:
        raise LiveError(f"{what} is cut off in its header")
    found, version, length, size, text_check, head_check = _HEAD.unpack_from(page)
    if found != magic or zlib.crc32(page[:_AHEAD]) != head_check:
        raise LiveError(f"{what} is none of ours, or damaged")
    if version not in (1, VERSION):
        raise LiveError(f"{what} has version {version}, and this Hermes speaks version {VERSION}")
    text = page[_HEAD.size : _HEAD.size + length]
    if len(text) != length or zlib.crc32(text) != text_check:
        raise LiveError(f"{what} has a damaged description")
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise LiveError(f"{what} has a damaged description") from broken
    if not isinstance(about, dict):
        raise LiveError(f"{what} has a damaged description")
    return size, about


def open_folder(path: Path, *, make: bool = False) -> int:
    """A descriptor of a folder that only this user can use, made first if asked. Raises `LiveError` for any other
    folder."""
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as refused:
        why = "is no folder" if refused.errno in (errno.ENOTDIR, errno.ELOOP) else f"cannot be had ({refused.strerror})"
        raise LiveError(f"{path} {why}") from refused
    try:
        _check_owner(os.fstat(descriptor), path)
    except LiveError:
        os.close(descriptor)
        raise
    return descriptor


def _check_owner(facts: os.stat_result, path: Path) -> None:
    if facts.st_uid != os.geteuid() and facts.st_uid not in also_of:
        raise LiveError(f"{path} belongs to user {facts.st_uid}")
    if facts.st_mode & 0o077:
        raise LiveError(f"{path} is open to other users (mode {stat.S_IMODE(facts.st_mode):o})")


def reopen(path: Path) -> int:
    """A descriptor of a segment that was open before. Raises `OSError`."""
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)


def create(path: Path, magic: bytes, size: int, about: Mapping[str, object]) -> int:
    """A descriptor of a new segment of `size` bytes, for its owner alone, with all of its memory reserved.

    A full `/dev/shm` must show here, as `LiveError`, and not when a step is written.
    """
    first = header(magic, size, about)
    folder = open_folder(path.parent)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path.name, flags, 0o600, dir_fd=folder)
        try:
            os.fchmod(descriptor, 0o600)
            os.posix_fallocate(descriptor, 0, size)
            os.pwrite(descriptor, first, 0)
        except OSError as full:
            os.close(descriptor)
            os.unlink(path.name, dir_fd=folder)
            raise LiveError(f"{path} has no room ({full})") from full
    except OSError as refused:
        raise LiveError(f"{path} cannot be made ({refused.strerror})") from refused
    finally:
        os.close(folder)
    return descriptor


def attach(path: Path, magic: bytes, *, writable: bool) -> tuple[int, int, dict[str, object]]:
    """Descriptor, size and description of a segment that another process made, after all checks.

    Raises `LiveError` if a check fails. The function waits for nothing: neither a pipe nor a lock.
    """
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    folder = open_folder(path.parent)
    try:
        descriptor = os.open(path.name, flags, dir_fd=folder)
    except OSError as refused:
        why = "is a link" if refused.errno == errno.ELOOP else f"cannot be opened ({refused.strerror})"
        raise LiveError(f"{path} {why}") from refused
    finally:
        os.close(folder)
    try:
        size = _trusted_size(descriptor, path)
        claimed, about = parse_header(os.pread(descriptor, HEADER, 0), magic, str(path))
        if claimed != size:
            raise LiveError(f"{path} has {size} bytes instead of {claimed}")
    except (OSError, LiveError) as refused:
        os.close(descriptor)
        raise LiveError(str(refused)) from refused
    return descriptor, size, about


def _trusted_size(descriptor: int, path: Path) -> int:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise LiveError(f"{path} is no file")
    _check_owner(facts, path)
    if not HEADER <= facts.st_size <= _LARGEST:
        raise LiveError(f"{path} has {facts.st_size} bytes")
    return facts.st_size
