"""Writes one rank's capture as torch_npu leaves it before anything exports it: `FRAMEWORK` and `PROF_*`.

Records as the parsers in the wheel of torch_npu 2.13.0 read them. What the device wrote is opaque: its layout is not
public, and only CANN's tools read it.
"""

from __future__ import annotations

import json
from pathlib import Path
from struct import Struct

from hermes_testing.ascend_common import Options, epoch, folder_name
from hermes_testing.ascend_text import write_info
from hermes_testing.job import Job
from hermes_testing.profile import HostCall, Profile

_HEAD = Struct("<HI")
_OP_RANGE, _OP_MARK, _MEMORY = Struct("<3q4QB?"), Struct("<q4Q"), Struct("<7q2b3B2Q")
_TRACED, _COLLECTED, _KEY = Struct("<4QB"), Struct("<3Q"), Struct("<Q")
_NPU = 20


def write_ascend_raw(folder: Path, job: Job, profile: Profile, options: Options) -> Path:
    """Write the capture below `folder`; returns its own folder."""
    root = folder / folder_name(profile)
    records = root / "FRAMEWORK"
    records.mkdir(parents=True)
    write_info(root, job, profile, options, export="text")
    counts = _Counts(root, profile)
    calls = [call for call in profile.calls if call.kind in ("op", "step")]
    (records / "torch.op_range").write_bytes(b"".join(_operator(profile, call, counts) for call in calls))
    queued = [call for call in profile.calls if call.kind in ("enqueue", "dequeue")]
    (records / "torch.op_mark").write_bytes(b"".join(_marks(profile, call, counts) for call in queued))
    _python(records, profile, counts)
    collected = [_COLLECTED.pack(profile.pid, counts(start), counts(end)) for start, end in profile.collections]
    (records / "torch.gc_record").write_bytes(b"".join(collected))
    (records / "torch.memory_usage").write_bytes(_memory(profile, counts))
    _write_prof(root, profile, counts)
    return root


class _Counts:
    """Times of the profile as counts of the processor, ten nanoseconds each."""

    def __init__(self, root: Path, profile: Profile) -> None:
        (info,) = root.glob("profiler_info_*.json")
        started = json.loads(info.read_text("utf-8"))["start_info"]
        self.first, self.monotonic = started["start_cnt"], started["start_monotonic"]

    def __call__(self, ns: int) -> int:
        return int(self.first) + ns // 10


def _chained(fixed: bytes, **fields: str | None) -> bytes:
    """One record; fields are named `f2` for the number 2."""
    body = fixed
    for name, text in fields.items():
        if text is not None:
            value = text.encode()
            body += _HEAD.pack(int(name[1:]), len(value)) + value
    return _HEAD.pack(1, len(body)) + body


def _operator(profile: Profile, call: HostCall, counts: _Counts) -> bytes:
    fixed = _OP_RANGE.pack(
        counts(call.start_ns), counts(call.end_ns), call.sequence, profile.pid, call.tid, call.tid, call.forward_tid,
        0, False,
    )  # fmt: skip
    stack = ";".join(call.stack) or None
    return _chained(fixed, f2=call.name, f3=call.dtypes, f4=call.shapes, f8=stack)


def _marks(profile: Profile, call: HostCall, counts: _Counts) -> bytes:
    name = call.name.partition("@")[2] or call.name
    first = 0 if call.kind == "enqueue" else 2
    moments = ((call.start_ns, first), (call.end_ns, first + 1))
    return b"".join(
        _chained(_OP_MARK.pack(counts(moment), what, call.number, call.tid, profile.pid), f1=name)
        for moment, what in moments
    )


def _python(records: Path, profile: Profile, counts: _Counts) -> None:
    keys: dict[str, int] = {}
    events: list[tuple[int, int, int, int]] = []
    for place, call in enumerate(call for call in profile.calls if call.kind == "python"):
        text = call.name
        if text.startswith("nn.Module: "):
            name, _, number = text.removeprefix("nn.Module: ").rpartition("_")
            text = f"{name}######{number}"
        key = keys.setdefault(text, len(keys) + 1)
        events += [(call.start_ns, place, key, 0), (call.end_ns, -place, key, 1)]
    # At one moment what ends comes before what begins, and of two that begin the outer one.
    events.sort(key=lambda event: (event[0], event[3] == 0, event[1]))
    tid = profile.main_tid
    traced = [_TRACED.pack(counts(moment), tid, profile.pid, key, what) for moment, _, key, what in events]
    (records / "torch.python_tracer_func").write_bytes(b"".join(traced))
    named = [_chained(_KEY.pack(key), f1=text) for text, key in keys.items()]
    (records / "torch.python_tracer_hash").write_bytes(b"".join(named))


def _memory(profile: Profile, counts: _Counts) -> bytes:
    moments = [(block.alloc_ns, 0, place, block.bytes) for place, block in enumerate(profile.blocks)]
    moments += [
        (block.release_ns, 1, place, block.bytes)
        for place, block in enumerate(profile.blocks)
        if block.release_ns is not None
    ]
    total, rows = 0, []
    for moment, what, place, size in sorted(moments):
        total += -size if what else size
        fixed = _MEMORY.pack(
            4096 + place, counts(moment), -size if what else size, total, 1 << 34, total, 7, _NPU, profile.device, 0,
            what, 0, profile.main_tid, profile.pid,
        )  # fmt: skip
        rows.append(_chained(fixed))
    return b"".join(rows)


def _write_prof(root: Path, profile: Profile, counts: _Counts) -> None:
    prof = root / f"PROF_000001_20251104120000{profile.rank:03d}_HERMESTESTING{profile.rank}A"
    host, data = prof / "host", prof / f"device_{profile.device}" / "data"
    for folder in (host / "data", data):
        folder.mkdir(parents=True)
    begin = epoch(profile, 0)
    start = {"collectionTimeBegin": f"{begin // 1000}.{begin % 1000:03d}", "clockMonotonicRaw": str(counts.monotonic)}
    (host / "start_info").write_text(json.dumps(start), "utf-8")
    info = {
        "hostname": f"host{profile.host}", "hostUid": str(1000 + profile.host), "pid": str(profile.pid),
        "devices": str(profile.device), "rank_id": profile.rank, "CPU": [{"Frequency": "100.000000"}],
    }  # fmt: skip
    (host / "info.json").write_text(json.dumps(info), "utf-8")
    (host / "host_start.log").write_text(
        f"[Host]\nclock_monotonic_raw: {counts.monotonic}\ncntvct: {counts.first}\n[Device]\ncntvct: 1\n", "utf-8"
    )
    (data / f"stars_soc.data.{profile.device}.slice_0").write_bytes(bytes(4096))
