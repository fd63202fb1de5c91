"""Finds the task before each task, on its own lane and on others."""

from __future__ import annotations

import numpy as np

from hermes.base.intervals import Ints

NONE = -1


def before_on(lane: Ints) -> Ints:
    """For each task the task before it on its lane; -1 if there is none."""
    order = np.argsort(lane, kind="stable")
    before = np.full(len(lane), NONE, dtype=np.int64)
    same = lane[order][1:] == lane[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def last_ended(end: Ints, candidate: np.ndarray, moment: Ints, lane: Ints) -> Ints:
    """For each task the candidate of another lane that ended last at or before its `moment`."""
    pool = np.flatnonzero(candidate)
    if not len(pool):
        return np.full(len(end), NONE, dtype=np.int64)
    pool = pool[np.argsort(end[pool], kind="stable")]
    # For each candidate, the last one before it on another lane: the one before its own lane's run began.
    places = np.arange(len(pool))
    begins = np.concatenate([[True], lane[pool][1:] != lane[pool][:-1]])
    elsewhere = np.maximum.accumulate(np.where(begins, places, 0)) - 1
    place = np.searchsorted(end[pool], moment, side="right") - 1
    place = np.where((place >= 0) & (lane[pool[np.maximum(place, 0)]] == lane), elsewhere[np.maximum(place, 0)], place)
    return np.where(place >= 0, pool[np.maximum(place, 0)], NONE)
