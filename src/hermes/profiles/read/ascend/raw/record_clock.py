"""Converts the clock of raw records, processor counts or monotonic time, to Unix time.

As torch_npu 2.13.0 computes it (`analysis/_profiler_config.py`): a count becomes monotonic time by the frequency in
`host/info.json` and the pair in `host/host_start.log`, else by `start_info` of `profiler_info`. Monotonic time becomes
Unix time by the pair in `host/start_info` (or `device_N/start_info.N`), else by `end_info`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hermes.base.units import whole_number
from hermes.profiles.read.ascend.capture_folders import Capture, Json, load_json

_SMALL = 1 << 20
_LOG_LINE = re.compile(r"^\s*(\w+)\s*[:=]\s*(\d{1,19})\s*$", re.MULTILINE)
_FREQUENCY_MHZ = Fraction(100)
_NANOSECONDS_MHZ = Fraction(1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Converts recorded times to nanoseconds; `unix` says whether the result counts from 1970."""

    counts: bool
    ns_per_count: Fraction
    first_count: int
    first_ns: int
    ahead_ns: int
    unix: bool
    cann_counts: bool = False

    def of_cann(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times of CANN's host calls in ns; they are counts if `host/info.json` has the processor's frequency."""
        return self._of(times) if self.cann_counts else times + self.ahead_ns

    def at(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Recorded times converted to ns on the clock of the capture."""
        return self._of(times) if self.counts else times + self.ahead_ns

    def _of(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        since = (times - self.first_count) * self.ns_per_count.numerator // self.ns_per_count.denominator
        return since + (self.first_ns + self.ahead_ns)


def clock_of(capture: Capture, info: Json) -> Clock:
    """The clock of a capture, from the small files beside its records."""
    started, ended = _object(info.get("start_info")), _object(info.get("end_info"))
    beside = {path.name: path for path in reversed(capture.raw) if path.parent.name == "host"}
    pair = _log(beside.get("host_start.log"))
    host = _json(beside.get("info.json"))
    processors = host.get("CPU")
    first = processors[0] if isinstance(processors, list) and processors else None
    own = _positive(_object(first).get("Frequency"))
    frequency = own or _positive(started.get("freq")) or _FREQUENCY_MHZ
    ahead = _ahead(capture, beside, ended)
    return Clock(
        counts=bool(started.get("syscnt_enable", False)),
        ns_per_count=(1000 / frequency).limit_denominator(10_000),
        first_count=pair.get("cntvct", _integer(started.get("start_cnt"))),
        first_ns=pair.get("clock_monotonic_raw", _integer(started.get("start_monotonic"))),
        ahead_ns=ahead or 0,
        unix=ahead is not None,
        cann_counts=own is not None and own != _NANOSECONDS_MHZ,
    )


def _ahead(capture: Capture, beside: dict[str, Path], ended: Json) -> int | None:
    """How many ns Unix time is ahead of monotonic time; None if unknown."""
    devices = [path for path in capture.raw if re.fullmatch(r"start_info\.\d+", path.name)]
    for path in filter(None, (beside.get("start_info"), *devices)):
        pair = _json(path)
        begin, monotonic = _positive(pair.get("collectionTimeBegin")), _positive(pair.get("clockMonotonicRaw"))
        if begin and monotonic:
            return int(begin * 1000) - int(monotonic)
    unix, monotonic = _positive(ended.get("collectionTimeEnd")), _positive(ended.get("MonotonicTimeEnd"))
    return int(unix - monotonic) if unix and monotonic else None


def _log(path: Path | None) -> dict[str, int]:
    """The numbers of `host_start.log`, an ini file with a section for the host."""
    if path is None:
        return {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_SMALL)
    except OSError:
        return {}
    # Sections of devices follow in the same file.
    _, _, host = text.partition("[Host]")
    found = _LOG_LINE.findall((host or text).partition("\n[")[0])
    return {name: number for name, value in found if (number := whole_number(value)) is not None}


def _json(path: Path | None) -> Json:
    """The object in a small file of CANN; some files are written as Python dictionaries, with single quotes."""
    if path is None:
        return {}
    try:
        return load_json(path, _SMALL)
    except (OSError, ValueError):
        pass
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            value = ast.literal_eval(file.read(_SMALL))
    except (OSError, ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def host_facts(capture: Capture) -> Json:
    """The facts in `host/info.json` or `device_N/info.json.N` about host, devices, rank and process."""
    for path in capture.raw:
        if path.name == "info.json" or path.name.startswith("info.json."):
            found = _json(path)
            if found:
                return found
    return {}


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int:
    number = _positive(value)
    return int(number) if number else 0


def _positive(value: object) -> Fraction | None:
    text = str(value).strip()
    if not re.fullmatch(r"\d{1,20}(\.\d{1,12})?", text):
        return None
    return Fraction(text) or None
