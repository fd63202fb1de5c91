"""Builds the environment of a command whose Python processes record themselves, or write a snapshot of their setup."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hermes.inside.record.layout import OPTIONS_VARIABLE, SNAPSHOT_VARIABLE

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not worth its import here
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # noqa: PTH120


def environment(
    given: Mapping[str, str], *, record: Mapping[str, Any] | None, snapshot: os.PathLike[str] | str | None
) -> dict[str, str]:
    """The environment of a command that records its tensors, or writes a snapshot."""
    found = dict(given)
    boot = os.path.join(_HERE, "boot")  # noqa: PTH118
    found["PYTHONPATH"] = os.pathsep.join([boot, *filter(None, [given.get("PYTHONPATH", "")])])
    found["HERMES_HOME"] = _HOME
    for name in (OPTIONS_VARIABLE, SNAPSHOT_VARIABLE, "HERMES_RECORD_PROCESS", "HERMES_SNAPSHOT_PROCESS"):
        found.pop(name, None)
    if record is not None:
        found[OPTIONS_VARIABLE] = json.dumps({**record, "out": os.path.realpath(record["out"])})
    if snapshot is not None:
        found[SNAPSHOT_VARIABLE] = os.path.realpath(snapshot)
    return found
