"""Finds steps that are longer at a regular period, and the user's code that takes the extra time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from hermes.knowledge.host_work import DATA, STARTING, host_reason
from hermes.knowledge.input_work import END_FRAME, EPOCH_FRAME
from hermes.knowledge.user_code import frame_of, is_own
from hermes.model.code_measures import LongSteps
from hermes.profiles.measure.code.line_samples import told_of
from hermes.profiles.measure.host.settings import told_before
from hermes.profiles.measure.registry import RankTables, per_rank

_STARTS = re.compile(f"{EPOCH_FRAME}|{END_FRAME}")
_TRAINS = re.compile(r"(?i)run_backward|torch/optim/\w+\.py\(\d+\): step")
_FEW = 3
"""With fewer samples of long steps, nothing is said about them."""
_MOST_OF = 0.5
"""The least share of a long step's extra time that the line which explains it must take."""
_TRAINING = 0.25
"""The least share of samples in backward passes and updates that shows training.

A forward pass takes half as long as a backward pass.
"""
_NEW = 0.2
"""The ratio of samples in usual and long steps below which a function counts as called in long steps only."""

Key = tuple[str, str]


@dataclass(slots=True)
class _Looks:
    """Thread samples of steps of one kind: by file and function, how often, at which line, with which calls below."""

    many: int = 0
    training: int = 0
    seen: Counter[Key] = field(default_factory=Counter)
    lines: dict[Key, Counter[str]] = field(default_factory=dict)
    depth: dict[Key, int] = field(default_factory=dict)
    below: dict[Key, Counter[str]] = field(default_factory=dict)
    callers: dict[Key, Counter[str]] = field(default_factory=dict)

    def take(self, frames: Sequence[str], told: Collection[str]) -> None:
        """Count one sample: its frames, innermost first."""
        self.many += 1
        self.training += any(_TRAINS.search(text) for text in frames)
        own = [
            (at, (frame.file, frame.function), frame.said)
            for at, text in enumerate(frames)
            if (frame := frame_of(text)) and frame.function != "<module>" and is_own(text.strip(), told)
        ]
        met: set[Key] = set()
        for place, (at, key, line) in enumerate(own):
            if key in met:
                continue
            met.add(key)
            self.seen[key] += 1
            self.lines.setdefault(key, Counter())[line] += 1
            self.depth[key] = max(self.depth.get(key, 0), len(own) - place)
            self.below.setdefault(key, Counter())[_kind(frames[:at])] += 1
            if place + 1 < len(own):
                self.callers.setdefault(key, Counter())[own[place + 1][2]] += 1


@per_rank(LongSteps, needs={"setting": ("source", "name", "value")})
def long_steps_of(rank: RankTables) -> LongSteps | None:
    """The regular long steps of a rank; None if the capture does not report any."""
    before = told_before(rank.table("setting"))
    told = {name.removeprefix("long_"): value for name, value in before.items() if name.startswith("long_")}
    if not {"period", "last", "count", "of", "usual_ns", "extra_ns", "share_ppm"} <= told.keys() or told["period"] < 2:
        return None
    found = LongSteps(
        rank=rank.rank, period=told["period"], last=told["last"], count=told["count"], steps=told["of"],
        usual_ns=told["usual_ns"], extra_ns=told["extra_ns"], share=min(told["share_ppm"] / 1e6, 1.0),
    )  # fmt: skip
    return _with_line(found, rank)


def _with_line(found: LongSteps, rank: RankTables) -> LongSteps:
    sample = rank.data.table("sample", "frames", "long")
    told = told_of(rank)
    long, usual = _Looks(), _Looks()
    for frames, is_long in sample.iter_rows():
        (long if is_long else usual).take(str(frames).split("\n"), told)
    key = _spent_in(found, long, usual) if long.many >= _FEW else None
    if key is None:
        return found
    length = found.usual_ns + found.extra_ns
    more = length * long.training / long.many - found.usual_ns * usual.training / max(1, usual.many)
    called = _mostly(long.callers.get(key, Counter()))
    return replace(
        found,
        line=_mostly(long.lines[key]),
        called=called,
        why=_why(long.below[key]),
        trains=more >= _TRAINING * found.extra_ns,
    )


def _spent_in(found: LongSteps, long: _Looks, usual: _Looks) -> Key | None:
    """The outermost function that only long steps call, else the innermost function with most of their extra time."""
    length = found.usual_ns + found.extra_ns
    long_ns = {key: length * many / long.many for key, many in long.seen.items()}
    usual_ns = {key: found.usual_ns * many / usual.many for key, many in usual.seen.items()}
    large = [key for key, ns in long_ns.items() if ns - usual_ns.get(key, 0) >= _MOST_OF * found.extra_ns]
    new = [key for key in large if usual.seen[key] * long.many <= _NEW * long.seen[key] * usual.many]
    if new:
        return min(new, key=lambda key: (long.depth[key], key))
    return max(large, key=lambda key: (long.depth[key], key), default=None)


def _mostly(lines: Counter[str]) -> str:
    return max(lines.items(), key=lambda one: (one[1], one[0]), default=("", 0))[0]


def _why(below: Counter[str]) -> str:
    """The purpose of most samples in a function; for waits for batches, whether workers were started for them."""
    every, starts = sum(below.values()), below[STARTING]
    if starts >= _NEW * every and starts + below[DATA] >= _MOST_OF * every:
        return STARTING
    why, many = max(below.items(), key=lambda one: (one[1], one[0]), default=("", 0))
    return why if many >= _MOST_OF * every else ""


def _kind(frames: Sequence[str]) -> str:
    """The purpose of the innermost frames, if their names tell it."""
    lower = [frame.strip().lower() for frame in frames]
    if any(_STARTS.search(one) for one in lower):
        return STARTING
    return next((reason for one in lower if (reason := host_reason(one))), "")
