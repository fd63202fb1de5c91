"""Speaks libkineto's daemon protocol: receives datagrams of a job's processes, and sends configurations.

A process that was started with KINETO_USE_DAEMON sends datagrams to the socket `dynolog`: an abstract name (unix(7)) or
a file in KINETO_IPC_SOCKET_DIR. First the process registers. Then it asks every few seconds whether to record. The
layout is that of dynolog and libkineto: a head of 40 bytes, then native integers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes.base.errors import HermesError
from hermes.base.message import Text
from hermes.jobs.capture_messages import cannot_make
from hermes.jobs.kineto_daemon import kineto_messages as messages

NAME: Final = "dynolog"
"""The socket name of every such daemon: there is one for each network namespace, or one for each folder."""
LONGEST_FOLDER: Final = 54
"""Longest name in bytes of a socket folder: libkineto appends 53 more bytes and does not check the sum."""
_HEAD = struct.Struct("=Q32s")
_CONTEXT = struct.Struct("=iiq")
_REQUEST = struct.Struct("=iiq")
_PID = struct.Struct("=i")
_CREDENTIALS = struct.Struct("=iII")
_LARGEST = 4096
_MOST_PIDS = 256
_ACTIVITIES = 2
_CLIENT = re.compile(r"dynoconfigclient[0-9a-f-]{36}")


class SocketError(HermesError):
    """The socket cannot be opened, or a datagram is no valid message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A message by which a process registers with the daemon."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of a process for a configuration. `pids` are its own number and its ancestors', as the process sees
    them.

    `busy`: the process records, or writes its recording.
    """

    pids: tuple[int, ...]
    busy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The sender of a datagram, as the kernel reports it, and the address for an answer."""

    pid: int
    address: str | bytes


def decode(raw: bytes) -> Registration | Question:
    """The message in a datagram. Raises `SocketError` for an invalid message, or another protocol's."""
    if len(raw) < _HEAD.size:
        raise SocketError(messages.short(size=len(raw)))
    size, name = _HEAD.unpack_from(raw)
    body = raw[_HEAD.size :]
    if size != len(body):
        raise SocketError(messages.other_size(claimed=size, size=len(body)))
    kind = name.partition(b"\0")[0]
    if kind == b"ctxt" and size == _CONTEXT.size:
        return Registration(pid=_CONTEXT.unpack(body)[1])
    if kind == b"req" and size >= _REQUEST.size:
        asks, count, _ = _REQUEST.unpack_from(body)
        if 1 <= count <= _MOST_PIDS and size == _REQUEST.size + count * _PID.size:
            pids = tuple(pid for (pid,) in _PID.iter_unpack(body[_REQUEST.size :]))
            return Question(pids=pids, busy=not asks & _ACTIVITIES)
    raise SocketError(messages.unknown(kind=kind[:32].decode("ascii", "replace"), size=size))


def encode(message: Registration | Question) -> bytes:
    """The datagram of a message, as libkineto sends it."""
    if isinstance(message, Registration):
        return _message(b"ctxt", _CONTEXT.pack(0, message.pid, 0))
    asks = 1 if message.busy else 1 | _ACTIVITIES
    pids = b"".join(map(_PID.pack, message.pids))
    return _message(b"req", _REQUEST.pack(asks, len(message.pids), 0) + pids)


def _message(kind: bytes, body: bytes) -> bytes:
    return _HEAD.pack(len(body), kind) + body


