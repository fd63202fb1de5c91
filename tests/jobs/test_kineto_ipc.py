"""The messages of libkineto's daemon protocol, and a socket that believes nobody."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.patience import PATIENCE_S, until
from tests.skips import needs_root

from hermes.base.message import Message
from hermes.jobs.kineto_daemon import kineto_messages as messages
from hermes.jobs.kineto_daemon.ipc import (
    LONGEST_FOLDER,
    NAME,
    Endpoint,
    Question,
    Registration,
    SocketError,
    decode,
    encode,
)

pytestmark = pytest.mark.live

CLIENT = "dynoconfigclient01234567-89ab-4cde-8f01-23456789abcd"
SAME_SOCKET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
# As torch 2.13 sends them on x86-64: the size as 8 bytes, the kind in 32, then the body.
REGISTERED = b"\x10\0\0\0\0\0\0\0" + b"ctxt".ljust(32, b"\0") + b"\0\0\0\0\xd2\x04\0\0\0\0\0\0\0\0\0\0"
ASKED = (
    b"\x18\0\0\0\0\0\0\0"
    + b"req".ljust(32, b"\0")
    + b"\x03\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0"
    + b"\xd2\x04\0\0\x01\0\0\0"
)


def test_messages_are_the_bytes_that_torch_sends() -> None:
    assert decode(REGISTERED) == Registration(pid=1234)
    assert decode(ASKED) == Question(pids=(1234, 1), busy=False)
    assert decode(ASKED.replace(b"\x03\0\0\0\x02", b"\x01\0\0\0\x02")) == Question(pids=(1234, 1), busy=True)
    assert encode(Registration(pid=1234)) == REGISTERED
    assert encode(Question(pids=(1234, 1), busy=False)) == ASKED


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", messages.short(size=0)),
        (REGISTERED[:39], messages.short(size=39)),
        (REGISTERED[:-1], messages.other_size(claimed=16, size=15)),
        (REGISTERED + b"\0", messages.other_size(claimed=16, size=17)),
        (ASKED[:40] + ASKED[40:].replace(b"\x02\0\0\0", b"\x03\0\0\0", 1), messages.unknown(kind="req", size=24)),
        (ASKED[:44] + struct.pack("=i", -1) + ASKED[48:], messages.unknown(kind="req", size=24)),
        (ASKED[:44] + struct.pack("=i", 0) + ASKED[48:], messages.unknown(kind="req", size=24)),
        (struct.pack("=Q32s", 0, b"req"), messages.unknown(kind="req", size=0)),
        (struct.pack("=Q32s", 2**64 - 1, b"ctxt"), messages.other_size(claimed=2**64 - 1, size=0)),
        (struct.pack("=Q32s", 0, b"data"), messages.unknown(kind="data", size=0)),
        (struct.pack("=Q32s4s", 4, b"\xff" * 32, b"abcd"), messages.unknown(kind="\ufffd" * 32, size=4)),
    ],
)
def test_what_is_no_message_is_refused(raw: bytes, why: Message) -> None:
    with pytest.raises(SocketError) as refused:
        decode(raw)
    assert refused.value.what == why


@given(st.binary(max_size=200))
def test_random_bytes_are_understood_or_refused(raw: bytes) -> None:
    for text in (raw, struct.pack("=Q32s", len(raw), b"req") + raw, struct.pack("=Q32s", len(raw), b"ctxt") + raw):
        try:
            message = decode(text)
        except SocketError:
            continue
        assert isinstance(message, Registration | Question)


class Client:
    """A process that speaks to the daemon, with a socket as libkineto has it."""

    def __init__(self, folder: Path, name: str = CLIENT) -> None:
        self.path = folder / name
        self.daemon = folder / NAME
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(10)

    def send(self, raw: bytes) -> None:
        self.socket.sendto(raw, str(self.daemon))


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Short enough, whatever the folder of the tests is called."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="h", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def endpoint(folder: Path) -> Iterator[Endpoint]:
    made = Endpoint(folder)
    yield made
    made.close()


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    made = Client(folder)
    yield made
    made.socket.close()


def test_a_process_is_heard_by_the_number_that_the_kernel_gives_it(endpoint: Endpoint, client: Client) -> None:
    client.send(ASKED)
    got = endpoint.receive(10)
    assert got is not None
    sender, message = got
    # It claims to be 1234.
    assert (sender.pid, message) == (os.getpid(), Question(pids=(1234, 1), busy=False))
    assert endpoint.answer(sender, message, "A=1\n")
    assert client.socket.recv(100) == struct.pack("=Q32s4s", 4, b"req", b"A=1\n")
    client.send(REGISTERED)
    got = endpoint.receive(10)
    assert got is not None
    assert endpoint.answer(*got)
    assert client.socket.recv(100) == struct.pack("=Q32si", 4, b"ctxt", 1)


def test_no_message_in_time_is_none(endpoint: Endpoint) -> None:
    assert endpoint.receive(0.001) is None
    assert endpoint.ignored == []


def test_junk_is_ignored_and_told_once(endpoint: Endpoint, client: Client) -> None:
    for raw in [b"junk"] * 5 + [bytes(5000)]:
        client.send(raw)
        assert endpoint.receive(10) is None
    assert endpoint.ignored == [messages.short(size=4), messages.long(most=4096)]
    for number in range(30):
        client.send(bytes(number))
        endpoint.receive(10)
    assert len(endpoint.ignored) == 10
    client.send(ASKED)
    assert endpoint.receive(10) is not None


@SAME_SOCKET
@given(st.lists(st.binary(max_size=300), max_size=10))
def test_random_datagrams_never_stop_the_socket(endpoint: Endpoint, client: Client, raws: list[bytes]) -> None:
    for raw in raws:
        client.send(raw)
        endpoint.receive(10)
    client.send(ASKED)
    assert endpoint.receive(10) is not None


def test_a_socket_of_another_name_gets_no_answer(endpoint: Endpoint, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as nameless:
        nameless.sendto(ASKED, str(folder / NAME))
        assert endpoint.receive(10) is None
    other = Client(folder, "another")
    other.send(ASKED)
    assert endpoint.receive(10) is None
    other.socket.close()
    assert endpoint.ignored == [messages.OTHER_SOCKET]


def test_an_answer_goes_into_the_daemons_folder_whatever_the_sender_is_called(
    endpoint: Endpoint, client: Client, folder: Path, tmp_path: Path
) -> None:
    (folder / "deep").mkdir()
    elsewhere = Client(folder / "deep")
    elsewhere.daemon = folder / NAME
    elsewhere.send(ASKED)
    got = endpoint.receive(10)
    assert got is not None
    assert got[0].address == str(folder / CLIENT)
    elsewhere.socket.close()


def test_descriptors_that_are_sent_along_are_not_kept(endpoint: Endpoint, client: Client) -> None:
    reading, writing = os.pipe()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writing] * 3))]
    client.socket.sendmsg([ASKED], rights, 0, str(client.daemon))
    endpoint.receive(10)
    os.close(writing)
    os.set_blocking(reading, False)
    # No copy of the writing end is open any more: the pipe is at its end.
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_an_answer_to_a_process_that_is_gone_is_not_sent(endpoint: Endpoint, client: Client) -> None:
    client.send(ASKED)
    got = endpoint.receive(10)
    assert got is not None
    client.socket.close()
    assert not endpoint.answer(*got, "A=1")
    client.path.unlink()
    assert not endpoint.answer(*got, "A=1")


@needs_root
def test_a_process_of_another_user_is_not_heard(endpoint: Endpoint, client: Client, folder: Path) -> None:
    folder.chmod(0o755)
    (folder / NAME).chmod(0o666)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        client.send(ASKED)
        os._exit(0)
    os.waitpid(child, 0)
    assert endpoint.receive(10) is None
    assert endpoint.ignored == [messages.other_user(user="65534")]


def test_the_socket_is_its_users_alone_and_goes_with_the_daemon(folder: Path) -> None:
    made = Endpoint(folder)
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600
    made.close()
    made.close()
    assert list(folder.iterdir()) == []


def test_a_second_daemon_is_refused_and_leaves_the_first_alone(
    endpoint: Endpoint, client: Client, folder: Path
) -> None:
    with pytest.raises(SocketError, match="another daemon uses the folder"):
        Endpoint(folder)
    client.send(ASKED)
    assert endpoint.receive(10) is not None


def test_a_daemon_that_is_none_of_ours_keeps_its_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
        theirs.bind(str(folder / NAME))
        with pytest.raises(SocketError, match="another daemon uses the socket"):
            Endpoint(folder)
        assert (folder / NAME).is_socket()


def test_what_killed_processes_left_is_removed_and_what_lives_stays(folder: Path, client: Client) -> None:
    for name in (NAME, CLIENT.replace("0123", "aaaa"), "other"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(str(folder / name))
    made = Endpoint(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted([NAME, CLIENT, "other"])
    made.close()


def _abstract() -> Endpoint | None:
    """The one that all of a machine share, once nobody else has it: other tests may run beside these."""
    try:
        return Endpoint()
    except SocketError:
        return None


def test_the_abstract_name_is_had_once() -> None:
    made = until(_abstract, PATIENCE_S)
    with pytest.raises(SocketError, match="another daemon uses the socket 'dynolog'"):
        Endpoint()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.bind(f"\0{CLIENT}\0")
        client.sendto(ASKED, f"\0{NAME}\0")
        got = made.receive(10)
        assert got is not None
        assert made.answer(*got, "B=2")
        client.settimeout(10)
        assert client.recv(100)[-3:] == b"B=2"
    made.close()
    Endpoint().close()


def test_a_folder_that_others_may_write_or_that_is_too_long_is_refused(folder: Path) -> None:
    with pytest.raises(SocketError, match="cannot be read"):
        Endpoint(folder / "absent")
    (folder / "file").touch()
    with pytest.raises(SocketError, match="is not a folder"):
        Endpoint(folder / "file")
    long = folder / ("x" * (LONGEST_FOLDER - len(str(folder))))
    long.mkdir(mode=0o700)
    with pytest.raises(SocketError, match="longer than the 54 B that libkineto accepts"):
        Endpoint(long)
    folder.chmod(0o777)
    with pytest.raises(SocketError, match="written by other users"):
        Endpoint(folder)
