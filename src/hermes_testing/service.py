"""A modelled inference service, written as msServiceProfiler writes one of MindIE: requests, batches and KV cache."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_MS_1970 = 1_745_404_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What is served: requests that come one after the other, in batches of those that are there.

    `pause_ms` is how long the scheduler takes between two batches with nothing running meanwhile.
    """

    requests: int = 40
    every_ms: float = 20.0
    prompt_tokens: int = 512
    answer_tokens: int = 32
    prefill_ms: float = 60.0
    decode_ms: float = 25.0
    pause_ms: float = 0.2
    most_in_batch: int = 8
    blocks: int = 1_000
    seed: int = 0


@dataclass(slots=True, kw_only=True)
class _Request:
    number: int
    came: float
    begun: float | None = None
    first: float | None = None
    done: float | None = None
    written: int = 0


def write(folder: Path, service: Service) -> Path:
    """Write `request.csv`, `batch.csv` and `kvcache.csv` of that service into the folder, and give it back."""
    requests, batches, blocks = _run(service)
    folder.mkdir(parents=True, exist_ok=True)
    _csv(
        folder / "request.csv",
        ("http_rid", "start_time(ms)", "recv_token_size", "reply_token_size", "execution_time(ms)",
         "queue_wait_time(ms)", "first_token_latency(ms)"),
        (
            (one.number, _MS_1970 + round(one.came), service.prompt_tokens, one.written, _text(one.done, one.came),
             _text(one.begun, one.came), _text(one.first, one.came))
            for one in requests
        ),
    )  # fmt: skip
    _csv(
        folder / "batch.csv",
        ("name", "res_list", "start_time(ms)", "end_time(ms)", "batch_size", "batch_type", "during_time(ms)",
         "prof_id"),
        (
            (name, [{"rid": number} for number in held], f"{_MS_1970 + start:.3f}", f"{_MS_1970 + end:.3f}",
             float(len(held)), phase, f"{end - start:.3f}", 1)
            for name, phase, start, end, held in batches
        ),
    )  # fmt: skip
    _csv(
        folder / "kvcache.csv",
        ("domain", "rid", "timestamp(ms)", "name", "device_kvcache_left"),
        (("KVCache", number, f"{_MS_1970 + at:.3f}", name, left) for number, at, name, left in blocks),
    )
    return folder


_Batch = tuple[str, str, float, float, list[int]]
_Block = tuple[int, float, str, int]


def _run(service: Service) -> tuple[list[_Request], list[_Batch], list[_Block]]:
    """Prefill of whoever waits goes before a step of decoding of all that run."""
    chance = random.Random(service.seed)
    requests = [_Request(number=at, came=at * service.every_ms) for at in range(service.requests)]
    waiting, running = list(requests), list[_Request]()
    batches: list[_Batch] = []
    blocks: list[_Block] = []
    now, left = 0.0, service.blocks
    while waiting or running:
        there = [one for one in waiting if one.came <= now][: service.most_in_batch - len(running)]
        if not there and not running:
            now = waiting[0].came
            continue
        held = there or running
        phase = "Prefill" if there else "Decode"
        end = now + service.pause_ms
        batches.append(("batchFrameworkProcessing", phase, now, end, [one.number for one in held]))
        for one in there:
            one.begun = end
            left -= 8
            blocks.append((one.number, end, "Allocate", left))
        took = (service.prefill_ms if there else service.decode_ms) * chance.uniform(0.95, 1.05)
        now = end + took
        batches.append(("modelExec", phase, end, now, [one.number for one in held]))
        for one in held:
            one.written += 1
            one.first = one.first or now
            if one.written == service.answer_tokens:
                one.done = now
                left += 8
                blocks.append((one.number, now, "Free", left))
        waiting = [one for one in waiting if one not in there]
        running = [one for one in [*running, *there] if one.done is None]
    return requests, batches, blocks


def _text(end: float | None, start: float) -> str:
    return "" if end is None else f"{end - start:.3f}"


def _csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