class Endpoint:
    """The daemon's socket. Only processes of this user are heard."""

    def __init__(self, folder: Path | None = None) -> None:
        """Open the socket in `folder`, or under the abstract name. Raises `SocketError` when another daemon has the
        name."""
        self.folder = folder
        self.ignored: list[Text] = []
        """Reasons for ignored datagrams: each reason once, ten at most."""
        self._path = None if folder is None else folder / NAME
        self._lock, self._bound = -1, False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            if folder is None:
                self._bind_name()
            else:
                self._bind_file(folder)
        except BaseException:
            self.close()
            raise

    def _bind_name(self) -> None:
        try:
            # libkineto counts the zero behind the name as a part of the name.
            self._socket.bind(f"\0{NAME}\0")
        except OSError as refused:
            raise SocketError(messages.name_taken(name=NAME, why=refused.strerror or "")) from refused

    def _bind_file(self, folder: Path) -> None:
        _trusted(folder)
        path = folder / NAME
        try:
            # The lock is held until the end: of two daemons only one gets it, and an existing socket file is then
            # nobody's.
            self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_socket() and _answers(path):
                raise SocketError(messages.socket_taken(path=str(path)))
            for stale in (*_clients(folder), path):
                if stale.is_socket():
                    stale.unlink(missing_ok=True)
            self._socket.bind(str(path))
            self._bound = True
            path.chmod(0o600)
        except BlockingIOError as held:
            raise SocketError(messages.folder_taken(folder=str(folder))) from held
        except OSError as refused:
            raise SocketError(cannot_make(path=str(path), why=refused.strerror or "")) from refused

    def receive(self, patience_s: float) -> tuple[Sender, Registration | Question] | None:
        """The next message of this user; None when none came within `patience_s` seconds, or only ignored datagrams."""
        self._socket.settimeout(patience_s)
        try:
            # Room for the credentials and nothing else: descriptors that a sender attaches are dropped.
            raw, extra, flags, address = self._socket.recvmsg(_LARGEST, socket.CMSG_LEN(_CREDENTIALS.size))
        except TimeoutError:
            return None
        try:
            sender = self._sender(extra, address)
            if flags & socket.MSG_TRUNC:
                raise SocketError(messages.long(most=_LARGEST))
            return sender, decode(raw)
        except SocketError as junk:
            self._ignore(junk.what)
            return None

    def _sender(self, extra: list[tuple[int, int, bytes]], address: str | bytes | None) -> Sender:
        pid, user = 0, -1
        for level, kind, data in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) == _CREDENTIALS.size:
                pid, user, _ = _CREDENTIALS.unpack(data)
            elif level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                _close_all(data)
        if user != os.geteuid():
            raise SocketError(messages.other_user(user=str(user)))
        return Sender(pid=pid, address=self._client(os.fsencode(address or "")))

    def _client(self, address: bytes) -> str | bytes:
        """The address for an answer, always in the daemon's own folder, whatever folder the sender names. Raises
        `SocketError`."""
        abstract = address[:1] == b"\0"
        name = address[1:].rstrip(b"\0") if abstract else address.rpartition(b"/")[2]
        if abstract != (self.folder is None) or not _CLIENT.fullmatch(name.decode("ascii", "replace")):
            raise SocketError(messages.OTHER_SOCKET)
        return address if self.folder is None else str(self.folder / name.decode("ascii"))

    def _ignore(self, why: Text) -> None:
        if why not in self.ignored and len(self.ignored) < 10:
            self.ignored.append(why)

    def answer(self, sender: Sender, message: Registration | Question, text: str = "") -> bool:
        """Answer a message, a question with the configuration `text`; returns whether the answer was sent."""
        body = _PID.pack(1) if isinstance(message, Registration) else text.encode()
        kind = b"ctxt" if isinstance(message, Registration) else b"req"
        self._socket.settimeout(0)
        try:
            self._socket.sendto(_message(kind, body), sender.address)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Release the socket's name, and remove its file."""
        self._socket.close()
        if self._bound and self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._bound = False
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _trusted(folder: Path) -> None:
    """Raise `SocketError` unless only this user can use the folder, and its name is short enough for libkineto."""
    try:
        facts = folder.stat()
    except OSError as refused:
        raise SocketError(messages.cannot_look(folder=str(folder), why=refused.strerror or "")) from refused
    if not stat.S_ISDIR(facts.st_mode):
        raise SocketError(messages.no_folder(folder=str(folder)))
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise SocketError(messages.open_folder(folder=str(folder)))
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        raise SocketError(messages.long_name(folder=str(folder), most=LONGEST_FOLDER))


def _clients(folder: Path) -> list[Path]:
    """Sockets of ended processes: libkineto leaves its file when its process ends."""
    found = [path for path in folder.iterdir() if _CLIENT.fullmatch(path.name) and path.is_socket()]
    return [path for path in found if not _answers(path)]


def _answers(path: Path) -> bool:
    """Whether a process holds the socket of that file. Nothing is sent."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _close_all(data: bytes) -> None:
    for (descriptor,) in _PID.iter_unpack(data[: len(data) // _PID.size * _PID.size]):
        with contextlib.suppress(OSError):
            os.close(descriptor)
