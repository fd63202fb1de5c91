"""What the terminal says of input and host."""

from __future__ import annotations

from dataclasses import replace

from tests.with_rows import with_rows

from hermes.model.host_measures import AllocatorCalls, HostEvents, StepHost, SyncCall
from hermes.model.input_measures import Fetches
from hermes.model.report import Report
from hermes.report.host_text import host_lines


def test_a_wait_in_which_the_device_works_is_not_worth_a_line(real: Report) -> None:
    quiet = with_rows(real, (), without={HostEvents, AllocatorCalls, Fetches})
    assert host_lines(quiet) == []
    (call,) = real.rows(SyncCall)
    ((title, text),) = host_lines(with_rows(quiet, [replace(call, comm_ns=0, idle_ns=83_970_000)]))
    assert title == "Wait"
    assert text.startswith("main.py(485): fPTA: PTA 86.8 ms (58.3%); device free in and after it 84.6 ms")


def test_what_costs_most_comes_first_and_free_time_counts_where_it_is_measured(real: Report) -> None:
    (fetch,), (event, *_) = real.rows(Fetches), real.rows(HostEvents)
    waiting = replace(fetch, wait_ns=30_000_000)
    slow = with_rows(real, [waiting], without={HostEvents, AllocatorCalls, SyncCall})
    compiled = with_rows(slow, [replace(event, device_free_ns=60_000_000, ns=60_000_000)])
    assert [title for title, _ in host_lines(compiled)] == ["Host", "Input"]
    assert [title for title, _ in host_lines(slow)] == ["Input"]
    assert host_lines(with_rows(slow, [replace(waiting, device_free_ns=1)])) == []


def test_without_a_host_there_is_nothing_to_say(real: Report, empty: Report) -> None:
    assert host_lines(empty) == []
    assert host_lines(with_rows(real, (), without={StepHost})) == []
