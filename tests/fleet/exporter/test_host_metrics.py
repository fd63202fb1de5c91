"""What the kernel tells of a host: units, names, and files that are absent, odd or hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.fleet.exporter.host_metrics import host
from hermes.model.metric import openmetrics

SNMP = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 9000 12\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def told(root: Path) -> dict[str, float]:
    lines = openmetrics(host(root)).splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


def test_pressure_is_counted_in_seconds(tmp_path: Path) -> None:
    text = "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    found = told(put(tmp_path, {"proc/pressure/io": text}))
    assert found == {
        'hermes_host_pressure_seconds_total{resource="io",share="some"}': 2.5,
        'hermes_host_pressure_seconds_total{resource="io",share="full"}': 7e-6,
    }


def test_memory_is_in_bytes_and_kills_are_counted(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": "MemTotal:  100 kB\nMemAvailable: 40 kB\nHugePages_Total: 3\n",
        "proc/vmstat": "oom_kill 2\n",
    }
    assert told(put(tmp_path, files)) == {
        'hermes_host_memory_bytes{kind="total"}': 102_400.0, 'hermes_host_memory_bytes{kind="available"}': 40_960.0,
        "hermes_host_oom_kills_total": 2.0,
    }  # fmt: skip


def test_interfaces_tell_bytes_errors_flaps_and_speed_and_loopback_does_not(tmp_path: Path) -> None:
    base = "sys/class/net/eth0"
    files = {
        f"{base}/statistics/rx_bytes": "10\n", f"{base}/statistics/tx_errors": "3\n", f"{base}/carrier_changes": "5\n",
        f"{base}/operstate": "down\n", f"{base}/speed": "100000\n", "sys/class/net/lo/statistics/rx_bytes": "9\n",
        "sys/class/net/bonding_masters": "", "proc/net/snmp": SNMP,
    }  # fmt: skip
    assert told(put(tmp_path, files)) == {
        'hermes_network_bytes_total{direction="receive",interface="eth0"}': 10.0,
        'hermes_network_errors_total{direction="transmit",interface="eth0"}': 3.0,
        'hermes_network_carrier_changes_total{interface="eth0"}': 5.0,
        'hermes_network_up{interface="eth0"}': 0.0,
        'hermes_network_speed_bytes_per_second{interface="eth0"}': 12.5e9,
        "hermes_tcp_sent_segments_total": 9000.0,
        "hermes_tcp_retransmitted_segments_total": 12.0,
    }


def test_rdma_ports_tell_bytes_and_what_went_wrong(tmp_path: Path) -> None:
    port = "sys/class/infiniband/mlx5_0/ports/1"
    files = {
        f"{port}/counters/port_xmit_data": "1000\n", f"{port}/counters/symbol_error": "2\n",
        f"{port}/hw_counters/out_of_sequence": "7\n", f"{port}/hw_counters/lifespan": "10\n",
        f"{port}/state": "4: ACTIVE\n", f"{port}/rate": "200 Gb/sec (4X HDR)\n",
    }  # fmt: skip
    labels = 'device="mlx5_0"'
    assert told(put(tmp_path, files)) == {
        f'hermes_rdma_bytes_total{{{labels},direction="transmit",port="1"}}': 4000.0,
        f'hermes_rdma_events_total{{{labels},event="symbol_error",port="1"}}': 2.0,
        f'hermes_rdma_events_total{{{labels},event="out_of_sequence",port="1"}}': 7.0,
        f'hermes_rdma_up{{{labels},port="1"}}': 1.0,
        f'hermes_rdma_speed_bytes_per_second{{{labels},port="1"}}': 25e9,
    }


@pytest.mark.parametrize("junk", ["", "-1", "nan", "9" * 40, "1 2 3", "\x1b[31m7", "total=9" * 9])
def test_what_is_no_number_is_not_measured(tmp_path: Path, junk: str) -> None:
    names = [
        "proc/pressure/cpu", "proc/meminfo", "proc/vmstat", "proc/net/snmp", "sys/class/net/eth0/statistics/rx_bytes",
        "sys/class/net/eth0/speed", "sys/class/infiniband/a/ports/1/counters/symbol_error",
        "sys/class/infiniband/a/ports/1/rate",
    ]  # fmt: skip
    assert told(put(tmp_path, dict.fromkeys(names, junk))) == {}


def test_a_host_without_any_of_it_tells_nothing(tmp_path: Path) -> None:
    assert host(tmp_path) == []


def test_this_host_tells_of_itself() -> None:
    found = told(Path("/"))
    assert found['hermes_host_memory_bytes{kind="total"}'] > 1e8
