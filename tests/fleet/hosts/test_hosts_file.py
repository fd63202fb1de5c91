"""A file of hosts names hosts, and can hold nothing that a program would take for an option, a path or a control."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.base.errors import HermesError, InputError
from hermes.fleet.hosts.choose_transport import HostChoice, transport_of
from hermes.fleet.hosts.hosts_file import read_hosts


def test_names_addresses_and_files_of_a_probe_are_read(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# all\nnode1\nnode2 10.0.0.2 # ours\n\nnode3 n3.example leaf1\nnode4 fe80::1 leaf1\n")
    assert read_hosts(path) == {"node1": "node1", "node2": "10.0.0.2", "node3": "n3.example", "node4": "fe80::1"}


@pytest.mark.parametrize(
    "line",
    ["-oProxyCommand=x", "node9 -oProxyCommand=x", "user@node9", "../../etc/passwd", "a/b", "node9 10.0.0.9 -s",
     "node9 10.0.0.9 leaf more", "no\x1bde", "node9;id", "$(id)", "node1", "node9 fe80::1%$(id)", "é"],
)  # fmt: skip
def test_a_line_that_is_no_host_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(f"node1\n{line}\n")
    with pytest.raises(InputError) as refused:
        read_hosts(path)
    assert "line 2" in refused.value.where


def test_a_file_without_hosts_and_no_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "none").write_text("# nobody\n")
    for path in (tmp_path / "none", tmp_path / "absent", tmp_path):
        with pytest.raises(InputError):
            read_hosts(path)


@pytest.mark.parametrize(
    "places",
    [HostChoice(), HostChoice(slurm="1", kubernetes="app=x"), HostChoice(slurm="--uid=0"), HostChoice(slurm="1; id"),
     HostChoice(slurm="../1")],
)  # fmt: skip
def test_hosts_are_named_in_one_way_and_a_job_by_its_number(places: HostChoice) -> None:
    with pytest.raises(HermesError):
        asyncio.run(transport_of(places))
