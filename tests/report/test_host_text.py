"""What the terminal says of input and host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hermes.model.host_measures import HostSide
from hermes.model.report import Report
from hermes.report.host_text import host_lines


def test_a_wait_in_which_the_device_works_is_not_worth_a_line(
    real: Report, host_side: Callable[[str], HostSide]
) -> None:
    host = host_side("x")
    quiet = replace(host, events=(), fetches=())
    assert host_lines(replace(real, host=quiet)) == []
    (call,) = host.syncs
    idle = replace(quiet, syncs=(replace(call, comm_ns=0, idle_ns=83_970_000),))
    ((title, text),) = host_lines(replace(real, host=idle))
    assert title == "Wait"
    assert text.startswith("main.py(485): fx: x 86.8 ms (58.3%); device free in and after it 84.6 ms")


def test_what_costs_most_comes_first_and_free_time_counts_where_it_is_measured(
    real: Report, host_side: Callable[[str], HostSide]
) -> None:
    host = host_side("x")
    (fetch,) = host.fetches
    slow = replace(host, syncs=(), fetches=(replace(fetch, wait_ns=30_000_000),))
    compiled = replace(slow, events=(replace(host.events[0], device_free_ns=60_000_000, ns=60_000_000),))
    assert [title for title, _ in host_lines(replace(real, host=compiled))] == ["Host", "Input"]
    assert [title for title, _ in host_lines(replace(real, host=slow))] == ["Input"]
    hidden = replace(slow, fetches=(replace(fetch, wait_ns=30_000_000, device_free_ns=1),))
    assert host_lines(replace(real, host=hidden)) == []


def test_without_a_host_there_is_nothing_to_say(real: Report, empty: Report) -> None:
    assert host_lines(empty) == []
    assert host_lines(replace(real, host=HostSide())) == []
