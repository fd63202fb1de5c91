"""A slow node is named and healthy ones are not; a history of others' files costs its own rows at most."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hermes.base.errors import QueryError
from hermes.base.say import say
from hermes.fleet.check import history
from hermes.fleet.check.check_node import judged, measured
from hermes.fleet.check.compare_nodes import Against, slow_nodes
from hermes.fleet.check.device_work import rounds
from hermes.fleet.check.document import rate
from hermes.fleet.check.measure_node import devices
from hermes.fleet.check.node_reading import Check, Reading

HERMES = Path(sys.executable).with_name("hermes")
DAY_NS = 86_400 * 10**9
NODES = 16
USUAL = {Check.HOST_MATRIX: 2e12, Check.HOST_MEMORY: 1e11, Check.DISK_WRITE: 1e9, Check.DISK_READ: 3e9,
         Check.COPY_IN: 2e10, Check.ALL_REDUCE: 2e11}  # fmt: skip


def sweep(seed: int, *, noise: float, slow: dict[str, float] | None = None, nodes: int = NODES) -> list[Reading]:
    """One check of each node: rates with this noise; of the slow ones a share."""
    random = np.random.default_rng(seed)
    return [
        Reading(node=f"node{number}", at_ns=seed * DAY_NS, check=check,
                value=usual * (1 + noise * random.standard_normal()) * (slow or {}).get(f"node{number}", 1.0))
        for number in range(nodes) for check, usual in USUAL.items()
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("noise", [0.005, 0.02])
@pytest.mark.parametrize("nodes", [4, 16, 64])
def test_a_healthy_sweep_names_nobody(seed: int, noise: float, nodes: int) -> None:
    assert slow_nodes(sweep(seed, noise=noise, nodes=nodes)) == []


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("noise", [0.005, 0.02])
def test_a_slow_node_is_named(seed: int, noise: float) -> None:
    found = slow_nodes(sweep(seed, noise=noise, slow={"node3": 0.75}))
    assert {one.node for one in found} == {"node3"}
    assert {one.check for one in found} == {*USUAL}
    assert {one.against for one in found} == {Against.OTHERS}


def test_a_device_below_what_its_chip_should_give_is_named_even_alone() -> None:
    def of(value: float, check: Check, chip: str) -> list[Reading]:
        return [Reading(node="a", at_ns=1, check=check, value=value, part="3", chip=chip)]

    chip = "NVIDIA H100 80GB HBM3"
    assert slow_nodes(of(700e12, Check.DEVICE_MATRIX, chip)) == []
    (slow,) = slow_nodes(of(300e12, Check.DEVICE_MATRIX, chip))
    assert (slow.part, slow.against) == ("3", Against.CHIP)
    assert [one.against for one in slow_nodes(of(1e12, Check.DEVICE_MEMORY, chip))] == [Against.CHIP]
    assert slow_nodes(of(1e12, Check.DEVICE_MATRIX, "a chip that nobody knows")) == []


def test_a_node_that_fades_is_seen_and_since_when() -> None:
    def weeks(*values: float) -> list[Reading]:
        return [Reading(node="a", at_ns=week * 7 * DAY_NS, check=Check.DISK_READ, value=value * 1e9)
                for week, value in enumerate(values)]  # fmt: skip

    (faded,) = slow_nodes(weeks(3.0, 3.05, 2.98, 3.01, 3.0, 2.95, 2.6, 2.5, 2.4))
    assert (faded.against, faded.since_ns) == (Against.PAST, 6 * 7 * DAY_NS)
    assert slow_nodes(weeks(3.0, 3.05, 2.98, 3.01, 3.0, 2.4, 3.0, 3.0, 3.0)) == []
    assert slow_nodes(weeks(3.0, 3.05, 2.98, 3.01, 2.0, 2.0, 2.0)) == []


def test_a_slow_node_is_not_taken_for_its_partners() -> None:
    readings = []
    for pair in (pair for round_ in rounds(NODES) for pair in round_):
        for node, partner in (pair, pair[::-1]):
            value = 1e9 * (0.3 if 5 in pair else 1.0) * (1 + 0.01 * ((node + partner) % 3))
            readings.append(Reading(node=f"node{node}", at_ns=1, check=Check.PAIR, value=value, part=f"node{partner}"))
    assert {one.node for one in slow_nodes(readings)} == {"node5"}


@pytest.mark.parametrize("size", [2, 3, 5, 8, 33, 100])
def test_each_node_has_partners_and_is_in_one_pair_at_a_time(size: int) -> None:
    found = rounds(size)
    assert len(found) == max((size - 1).bit_length(), 1)
    assert all(len({*sum(pairs, ())}) == 2 * len(pairs) for pairs in found)
    assert len({pair for pairs in found for pair in pairs}) == sum(map(len, found))


def test_the_history_is_read_back_and_bad_files_cost_their_own_rows(tmp_path: Path) -> None:
    readings = sweep(1, noise=0.01)
    for number in range(NODES):
        history.write(tmp_path, [one for one in readings if one.node == f"node{number}"])
    (tmp_path / "junk.parquet").write_bytes(b"PAR1 junk")
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "folder.parquet").mkdir()
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "notes.txt").write_text("x")
    found, notes = history.read(tmp_path)
    assert sorted(found, key=str) == sorted(readings, key=str)
    assert [Path(note.where).name for note in notes] == [
        "empty.parquet",
        "folder.parquet",
        "junk.parquet",
        "pipe.parquet",
    ]


def test_names_lead_to_no_other_place_and_steer_no_terminal(tmp_path: Path) -> None:
    name = "../../etc/\x1b[31mnode"
    path = history.write(tmp_path / "h", [Reading(node=name, at_ns=1, check=Check.PAIR, value=1.0)])
    assert path.parent == tmp_path / "h"
    many = [
        Reading(node=f"{name}{one}", at_ns=1, check=Check.DISK_READ, value=1e9 * (one or 0.1))
        for one in (0, 1, 1, 1, 1, 1)
    ]
    for place, one in enumerate(many):
        history.write(tmp_path / "h", [Reading(node=f"{one.node}{place}", at_ns=1, check=one.check, value=one.value)])
    (found,) = judged(tmp_path / "h", []).findings
    assert "\x1b" not in say(found.message)


def test_a_history_without_readings_is_told(tmp_path: Path) -> None:
    with pytest.raises(QueryError):
        judged(tmp_path, [])
    history.write(tmp_path, sweep(1, noise=0.0)[:6])
    with pytest.raises(QueryError):
        judged(tmp_path, [], node="another")


def test_this_node_is_measured(tmp_path: Path) -> None:
    found, notes = measured("here", tmp_path, None, at_ns=1, environment={}, scale=0.05)
    assert {one.check for one in found} == {Check.HOST_MATRIX, Check.HOST_MEMORY, Check.DISK_WRITE, Check.DISK_READ}
    assert (notes, [*tmp_path.iterdir()]) == ([], [])


def fake_python(folder: Path, script: str) -> str:
    (folder / "python").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "python").chmod(0o755)
    return str(folder / "python")


@pytest.mark.live
def test_what_another_python_says_is_numbers_or_nothing(tmp_path: Path) -> None:
    lines = [
        '{"check": "pair", "value": 5, "part": "n2"}', '{"check": "pair", "value": NaN}', '{"check": "rm", "value": 1}',
        "junk", "[]", '{"check": "pair", "value": -1}', '{"check": "pair", "value": 1e999}',
    ]  # fmt: skip
    script = "".join(f"echo '{line}' >>\"$3\"\n" for line in lines)
    (found,) = devices("a", fake_python(tmp_path, script), at_ns=1, environment={}) or []
    assert (found.check, found.value, found.part) == (Check.PAIR, 5.0, "n2")
    assert devices("a", fake_python(tmp_path, "exit 3"), at_ns=1, environment={}) is None
    assert devices("a", "/nowhere/python", at_ns=1, environment={}) == []


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.slow
def test_collectives_are_measured_inside_a_node_and_between_two() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(devices, f"node{rank}", sys.executable, at_ns=1,
                            environment={**common, "RANK": str(rank), "HERMES_CHECK_NODE": f"node{rank}"})
                for rank in range(2)]  # fmt: skip
        found = [one.result() or [] for one in both]
    for rank, readings in enumerate(found):
        assert {one.check for one in readings} == {Check.ALL_REDUCE, Check.PAIR}
        assert [one.part for one in readings if one.check is Check.PAIR] == [f"node{1 - rank}"]


def ran(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HERMES, "fleet", "check", *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=600, env={**os.environ, "COLUMNS": "200", "LC_ALL": "C.UTF-8"})  # fmt: skip


@pytest.mark.live
def test_the_command_says_whether_a_node_stands_out(tmp_path: Path) -> None:
    for number in range(6):
        of = [one for one in sweep(1, noise=0.01, slow={"node4": 0.5}) if one.node == f"node{number}"]
        history.write(tmp_path, of)
    all_nodes = ran("--history", tmp_path, "--look", "--format", "json")
    assert (all_nodes.returncode, json.loads(all_nodes.stdout)["slow"]) == (1, ["node4"])
    assert ran("--history", tmp_path, "--look", "--node", "node1").returncode == 0
    assert ran("--history", tmp_path, "--look", "--node", "node4").returncode == 1
    assert ran("--history", tmp_path / "none", "--look").returncode == 2


@pytest.mark.live
def test_the_command_measures_and_has_nothing_to_compare_with_at_first(tmp_path: Path) -> None:
    done = ran("--history", tmp_path / "h", "--node", "a", "--disk", tmp_path, "--no-devices")
    assert (done.returncode, "Nothing to compare with yet" in done.stdout) == (3, True)
    assert len([*(tmp_path / "h").iterdir()]) == 1


def test_rates_are_written_in_units_that_people_know() -> None:
    assert [rate(Check.DEVICE_MATRIX, 6.12e14), rate(Check.DISK_READ, 3.1e9), rate(Check.DISK_READ, 2e12),
            rate(Check.PAIR, 5e5)] == ["612 TFLOP/s", "3.1 GB/s", "2e+03 GB/s", "5e+05 B/s"]  # fmt: skip
