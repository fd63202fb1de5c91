"""What msServiceProfiler wrote of a service: by the layouts of its documentation, of older and newer releases."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.model.service_measures import Batches, BatchPauses, Requests
from hermes.profiles.api import analyze, load
from hermes.profiles.load import Loaded
from hermes.report.report_json import document
from hermes.report.text import render_text
from hermes.store.cache import Cache
from hermes_testing import Job, generate
from hermes_testing.service import Service, write

_T = 1_745_404_800_000
"""A moment, in milliseconds since 1970."""


def _csv(path: Path, header: str, *rows: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return path


def _loaded(tmp_path: Path, *paths: Path) -> Loaded:
    return load(list(paths), Cache(tmp_path / "cache"))


def _rows(loaded: Loaded, table: str, *columns: str) -> list[tuple[object, ...]]:
    return loaded.ranks[0].table(table, *columns).select(columns).rows()


def _requests(folder: Path, unit: str = "ms") -> Path:
    """Two requests of the documented layout: 2 s and 1 s long, with 500 and 250 ms until their first token."""
    scale = 1 if unit == "ms" else 1_000
    start = "start_time(ms)" if unit == "ms" else "start_time_httpReq(microsecond)"
    header = f"http_rid,{start},recv_token_size,reply_token_size,execution_time({unit}),queue_wait_time({unit})"
    times = ((_T, 2_000, 100, 500, 40, 151), (_T + 500, 1_000, 50, 250, 20, 76))
    rows: Iterable[tuple[object, ...]] = (
        (f"r{at}", start * scale, taken, given, took * scale, f"{queue * scale}.5", f"{first * scale}.0")
        for at, (start, took, queue, first, taken, given) in enumerate(times)
    )
    return _csv(folder / "request.csv", f"{header},first_token_latency({unit})", *rows)


def test_requests_are_read_to_the_nanosecond(tmp_path: Path) -> None:
    _requests(tmp_path / "out")
    loaded = _loaded(tmp_path, tmp_path / "out")
    assert _rows(loaded, "request", "request", "start_ns", "dur_ns", "queue_ns", "first_token_ns", "output_tokens") == [
        ("r0", _T * 10**6, 2_000_000_000, 100_500_000, 500_000_000, 151),
        ("r1", (_T + 500) * 10**6, 1_000_000_000, 50_500_000, 250_000_000, 76),
    ]


def test_older_releases_write_microseconds(tmp_path: Path) -> None:
    _requests(tmp_path / "out", "microsecond")
    (row,) = _rows(_loaded(tmp_path, tmp_path / "out"), "request", "start_ns", "dur_ns", "queue_ns")[:1]
    assert row == (_T * 10**6, 2_000_000_000, 100_000_500)


def test_newer_releases_give_a_date_of_the_host(tmp_path: Path) -> None:
    header = "http_rid,start_datetime,recv_token_size,reply_token_size,execution_time(ms),queue_wait_time(ms)"
    _csv(tmp_path / "out" / "request.csv", header, ("7", "2025-04-23 10:40:00:250", 5, 6, 1.5, ""))
    loaded = _loaded(tmp_path, tmp_path / "out")
    assert _rows(loaded, "request", "start_ns", "dur_ns", "queue_ns") == [((_T + 250) * 10**6, 1_500_000, None)]
    assert _rows(loaded, "rank", "epoch_ns") == [(None,)]


def test_a_queue_longer_than_its_request_cannot_be(tmp_path: Path) -> None:
    header = "http_rid,start_time(ms),execution_time(ms),queue_wait_time(ms),first_token_latency(ms)"
    _csv(tmp_path / "out" / "request.csv", header, ("1", _T, 10, 2_500, 0), ("2", _T, 10, 2, 4))
    loaded = _loaded(tmp_path, tmp_path / "out")
    assert _rows(loaded, "request", "queue_ns", "first_token_ns") == [(None, None), (2_000_000, 4_000_000)]
    assert any("is longer than the request and is left out" in say(note.message) for note in loaded.notes)


def test_time_to_the_first_token_and_for_each_further_one(tmp_path: Path) -> None:
    _requests(tmp_path / "out")
    (row,) = analyze(_loaded(tmp_path, tmp_path / "out")).measures.rows(Requests)
    assert (row.requests, row.input_tokens, row.output_tokens) == (2, 60, 227)
    # 1,500 ms for 150 further tokens, and 750 ms for 75.
    assert (row.further_token_ns, row.further_token_99_ns) == (10_000_000, 10_000_000)
    assert row.first_token_99_ns == 500_000_000
    assert row.span_ns == 2_000_000_000
    assert row.tokens_per_second == pytest.approx(113.5)
    assert row.queue_share == pytest.approx(151 / 3_000)


def _batches(folder: Path) -> None:
    header = "name,res_list,start_datetime,end_datetime,during_time(ms),batch_type,prof_id,batch_size"
    header += ",total_scheduled_tokens,dp_rank,start_time(ms),end_time(ms)"
    rows = []
    for at, (name, start, took, kind, size, tokens) in enumerate((
        ("batchFrameworkProcessing", 0, 100, "Prefill", 1, ""), ("modelExec", 100, 400, "Prefill", 1, 40),
        ("batchFrameworkProcessing", 500, 200, "Decode", 2, ""), ("modelExec", 800, 200, "Decode", 2, 2),
        ("modelExec", 1_000, 1_000, "Prefill,Decode", 2, 21),
    )):  # fmt: skip
        text = f"[{{'rid': {at}, 'iter': 0}}]"
        rows.append((name, text, "", "", f"{took}.0", kind, "1", f"{size}.0", tokens, "<NA>", _T + start, ""))
    _csv(folder / "batch.csv", header, *rows)


def test_batches_are_told_by_phase_and_pauses_by_requests(tmp_path: Path) -> None:
    _requests(tmp_path / "out")
    _batches(tmp_path / "out")
    report = analyze(_loaded(tmp_path, tmp_path / "out"))
    batches = report.rows(Batches)
    assert [(row.source, row.phase, row.batches, row.requests, row.tokens, row.host_ns) for row in batches] == [
        ("service", "prefill", 1, 1, 40, 400_000_000), ("service", "decode", 1, 2, 2, 200_000_000),
        ("service", "mixed", 1, 2, 21, 1_000_000_000),
    ]  # fmt: skip
    (pause,) = report.rows(BatchPauses)
    assert (pause.window_ns, pause.running_ns, pause.idle_ns) == (1_900_000_000, 1_600_000_000, 300_000_000)
    assert pause.scheduling_ns == 200_000_000
    assert document(report)["compute"]["pauses"][0]["idle_ms"] == 300.0


def test_forward_passes_of_devices_stand_apart(tmp_path: Path) -> None:
    header = "name,relative_start_time(ms),during_time(ms),bubble_time(ms),batch_size,batch_type,forward_iter,dp_rank"
    header += ",prof_id,hostname,start_time(ms),end_time(ms)"
    rows = [
        ("forward", 0, 10, 5, 4, "decode", turn, 0, device, "h", _T + 15 * turn + device, _T + 15 * turn + device + 10)
        for device in (0, 1)
        for turn in range(3)
    ]
    _csv(tmp_path / "out" / "forward.csv", header, *rows)
    report = analyze(_loaded(tmp_path, tmp_path / "out"))
    assert [(row.process, row.batches, row.idle_ns) for row in report.rows(BatchPauses)] == [
        ("0", 3, 10_000_000), ("1", 3, 10_000_000),
    ]  # fmt: skip
    # A batch that two devices run together is one batch.
    (decode,) = report.rows(Batches)
    assert (decode.batches, decode.requests) == (3, 12)


def test_the_cache_tells_whose_service_it_is(tmp_path: Path) -> None:
    _csv(tmp_path / "a" / "kvcache.csv", "domain,rid,timestamp(ms),name,device_kvcache_left",
         ("KVCache", 1, _T, "Allocate", 98), ("KVCache", 1, _T + 1, "Free", 100))  # fmt: skip
    _csv(tmp_path / "b" / "kvcache.csv", "name,start_time(ms),total_blocks,free_blocks,kvcache_usage_rate",
         ("Allocate", _T, 200, 150, 0.25))  # fmt: skip
    mindie, vllm = (load([tmp_path / name], Cache(tmp_path / "cache")) for name in "ab")
    assert _rows(mindie, "setting", "name", "value") == [("server", "mindie")]
    assert _rows(vllm, "setting", "name", "value") == [("server", "vllm")]
    assert _rows(mindie, "counter", "source", "series", "value") == [
        ("KV cache", "device_kvcache_left", 98.0), ("KV cache", "device_kvcache_left", 100.0),
    ]  # fmt: skip


def test_nodes_apart_for_prefill_and_decode(tmp_path: Path) -> None:
    _requests(tmp_path / "out")
    header = "rid,http_req_time(ms),send_request_time(ms),send_request_succ_time(ms),prefill_res_time(ms)"
    _csv(tmp_path / "out" / "pd_split_communication.csv", f"{header},request_end_time(ms)",
         ("r1", _T + 500, _T + 510, _T + 511, _T + 740, _T + 1_500),
         ("r9", _T, _T + 1, _T + 2, _T + 30, _T + 90))  # fmt: skip
    header = "domain,rank,rid,block_tables,seq_len,during_time(ms),start_datetime(ms),end_datetime(ms),start_time(ms)"
    moved = [("PullKVCache", device, "r1", "[1]", 20, took, "", "", _T, _T) for device, took in ((0, 3.25), (1, 4.5))]
    _csv(tmp_path / "out" / "pd_split_kvcache.csv", f"{header},end_time(ms)", *moved)
    rows = _rows(_loaded(tmp_path, tmp_path / "out"), "request", "request", "dur_ns", "prefill_ns", "transfer_ns")
    assert rows == [
        ("r0", 2_000_000_000, None, None), ("r1", 1_000_000_000, 240_000_000, 4_500_000),
        ("r9", 90_000_000, 30_000_000, None),
    ]  # fmt: skip


def test_the_database_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with closing(sqlite3.connect(tmp_path / "out" / "profiler.db")) as con, con:
        con.execute("CREATE TABLE request (http_rid, start_time, recv_token_size, reply_token_size, execution_time, "
                    "queue_wait_time, first_token_latency)")  # fmt: skip
        con.execute("INSERT INTO request VALUES ('r0', ?, 40, 151, 2000.0, 100.5, 500.0)", (_T,))
        con.execute("CREATE TABLE batch (name, batch_type, start_time, during_time, batch_size, prof_id)")
        con.execute("INSERT INTO batch VALUES ('modelExec', 'Decode', ?, 12.5, 8.0, '1')", (_T + 1,))
    loaded = _loaded(tmp_path, tmp_path / "out")
    assert _rows(loaded, "request", "start_ns", "dur_ns", "queue_ns", "first_token_ns") == [
        (_T * 10**6, 2_000_000_000, 100_500_000, 500_000_000)
    ]
    assert _rows(loaded, "batch", "kind", "phase", "dur_ns", "requests") == [("execute", "decode", 12_500_000, 8)]


def test_beside_captures_they_go_with_the_first_rank(tmp_path: Path) -> None:
    job = generate(tmp_path / "job", Job(ranks=2, steps=2, layers=1), formats=["ascend-text"])
    _requests(tmp_path / "job" / "out")
    loaded = _loaded(tmp_path, job)
    epoch = loaded.ranks[0].table("rank", "epoch_ns")["epoch_ns"][0]
    assert [rank.table("request").height for rank in loaded.ranks] == [2, 0]
    assert loaded.ranks[0].table("request")["start_ns"][0] == _T * 10**6 - (epoch or 0)
    assert len(analyze(loaded).steps) == 4
    assert {row.state for row in loaded.files if row.name == "request.csv"} == {"read"}


def test_a_broken_service_takes_nothing_from_the_captures_beside_it(tmp_path: Path) -> None:
    job = generate(tmp_path / "job", Job(ranks=1, steps=2, layers=1), formats=["ascend-text"])
    _csv(tmp_path / "job" / "out" / "request.csv", "http_rid,start_time(ms)")
    loaded = _loaded(tmp_path, job)
    assert any("no request and no batch can be read" in say(note.message) for note in loaded.notes)
    assert len(analyze(loaded).steps) == 2


def test_a_file_of_another_program_is_none(tmp_path: Path) -> None:
    _csv(tmp_path / "out" / "request.csv", "id,url", (1, "x"))
    _csv(tmp_path / "out" / "batch.csv", "name,size", ("a", 2))
    with pytest.raises(InputError):
        _loaded(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("idle", [False, True])
def test_a_service_that_waits_between_batches_is_told_to_schedule_ahead(tmp_path: Path, *, idle: bool) -> None:
    write(tmp_path / "out", Service(pause_ms=15.0 if idle else 0.2))
    report = analyze(_loaded(tmp_path, tmp_path / "out"))
    found = [one for one in report.findings if one.code == "CPU013"]
    assert [one.state for one in found] == (["preview"] if idle else [])
    assert all("MINDIE_ASYNC_SCHEDULING_ENABLE=1" in say(one.actions[0].do) and len(one.actions) == 1 for one in found)


def test_the_terminal_says_how_long_requests_take(tmp_path: Path) -> None:
    write(tmp_path / "out", Service())
    out = io.StringIO()
    report = analyze(_loaded(tmp_path, tmp_path / "out"))
    assert [say(note.message) for note in report.diagnostics] == []
    render_text(report, Console(file=out, width=200))
    assert say(report.verdict.message).startswith("Requests take ")
    (line,) = (line for line in out.getvalue().splitlines() if line.startswith("Requests 40 "))
    assert "first token" in line
    assert "further token" in line
