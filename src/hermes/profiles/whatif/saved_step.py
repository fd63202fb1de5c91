"""Stores a step for replay as a file of plain arrays; a later process need not read the ranks again."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from hermes.knowledge.host_work import REASONS
from hermes.profiles.measure.path.event_graph import EventGraph
from hermes.profiles.whatif.step_event_graph import JobStep

_OF_GRAPH = ("start", "dur", "release", "first", "pred", "lag", "kind", "task", "thread", "rank")
_TEXTS = ("component", "name", "type")
_MAPS = ("held_by", "sinks", "ends", "origins")
_ABOUT = "about"


def save(job: JobStep, path: Path) -> None:
    """Write a step to a file: numbers as arrays, texts as distinct texts with an index per node. Raises `OSError`."""
    places = np.flatnonzero(job.reason)
    about: dict[str, object] = {"begin_ns": job.begin_ns, "reasons": list(REASONS)}
    made: dict[str, Any] = {name: getattr(job.graph, name) for name in _OF_GRAPH}
    made |= {"bytes": job.bytes, "reason_at": places, "reason": job.reason.ravel()[places]}
    for name in _TEXTS:
        distinct = {text: place for place, text in enumerate(dict.fromkeys(getattr(job, name)))}
        made[name] = np.array([distinct[text] for text in getattr(job, name)], dtype=np.int32)
        about[name] = list(distinct)
    for name in _MAPS:
        pairs = list(getattr(job.graph, name).items())
        made[name] = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    made[_ABOUT] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(path, **made)


def restored(path: Path) -> JobStep | None:
    """The step that was saved in a file; None if no such step can be read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return _step(kept)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def _step(kept: Any) -> JobStep:
    about = json.loads(kept[_ABOUT].tobytes())
    if about["reasons"] != list(REASONS):
        raise ValueError("the reasons of host work are others now")
    maps: dict[str, Any] = {name: {int(key): int(value) for key, value in kept[name]} for name in _MAPS}
    columns: dict[str, Any] = {name: kept[name] for name in _OF_GRAPH}
    graph = EventGraph(**columns, **maps)
    reason = np.zeros((len(graph.pred), len(REASONS)), dtype=np.int64)
    reason.reshape(-1)[kept["reason_at"]] = kept["reason"]
    texts = {name: np.array(about[name], dtype=object)[kept[name]] for name in _TEXTS}
    return JobStep(graph=graph, bytes=kept["bytes"], reason=reason, begin_ns=int(about["begin_ns"]), **texts)
