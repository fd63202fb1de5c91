"""A flight recorder says which collectives a rank has entered: asked of a running process, or left as a dump."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.live_job import LiveJob, live_job
from tests.patience import until

from hermes.jobs.connections import _rows
from hermes.jobs.pending_collectives import groups, groups_of
from hermes.jobs.plain_pickle import NotPlainError, read_plain

__all__ = ["live_job"]
RECORDED = """
import os, sys, threading, time
import torch, torch.distributed as dist
from pathlib import Path
from hermes.inside.monitor.flight_recorder import FlightRecorderPipe
rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=rank, world_size=2)
dist.all_reduce(torch.ones(4))
threads = threading.active_count()
flight = FlightRecorderPipe(Path(sys.argv[1]), rank, sys.modules, os.environ)
print(list(flight.told), flush=True)
def gather():
    dist.all_gather_into_tensor(torch.ones(2), torch.ones(1))
if rank:
    sys.stdin.readline()
    flight.close()
    open(sys.argv[3] + ".dump", "wb").write(torch._C._distributed_c10d._dump_fr_trace())
    os._exit(0)
gather()
"""


def entry(number: int, name: str, **changed: Any) -> dict[str, Any]:
    return {
        "collective_seq_id": number, "process_group": ["0", "default_pg"], "pg_id": 0, "profiling_name": name,
        "state": "scheduled", "retired": False, "is_p2p": False, "input_sizes": [[64, 2], [1]], **changed,
    }  # fmt: skip


@pytest.mark.live
def test_a_running_process_says_what_it_waits_in_and_a_dump_what_it_had_entered(
    live_job: LiveJob, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    folder, store = live_job.job.folder, str(tmp_path / "store")
    both = [subprocess.Popen([sys.executable, "-c", RECORDED, folder, str(rank), store], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True) for rank in (0, 1)]  # fmt: skip
    try:
        for one in both:
            assert one.stdout is not None
            assert one.stdout.readline() == "['dumps', 'collectives']\n"
        about = [{"collectives": {"pipe": f".collectives-rank{rank}", "file": f"collectives-rank{rank}.json"}}
                 for rank in (0, 1)]  # fmt: skip

        def waits() -> Any:
            # A process of a busy machine may take longer to answer than it is waited for.
            return next((one for one in groups(live_job.job, about[0], 0, alive=True) if one.waiting), None)

        group = until(waits, 60)
        assert (group.about, group.last, group.ranks) == ("default_pg", 2, (0, 1))
        assert (group.waiting.number, group.waiting.sizes) == (2, "1")
        assert "gather" in group.waiting.name
        (other,) = until(lambda: groups(live_job.job, about[1], 0, alive=True), 60)
        assert (other.last, other.waiting) == (1, None)
        # Once it has closed its offer nobody is waited for, and the thread that served it does not keep the process.
        second = both[1]
        assert second.stdin is not None
        second.stdin.write("\n")
        second.stdin.flush()
        assert second.wait(60) == 0
        assert not (folder / ".collectives-rank1").exists()
        begin = time.monotonic()
        assert groups(live_job.job, about[1], 0, alive=True) == []
        assert time.monotonic() - begin < 10
        # It left a pickle, read as plain values; a dump that is older than the rank's last step is of another time.
        dump = {"dumps": [f"{store}.dump"]}
        (left,) = groups(live_job.job, dump, 0, alive=False)
        assert (left.about, left.last, left.waiting) == ("default_pg", 1, None)
        assert groups(live_job.job, dump, time.time_ns() + 10**9, alive=False) == []
    finally:
        for one in both:
            one.kill()
            one.communicate()


def test_what_is_over_is_not_waited_in_and_a_send_has_no_number() -> None:
    rows = [entry(1, "nccl:all_reduce", retired=True), entry(2, "nccl:all_reduce", state="completed"),
            entry(2, "nccl:recv 0<-1", is_p2p=True)]  # fmt: skip
    (group,) = groups_of({"entries": rows, "pg_status": {"0": {"last_enqueued_collective": "5"}}, "pg_config": {}})
    assert (group.last, group.waiting and (group.waiting.number, group.waiting.name)) == (5, (0, "nccl:recv 0<-1"))
    frames = [{"name": "all_reduce", "filename": "/x/site-packages/torch/distributed/distributed_c10d.py", "line": 1},
              {"name": "train", "filename": "/home/me/train.py", "line": 30}]  # fmt: skip
    first = entry(3, "nccl:all_gather", frames=frames)
    config = {"0": {"ranks": "[0, 2, 4]"}, "1": {"ranks": "[1]"}}
    (group,) = groups_of({"entries": [*rows, entry(4, "nccl:barrier"), first], "pg_config": config})
    assert group.waiting is not None
    assert (group.waiting.number, group.waiting.line, group.ranks) == (3, "train.py:30 (train)", (0, 2, 4))
    assert group.waiting.sizes == "64x2 1"


def test_documents_that_are_none_have_no_groups() -> None:
    odd: list[object] = [None, 7, [], {}, {"entries": 7}, {"entries": [7, {}, {"process_group": 3}]}]
    odd += [{"entries": [entry(1, "x", process_group=[[], {}])], "pg_config": 3, "pg_status": []}]
    for one in odd:
        assert all(group.waiting is None or group.waiting.number == 1 for group in groups_of(one))


def test_a_dump_that_would_build_anything_is_refused() -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.system, ("touch /tmp/never",)

    plain = {"a": [1, 2.5, None, True, ("x", -70_000, 1 << 40)], "b": {"c": []}, "é": 256}
    assert read_plain(pickle.dumps(plain, 2)) == plain
    for protocol in (0, 1, 2, 3, 4, 5):
        for harm in (Harm(), print, {1, 2}, b"bytes", [Harm()]):
            with pytest.raises(NotPlainError):
                read_plain(pickle.dumps(harm, protocol))
    whole = pickle.dumps(plain, 2)
    for end in range(len(whole)):
        with pytest.raises(NotPlainError):
            read_plain(whole[:end])
    for broken in (b".", b"((.", b"}]u.", b"]}e.", b"(}s.", b"K\x01h\x07.", b"}(]K\x01u.", b"X\xff\xff\xff\x7fa.",
                   struct.pack("<BI", ord("X"), 1) + b"\xff.", b"K\x01K\x02."):  # fmt: skip
        with pytest.raises(NotPlainError):
            read_plain(broken)


def test_a_pipe_or_dump_that_is_none_is_not_waited_for(live_job: LiveJob, tmp_path: Path) -> None:
    folder = live_job.job.folder
    os.mkfifo(folder / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "junk").write_bytes(b"\x00junk")
    for about in (
        {"collectives": {"pipe": "../fifo", "file": "x"}}, {"collectives": {"pipe": "fifo", "file": "x"}},
        {"collectives": 7}, {"dumps": [str(folder / "fifo"), str(tmp_path / "link"), 7, "relative"]},
        {"dumps": [str(tmp_path / "junk")]}, {"dumps": [str(tmp_path)]},
    ):  # fmt: skip
        begin = time.monotonic()
        assert groups(live_job.job, about, 0, alive=True) == []
        assert time.monotonic() - begin < 2
    (folder / "done.json").write_text(json.dumps({"entries": [entry(1, "x")]}))


def test_the_kernel_s_table_of_connections_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tcp"
    path.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100004D:7532 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 11 1 0 100 0 0 10 0\n"
        "   1: 0100004D:A2B4 0300004D:C350 01 00001000:00000000 01:000003E8 00000007 0 0 12 3 0 20 4 0 10 7\n"
        "   2: 0100004D:A2B4 0200004D:C350 01 00000000:00000000 02:000003E8 00000003 0 0 13 3 0 20 4 0 10 7\n"
        "   3: broken\n"
    )
    if sys.byteorder == "little":
        assert list(_rows(path)) == [("77.0.0.1", "77.0.0.3", 7, "12"), ("77.0.0.1", "77.0.0.2", 0, "13")]
    six = tmp_path / "tcp6"
    six.write_text(
        "head\n 0: 0000000000000000FFFF00000100004D:1 0000000000000000FFFF00000300004D:2 01 0:0 01:1 4 0 0 9\n"
    )
    if sys.byteorder == "little":
        assert list(_rows(six)) == [("77.0.0.1", "77.0.0.3", 4, "9")]
    assert list(_rows(tmp_path / "none")) == []
