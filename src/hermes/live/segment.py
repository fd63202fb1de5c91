"""Files that processes map together: made whole and exclusively, opened only when owner, mode and size are right."""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from hermes.live.errors import LiveError

HEADER = 4096
VERSION = 1
_HEAD = struct.Struct("<8sIIQII")
"""Magic, version, bytes of the description, size of the file, checksum of the description, checksum of all before."""
_CHECK = struct.Struct("<I")
_AHEAD = _HEAD.size - _CHECK.size
_LARGEST = 1 << 30


def header(magic: bytes, size: int, about: Mapping[str, object]) -> bytes:
    """The first page of a segment or log: what it is, how large, and a description as JSON."""
    text = json.dumps(about, ensure_ascii=True).encode()
    if len(text) > HEADER - _HEAD.size:
        raise LiveError(f"the description has {len(text)} bytes, more than fit a header")
    head = _HEAD.pack(magic, VERSION, len(text), size, zlib.crc32(text), 0)[:_AHEAD]
    return (head + _CHECK.pack(zlib.crc32(head)) + text).ljust(HEADER, b"\0")


def parse_header(page: bytes, magic: bytes, what: str) -> tuple[int, dict[str, object]]:
    """Size and description that a header claims; raises `LiveError` unless every check holds."""
    if len(page) < HEADER:
        raise LiveError(f"{what} is cut off in its header")
    found, version, length, size, text_check, head_check = _HEAD.unpack_from(page)
    if found != magic or zlib.crc32(page[:_AHEAD]) != head_check:
        raise LiveError(f"{what} is none of ours, or damaged")
    if version != VERSION:
        raise LiveError(f"{what} has version {version}, and this Hermes speaks version {VERSION}")
    text = page[_HEAD.size : _HEAD.size + length]
    if len(text) != length or zlib.crc32(text) != text_check:
        raise LiveError(f"{what} has a damaged description")
    try:
        about = json.loads(text)
    except ValueError as broken:
        raise LiveError(f"{what} has a damaged description") from broken
    if not isinstance(about, dict):
        raise LiveError(f"{what} has a damaged description")
    return size, about


def create(path: Path, magic: bytes, size: int, about: Mapping[str, object]) -> mmap.mmap:
    """A new segment of that size, readable by its owner alone, all of its memory reserved.

    Reserved, because a page that cannot be had when it is first written kills the process with SIGBUS: a full
    `/dev/shm` must show here, as `LiveError`.
    """
    first = header(magic, size, about)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as refused:
        raise LiveError(f"{path} cannot be made ({refused.strerror})") from refused
    try:
        os.fchmod(descriptor, 0o600)
        os.posix_fallocate(descriptor, 0, size)
        mapped = mmap.mmap(descriptor, size)
        mapped[: len(first)] = first
    except (OSError, ValueError) as refused:
        path.unlink(missing_ok=True)
        raise LiveError(f"{path} has no room ({refused})") from refused
    finally:
        os.close(descriptor)
    return mapped


def attach(path: Path, magic: bytes, *, writable: bool) -> tuple[mmap.mmap, dict[str, object]]:
    """Map a segment that another process made, after checking that it is what it should be; else `LiveError`."""
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except OSError as refused:
        why = "is a link" if refused.errno == errno.ELOOP else f"cannot be opened ({refused.strerror})"
        raise LiveError(f"{path} {why}") from refused
    try:
        size = _trusted_size(descriptor, path)
        claimed, about = parse_header(os.pread(descriptor, HEADER, 0), magic, str(path))
        if claimed != size:
            raise LiveError(f"{path} has {size} bytes instead of {claimed}")
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        return mmap.mmap(descriptor, size, access=access), about
    except (OSError, ValueError) as refused:
        raise LiveError(f"{path} cannot be mapped ({refused})") from refused
    finally:
        os.close(descriptor)


def _trusted_size(descriptor: int, path: Path) -> int:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise LiveError(f"{path} is no file")
    if facts.st_uid != os.geteuid():
        raise LiveError(f"{path} belongs to user {facts.st_uid}")
    if facts.st_mode & 0o077:
        raise LiveError(f"{path} is open to other users (mode {stat.S_IMODE(facts.st_mode):o})")
    if not HEADER <= facts.st_size <= _LARGEST:
        raise LiveError(f"{path} has {facts.st_size} bytes")
    return facts.st_size
