"""Use case: one host's part of a probe, and the verdict over all results. Hosts share one folder."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from hermes.base.errors import HermesError, InputError, QueryError
from hermes.base.write_atomic import write_atomic
from hermes.fleet.probe import messages
from hermes.fleet.probe.document import document
from hermes.fleet.probe.host_pairs import Host, pairs_of
from hermes.fleet.probe.measure_network import PORT, Answerer, Call, calls
from hermes.model.document import Document

_LARGEST = 1 << 20
_POLL_S = 0.1
_KEY_BYTES = 32


def run_part_of_host(hosts: Sequence[Host], results: Path, me: str, *, wait_s: float, port: int = PORT) -> Document:
    """Answer, wait for the others, call the planned partners, and answer until all hosts are through or time is up.

    Raises `HermesError`.
    """
    addresses = {host.name: host.address for host in hosts}
    if me not in addresses:
        raise InputError(messages.not_me(name=me), where="--me", hint=messages.DO_HOSTS)
    try:
        results.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _key(results)
        answerer = Answerer(addresses[me], key, port)
    except OSError as refused:
        raise HermesError(messages.no_answering(why=refused.strerror or ""), where=addresses[me]) from refused
    try:
        (results / f"{me}.ready").touch()
        _meet(results, addresses, "ready", wait_s)
        found = calls(me, pairs_of(hosts), addresses, key, port)
        with write_atomic(results / f"{me}.json") as file:
            file.write(json.dumps([asdict(one) for one in found]).encode())
        _meet(results, addresses, "json", wait_s)
    finally:
        answerer.close()
    return document(results, hosts, found, (), me)


def _key(results: Path) -> bytes:
    """The key that only readers of the folder know: the first host makes it, the others read it."""
    draft = results / f".key-{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
    finally:
        os.close(descriptor)
    with contextlib.suppress(FileExistsError):
        # The file appears complete or not at all, and only once.
        os.link(draft, results / "key")
    draft.unlink()
    return (results / "key").read_bytes()


def _meet(results: Path, names: dict[str, str], ending: str, wait_s: float) -> None:
    end = time.monotonic() + wait_s
    left = set(names)
    while left and time.monotonic() < end:
        left = {name for name in left if not (results / f"{name}.{ending}").exists()}
        time.sleep(_POLL_S)


def judged(hosts: Sequence[Host], results: Path) -> Document:
    """The verdict over the results of all hosts. Raises `QueryError` without results."""
    by_host = {host.name: list(_read(results / f"{host.name}.json", host.name, hosts)) for host in hosts}
    found = [one for of in by_host.values() for one in of]
    if not found:
        raise QueryError(messages.NO_RESULTS, where=str(results), hint=messages.DO_PROBE_FIRST)
    callers = {caller for caller, _ in pairs_of(hosts)}
    absent = [name for name, of in by_host.items() if not of and name in callers]
    return document(results, hosts, found, absent)


def _read(path: Path, caller: str, hosts: Sequence[Host]) -> Iterator[Call]:
    """The valid calls in one host's file; a host reports only its own calls."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return
        names = {host.name for host in hosts}
        said = json.loads(path.read_bytes())
        for row in said if isinstance(said, list) else ():
            with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
                made = Call(
                    caller=caller, answerer=str(row["answerer"]), sent=int(row["sent"]), lost=int(row["lost"]),
                    rtt_ns=None if row["rtt_ns"] is None else int(row["rtt_ns"]),
                    jitter_ns=None if row["jitter_ns"] is None else int(row["jitter_ns"]),
                    bytes_per_s=None if row["bytes_per_s"] is None else float(row["bytes_per_s"]),
                )  # fmt: skip
                if made.answerer in names and _sound(made):
                    yield made


def _sound(one: Call) -> bool:
    numbers = (one.rtt_ns or 0, one.jitter_ns or 0, one.bytes_per_s or 0.0)
    return 0 <= one.lost <= one.sent < 1 << 32 and one.sent > 0 and all(
        math.isfinite(number) and 0 <= number < 1 << 62 for number in numbers
    )  # fmt: skip


__all__ = ["judged", "run_part_of_host"]
