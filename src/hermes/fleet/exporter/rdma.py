"""Reads counters of RDMA ports from sysfs, for InfiniBand and RoCE adapters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hermes.fleet.exporter import metric_families
from hermes.fleet.exporter.linux_kernel_files import Rows, entries, number, text
from hermes.model.metric import MetricSample

_MOST = 64
_WORD_BYTES = 4
"""Bytes in a word: `port_xmit_data` and `port_rcv_data` count words (kernel documentation, sysfs-class-infiniband)."""
_DATA = {"receive": "port_rcv_data", "transmit": "port_xmit_data"}
_EVENTS = {
    "counters": (
        "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
        "port_rcv_switch_relay_errors", "port_xmit_discards", "port_xmit_wait", "port_xmit_constraint_errors",
        "port_rcv_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
    ),
    "hw_counters": (
        "duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "np_cnp_sent",
        "np_ecn_marked_roce_packets", "out_of_buffer", "out_of_sequence", "packet_seq_err", "req_cqe_error",
        "req_remote_access_errors", "req_remote_invalid_request", "resp_cqe_error", "resp_local_length_error",
        "rnr_nak_retry_err", "roce_adp_retrans", "roce_slow_restart", "rp_cnp_handled", "rp_cnp_ignored",
        "rx_icrc_encapsulated",
    ),
}  # fmt: skip
"""Names of counters for faults and slowdowns of a port, by their folder. A name outside the list is not exported."""


def rdma(root: Path) -> Iterator[MetricSample]:
    """Bytes, events, state and speed of each port of each adapter."""
    moved: Rows = []
    events: Rows = []
    up: Rows = []
    speed: Rows = []
    for adapter in entries(root / "sys/class/infiniband", _MOST):
        for port in entries(adapter / "ports", _MOST):
            labels = (adapter.name, port.name)
            for direction, name in _DATA.items():
                words = number(port / "counters" / name)
                if words is not None:
                    moved.append(((*labels, direction), float(words * _WORD_BYTES)))
            for folder, names in _EVENTS.items():
                counts = ((name, number(port / folder / name)) for name in names)
                events += [((*labels, name), float(count)) for name, count in counts if count is not None]
            state = text(port / "state").partition(":")[0].strip()
            if state:
                # State 4 is ACTIVE.
                up.append((labels, float(state == "4")))
            rate = text(port / "rate").split()
            if len(rate) >= 2 and rate[1] == "Gb/sec" and _decimal(rate[0]):
                speed.append((labels, float(rate[0]) * 1e9 / 8))
    yield MetricSample(family=metric_families.RDMA_BYTES, rows=moved)
    yield MetricSample(family=metric_families.RDMA_EVENTS, rows=events)
    yield MetricSample(family=metric_families.RDMA_UP, rows=up)
    yield MetricSample(family=metric_families.RDMA_SPEED, rows=speed)


def _decimal(text: str) -> bool:
    return len(text) < 12 and text.replace(".", "", 1).isdecimal() and text.isascii()
