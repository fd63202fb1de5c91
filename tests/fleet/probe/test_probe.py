"""A planted loss, delay or slow link is named by host or switch; a healthy network names nothing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from tests.skips import needs_root

from hermes.base.errors import InputError, QueryError
from hermes.fleet.probe.host_pairs import PARTNERS, Host, pairs_of, read_hosts
from hermes.fleet.probe.measure_network import Answerer, Call, call
from hermes.fleet.probe.network_faults import PathFault, PathKind, name_faults
from hermes.fleet.probe.probe import judged

HERMES = Path(sys.executable).with_name("hermes")
KEY = b"k" * 32


def network(count: int, per_switch: int = 8) -> list[Host]:
    return [
        Host(name=f"n{number:04}", address="127.0.0.1", switch=f"leaf{number // per_switch}") for number in range(count)
    ]


def drawn(hosts: list[Host], seed: int, *, fault: PathFault | None = None, part: str = "") -> list[Call]:
    """What a network would say in which one host or switch has this fault."""
    random = np.random.default_rng(seed)
    switch = {host.name: host.switch for host in hosts}
    found = []
    for caller, answerer in pairs_of(hosts):
        bad = fault if part in (caller, answerer, switch[caller], switch[answerer]) else None
        chance = {PathFault.SILENT: 1.0, PathFault.LOSSY: 0.15}.get(bad, 0.002) if bad else 0.002
        lost = int(random.binomial(100, chance))
        rtt = int(random.lognormal(11.5, 0.4)) + (5_000_000 if bad is PathFault.LATE else 0)
        rate = 1e9 * random.uniform(0.7, 1.0) * (0.1 if bad is PathFault.SLOW else 1.0)
        silent = lost == 100
        found.append(Call(caller=caller, answerer=answerer, sent=100, lost=lost, rtt_ns=None if silent else rtt,
                          jitter_ns=None if silent else 1000, bytes_per_s=None if silent else rate))  # fmt: skip
    return found


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("count", [4, 16, 64])
def test_a_healthy_network_names_nothing(seed: int, count: int) -> None:
    hosts = network(count)
    assert name_faults(hosts, drawn(hosts, seed)) == []


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("fault", list(PathFault), ids=str)
@pytest.mark.parametrize("count", [4, 16, 64])
def test_a_bad_link_is_named(seed: int, fault: PathFault, count: int) -> None:
    hosts = [Host(name=host.name, address=host.address) for host in network(count)] if count == 4 else network(count)
    found = name_faults(hosts, drawn(hosts, seed, fault=fault, part="n0002"))
    assert [(one.kind, one.name, one.fault) for one in found] == [(PathKind.HOST, "n0002", fault)]


@pytest.mark.parametrize(("late", "named"), [(3, PathFault.SLOW), (5, PathFault.LATE)])
def test_a_slow_link_is_named_once_whether_some_or_all_of_its_pairs_are_late_too(late: int, named: PathFault) -> None:
    hosts = [Host(name=host.name, address=host.address) for host in network(6)]
    calls = drawn(hosts, 1, fault=PathFault.SLOW, part="n0002")
    own = [at for at, one in enumerate(calls) if "n0002" in (one.caller, one.answerer)]
    assert len(own) == 5
    for at in own[:late]:
        calls[at] = replace(calls[at], rtt_ns=(calls[at].rtt_ns or 0) + 5_000_000)
    assert [(one.name, one.fault) for one in name_faults(hosts, calls)] == [("n0002", named)]


@pytest.mark.parametrize("fault", [PathFault.LATE, PathFault.SLOW, PathFault.LOSSY], ids=str)
def test_a_bad_switch_is_named_and_not_its_hosts(fault: PathFault) -> None:
    hosts = network(64)
    found = name_faults(hosts, drawn(hosts, 1, fault=fault, part="leaf3"))
    assert [(one.kind, one.name) for one in found] == [(PathKind.SWITCH, "leaf3")]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9, 100, 1000])
def test_a_plan_grows_with_the_hosts_and_crosses_every_link_several_times(count: int) -> None:
    hosts = network(count)
    pairs = pairs_of(hosts)
    assert len(pairs) <= PARTNERS * count
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    each = Counter(name for pair in pairs for name in pair)
    assert min(each.values()) >= min(2 * PARTNERS, count - 1)
    switch = {host.name: host.switch for host in hosts}
    crossing = Counter(
        name for pair in pairs for name in {switch[one] for one in pair} if len({switch[one] for one in pair}) == 2
    )
    assert count <= 8 or min(crossing[host.switch] for host in hosts) >= 4


def test_a_plan_of_a_thousand_hosts_is_made_at_once() -> None:
    hosts = network(1000)
    begin = time.process_time()
    pairs_of(hosts)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    "line",
    ["-oProxyCommand=x 10.0.0.1", "a", "a host.example", "a 10.0.0.1 s t", "a\x1b 10.0.0.1", "a/../b 10.0.0.1",
     "a 10.0.0.1 -s", "b 10.0.0.9"],
)  # fmt: skip
def test_a_line_that_names_no_host_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(f"# all\nb 10.0.0.2 leaf1 # ours\n\nc ::1\n{line}\n")
    with pytest.raises(InputError) as refused:
        read_hosts(path)
    assert "line 5" in refused.value.where
    path.write_text("b 10.0.0.2 leaf1\nc ::1\n")
    assert [(one.name, one.address, one.switch) for one in read_hosts(path)] == [
        ("b", "10.0.0.2", "leaf1"),
        ("c", "::1", ""),
    ]


@pytest.fixture
def answerer() -> Iterator[Answerer]:
    made = Answerer("127.0.0.1", KEY, 0)
    yield made
    made.close()


@pytest.mark.live
def test_a_partner_is_measured(answerer: Answerer) -> None:
    found = call("a", "b", "127.0.0.1", KEY, answerer.port, probes=20)
    assert (found.caller, found.answerer, found.sent) == ("a", "b", 20)
    assert found.lost < 20
    assert found.rtt_ns is not None
    assert found.bytes_per_s is not None


@pytest.mark.live
def test_who_does_not_know_the_key_gets_no_answer(answerer: Answerer) -> None:
    stranger = call("a", "b", "127.0.0.1", b"x" * 32, answerer.port, probes=3)
    assert (stranger.lost, stranger.rtt_ns, stranger.bytes_per_s) == (3, None, None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.settimeout(0.3)
        for packet in (b"", b"junk", b"\0" * 2000):
            own.sendto(packet, ("127.0.0.1", answerer.port))
        with pytest.raises(TimeoutError):
            own.recv(10)
    assert call("a", "b", "127.0.0.1", KEY, answerer.port, probes=5).lost < 5


@pytest.mark.live
def test_nobody_who_is_not_there_is_waited_for_long() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        found = call("a", "b", "127.0.0.1", KEY, own.getsockname()[1], probes=3)
    assert (found.lost, found.rtt_ns) == (3, None)


def test_results_of_strangers_cost_their_own_rows(tmp_path: Path) -> None:
    hosts = network(4)
    with pytest.raises(QueryError):
        judged(hosts, tmp_path)
    good = Call(caller="n0000", answerer="n0001", sent=10, lost=0, rtt_ns=5, jitter_ns=1, bytes_per_s=1e9)
    changed = (
        {"caller": "n0003"},
        {"answerer": "../x"},
        {"lost": 11},
        {"rtt_ns": 1e300},
        {"bytes_per_s": float("nan")},
    )
    rows = [asdict(good), *({**asdict(good), **one} for one in changed), {}, 7]
    (tmp_path / "n0000.json").write_text(json.dumps(rows))
    (tmp_path / "n0001.json").write_text("[" * 100_000)
    os.mkfifo(tmp_path / "n0002.json")
    document = judged(hosts, tmp_path)
    (table,) = document.parts
    # A host speaks for itself alone: the second row is its own too.
    assert len(table.rows) == 2  # type: ignore[union-attr]
    assert {row[0] for row in table.rows} == {"n0000"}  # type: ignore[union-attr]
    assert document.facts["absent"] == len({caller for caller, _ in pairs_of(hosts)}) - 1


HOSTS = 6


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def spaces() -> Iterator[list[str]]:
    """Six network namespaces on one bridge, with no way out: with fewer, one pair that noise slows hides a host."""
    tag = f"hp{os.getpid() % 100_000}"
    hub, names = f"{tag}h", [f"{tag}n{number}" for number in range(1, HOSTS + 1)]
    try:
        ip("netns", "add", hub)
        ip("-n", hub, "link", "add", "br0", "type", "bridge")
        ip("-n", hub, "link", "set", "br0", "up")
        for number, name in enumerate(names, 1):
            ip("netns", "add", name)
            ip("-n", hub, "link", "add", f"p{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", hub, "link", "set", f"p{number}", "master", "br0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield names
    finally:
        for name in (*names, hub):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def probed(folder: Path, spaces: list[str]) -> tuple[int, list[list[str]]]:
    """Exit code, and what is named, of a probe between the namespaces."""
    hosts, results = folder / "hosts", folder / "results"
    hosts.write_text("".join(f"node{number} 10.77.0.{number}\n" for number in range(1, HOSTS + 1)))
    words = [HERMES, "fleet", "probe", "--hosts", hosts, "--results", results]
    inside = [["ip", "netns", "exec", name, *words, "--me", f"node{at}"] for at, name in enumerate(spaces, 1)]
    running = [subprocess.Popen(one, stdout=subprocess.DEVNULL) for one in inside]
    assert [one.wait(300) for one in running] == [0] * HOSTS
    done = subprocess.run([*words, "--look", "--format", "json"], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)["named"]


@pytest.mark.smoke
@needs_root
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("iptables") is None, reason="no iptables on the PATH")
def test_a_lossy_link_between_namespaces_is_named(tmp_path: Path, spaces: list[str]) -> None:
    drop = [
        "iptables",
        "-A",
        "INPUT",
        "-p",
        "udp",
        "-m",
        "statistic",
        "--mode",
        "random",
        "--probability",
        "0.3",
        "-j",
        "DROP",
    ]
    subprocess.run(["ip", "netns", "exec", spaces[2], *drop], check=True)
    code, named = probed(tmp_path, spaces)
    assert (code, named) == (1, [["host", "node3", "lossy"]])


@needs_root
@pytest.mark.slow
def test_a_slow_link_between_namespaces_is_named(tmp_path: Path, spaces: list[str]) -> None:
    limit = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "32kb", "latency", "100ms"]
    subprocess.run(["ip", "netns", "exec", spaces[1], *limit], check=True)
    _, named = probed(tmp_path, spaces)
    assert ["host", "node2", "slow"] in named or ["host", "node2", "late"] in named
