"""The control segment carries one request at a time, and survives whoever writes into it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.skips import needs_root

from hermes.inside.wire.control import RANKS, SIZE, Control, Request, Slot, decode, encode
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.process import own_identity

REQUEST = Request(
    action="profile", start_step=10, steps=2, level="light", reason="why", out="/tmp/out", deadline_ns=1, options={}
)
SAME_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control.create(tmp_path / "control", {"job": "a"})


def test_what_is_asked_is_what_every_rank_reads(control: Control) -> None:
    other = Control.attach(control.path, job="a")
    assert other.request() is None
    epoch = control.ask(replace(REQUEST, ranks=(0, 3), options={"stack": "yes"}))
    assert other.epoch == epoch
    assert other.request() == (epoch, replace(REQUEST, ranks=(0, 3), options={"stack": "yes"}))


def test_epochs_grow_by_two_and_a_watcher_killed_while_writing_does_no_harm(control: Control) -> None:
    first = control.ask(REQUEST)
    os.pwrite(control.descriptor, (first + 1).to_bytes(8, "little"), 4096)
    assert control.request() is None
    second = control.ask(replace(REQUEST, steps=5))
    assert second > first
    assert second % 2 == 0
    assert control.request() == (second, replace(REQUEST, steps=5))


def test_a_second_request_is_refused_while_a_rank_is_at_the_first(control: Control) -> None:
    number = control.claim(0)
    epoch = control.ask(replace(REQUEST, deadline_ns=time.time_ns() + 10**10))
    with pytest.raises(LiveError, match="under way on rank 0"):
        control.ask(REQUEST)
    pid, started = own_identity()
    control.say(number, Slot(rank=0, pid=pid, started=started, epoch=epoch, state="started", text=""))
    with pytest.raises(LiveError, match="under way on rank 0"):
        control.ask(REQUEST)
    control.ask(replace(REQUEST, action="cancel"))
    control.say(number, Slot(rank=0, pid=pid, started=started, epoch=epoch, state="cancelled", text=""))
    assert control.ask(REQUEST) > epoch


def test_a_slot_has_one_living_owner(control: Control, tmp_path: Path) -> None:
    assert control.claim(5) == 0
    assert control.claim(5) == 0
    assert control.claim(6) == 1
    other = Control.attach(control.path)
    with pytest.raises(LiveError, match=f"rank 5 of this job is process {os.getpid()}"):
        other.claim(5)
    control.close()
    assert other.claim(5) == 0


def test_a_full_segment_says_how_many_it_has_room_for(control: Control) -> None:
    for rank in range(RANKS):
        control.say(rank, Slot(rank=rank, pid=1, started=1, epoch=0, state="none", text=""))
    with pytest.raises(LiveError, match=f"room for {RANKS} ranks"):
        control.claim(RANKS)


def test_a_text_that_is_too_long_or_no_text_is_cut_not_refused(control: Control) -> None:
    pid, started = own_identity()
    control.say(0, Slot(rank=0, pid=pid, started=started, epoch=2, state="failed", text="é\ud800" * 500))
    slot = control.slot(0)
    assert slot is not None
    assert slot.state == "failed"
    assert slot.text.startswith("é?é?")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"steps": 0}, "0 steps"),
        ({"steps": 100_000}, "100000 steps"),
        ({"start_step": -1}, "number"),
        ({"out": "relative"}, "relative"),
        ({"out": "/a\0b"}, "text"),
        ({"level": "loud"}, "there is not"),
        ({"action": "exec"}, "there is not"),
        ({"reason": "x" * 9000}, "bytes"),
        ({"ranks": (-1,)}, "ranks"),
    ],
)
def test_a_request_that_makes_no_sense_never_gets_in(control: Control, change: dict[str, object], why: str) -> None:
    with pytest.raises(LiveError, match=why):
        control.ask(replace(REQUEST, **change))  # type: ignore[arg-type]
    assert control.request() is None


@given(st.binary(max_size=400) | st.text(max_size=100).map(str.encode))
def test_a_text_that_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(LiveError):
        decode(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(sorted(field for field in Request.__dataclass_fields__)),
)
def test_any_value_in_any_field_is_understood_or_refused(value: object, field: str) -> None:
    import json

    raw = json.loads(encode(REQUEST)) | {field: value}
    try:
        decode(json.dumps(raw).encode())
    except LiveError:
        return
    assert isinstance(value, str | int | list | dict)


def test_a_request_with_one_changed_digit_is_damaged_though_it_can_be_read(control: Control) -> None:
    control.ask(replace(REQUEST, start_step=1234))
    at = os.pread(control.descriptor, SIZE, 0).find(b"1234")
    os.pwrite(control.descriptor, b"9234", at)
    with pytest.raises(LiveError, match="damaged"):
        control.request()


@SAME_FILE
@given(edits=st.lists(st.tuples(st.integers(4096, SIZE - 1), st.binary(min_size=1, max_size=64)), max_size=8))
def test_random_bytes_anywhere_behind_the_header_raise_no_other_error(
    tmp_path: Path, edits: list[tuple[int, bytes]]
) -> None:
    control = Control.create(tmp_path / os.urandom(8).hex(), {"job": "a"})
    control.claim(1)
    control.ask(replace(REQUEST, ranks=(7,)))
    for at, raw in edits:
        os.pwrite(control.descriptor, raw[: SIZE - at], at)
    try:
        got = control.request()
        assert got is None or got[1] == replace(REQUEST, ranks=(7,))
    except LiveError:
        pass
    assert all(slot.rank == 1 for slot in control.slots())


@SAME_FILE
@given(st.integers(0, 4095), st.integers(1, 255))
def test_a_changed_byte_in_the_header_turns_the_segment_away_or_changes_nothing(
    tmp_path: Path, at: int, change: int
) -> None:
    control = Control.create(tmp_path / os.urandom(8).hex(), {"job": "a"})
    (byte,) = os.pread(control.descriptor, 1, at)
    os.pwrite(control.descriptor, bytes([byte ^ change]), at)
    try:
        assert Control.attach(control.path).about == {"job": "a"}
    except LiveError:
        return
    # Only what pads the page may be changed unseen.
    assert at > 32 + len('{"job": "a"}') - 1


def test_segments_of_others_links_and_odd_files_are_turned_away(control: Control, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(control.path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "short").write_bytes(control.path.read_bytes()[:-1])
    (tmp_path / "long").write_bytes(control.path.read_bytes() + b"\0")
    (tmp_path / "open").write_bytes(control.path.read_bytes())
    for name in ("short", "long"):
        (tmp_path / name).chmod(0o600)
    (tmp_path / "open").chmod(0o666)
    for name, why in {
        "link": "is a link",
        "pipe": "no file|cannot be opened",
        "short": "bytes instead of",
        "long": "bytes instead of",
        "open": "open to other users",
        "absent": "cannot be opened",
    }.items():
        with pytest.raises(LiveError, match=why):
            Control.attach(tmp_path / name)
    with pytest.raises(LiveError, match="another job"):
        Control.attach(control.path, job="b")


@needs_root
def test_a_segment_of_another_user_is_turned_away(control: Control) -> None:
    os.chown(control.path, 12345, -1)
    with pytest.raises(LiveError, match="belongs to user 12345"):
        Control.attach(control.path)


@pytest.mark.live
def test_a_lock_that_is_held_is_waited_for_only_so_long(control: Control) -> None:
    other: Callable[[], Control] = lambda: Control.attach(control.path)  # noqa: E731
    with control.locked(), pytest.raises(LiveError, match="locked"), other().locked(patience_s=0.02):
        pass
